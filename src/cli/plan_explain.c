/* plan_explain.c - why the winner is what it is, in the order in which one thinks: what does not
 * fit, what was climbed to make it fit, what data parallelism remains, which messages cross which
 * links, then the knobs of the platform, and what more GPUs would bring. */
#include <stdio.h>

#include "cli/plan.h"
#include "layout/members.h"
#include "program/segment.h"

static double gib(int64_t bytes)
{
    return (double)bytes / 1073741824.0;
}

static void say_memory(const plan_answer *p)
{
    const found *f = &p->result->best[0];
    const price *x = &f->exact;
    printf(
        "Why      1. Fit. Rank %lld is the fullest: %.2f GiB of %.2f GiB: weights %.2f, gradients "
        "%.2f, optimizer %.2f,\n            activations %.2f, messages and buckets %.2f, "
        "temporaries %.2f, graphs %.2f.\n",
        (long long)x->fullest, gib(x->peak_bytes), gib(x->usable), gib(x->bytes[REGION_WEIGHTS]),
        gib(x->bytes[REGION_GRADIENTS]), gib(x->bytes[REGION_OPTIMIZER]),
        gib(x->bytes[REGION_SAVED]), gib(x->bytes[REGION_BOUNDARY]), gib(x->bytes[REGION_TEMP]),
        gib(x->beside));
    const search_counts *n = &p->result->counts;
    double all = (double)(n->legal ? n->legal : 1);
    printf("            %.0f %% of all layouts cannot hold their state, %.0f %% not their "
           "activations beside it.\n",
           100 * (double)n->state / all, 100 * (double)n->saved / all);
}

static void say_ladder(const plan_answer *p, arena *a)
{
    const search_result *r = p->result;
    const choice *c = &r->best[0].c;
    printf("         2. The memory ladder of this layout (without graphs and EP overlap), cheapest "
           "first:\n");
    for (int i = 0; i < r->n_ladder; i++) {
        const found *f = &r->ladder[i];
        printf("            %-44s %9.3f s %8.2f GiB  %s%s\n", choice_modules(a, f->c.drop),
               f->step_s, gib(f->peak_bytes),
               f->peak_bytes <= p->hw->usable ? "fits" : "does not fit",
               f->c.drop == c->drop ? "  <- taken" : "");
    }
    if (c->offload)
        printf(
            "            %d %% of the optimizer's state went to the host: no recompute alone was "
            "faster that fits.\n",
            100 * c->offload / OFFLOAD_ALL);
    if (recipe_int(p->given, K_SEQ) >= 32768)
        printf("            Core attention is never made again at %lld tokens: it keeps no scores, "
               "and costs most.\n",
               (long long)recipe_int(p->given, K_SEQ));
}

static void say_replicas(const plan_answer *p)
{
    const found *f = &p->result->best[0];
    const choice *c = &f->c;
    printf("         3. Data parallelism: DP %lld (experts: EDP %lld). TP %lld x CP %lld x PP %lld "
           "take %lld of %lld GPUs;\n            the batch of %lld is %lld replicas x %lld "
           "microbatches of %lld.\n",
           (long long)f->dp, (long long)f->edp, (long long)c->tp, (long long)c->cp,
           (long long)c->pp, (long long)(c->tp * c->cp * c->pp), (long long)p->world,
           (long long)recipe_int(p->given, K_GBS), (long long)f->dp, (long long)f->micros,
           (long long)c->mbs);
    int64_t most = c->cp >= c->pp && c->cp >= c->tp ? c->cp : c->pp >= c->tp ? c->pp : c->tp;
    if (f->dp == 1)
        printf("            %s squeezed it to 1: what is left is gradient accumulation.\n",
               most == c->cp   ? "Context parallel"
               : most == c->pp ? "The pipeline"
                               : "Tensor parallel");
}

static const char *link_of(const setup *s, comm_group g, arena *a)
{
    members m = members_of(s, g, 0, a);
    int64_t node = s->lay.gpus_per_node, domain = s->lay.nvlink_domain, far = 0;
    for (int64_t i = 0; i < m.n; i++)
        if (m.ranks[i] > far) far = m.ranks[i];
    if (m.n < 2) return "none";
    return far < node ? "inside a node" : far < domain ? "inside the NVLink domain" : "the network";
}

static void say_links(const plan_answer *p, const setup *s, arena *a)
{
    const price *x = &p->result->best[0].exact;
    static const struct {
        const char *name;
        comm_group group;
        cost_kind kind;
    } rows[] = {{"TP", GROUP_TP, COST_TP},
                {"CP", GROUP_CP, COST_CP},
                {"EP", GROUP_EP, COST_EP},
                {"PP", GROUP_PP, COST_PP},
                {"DP", GROUP_DP_CP, COST_DP}};
    printf("         4. Messages, of the busiest pipeline rank:\n");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        members m = members_of(s, rows[i].group, 0, a);
        if (m.n < 2) continue;
        printf("            %s of %4lld: %-26s %8.3f s, of which %.3f s show\n", rows[i].name,
               (long long)m.n, link_of(s, rows[i].group, a), x->time[rows[i].kind],
               x->exposed[rows[i].kind]);
    }
}

static void say_context(const plan_answer *p)
{
    const choice *c = &p->result->best[0].c;
    int64_t seq = recipe_int(p->given, K_SEQ), guess = 1;
    while (guess * 2 <= seq / 4096) guess *= 2;
    printf("         5. CP: the first guess is sequence / 4096 = %lld; ", (long long)guess);
    if (c->cp == guess)
        printf("it is what wins.\n");
    else if (c->cp * c->tp == guess)
        printf("CP %lld x TP %lld split a sequence as finely.\n", (long long)c->cp,
               (long long)c->tp);
    else
        printf("CP %lld (with TP %lld: %lld tokens a rank) is faster here, since %s.\n",
               (long long)c->cp, (long long)c->tp, (long long)(seq / (c->cp * c->tp)),
               c->cp < guess ? "fewer ranks exchange keys and it still fits"
                             : "activations need it to fit");
}

static void say_platform(const plan_answer *p, const setup *s)
{
    const choice *c = &p->result->best[0].c;
    const char *flex = choice_flex(&s->r);
    printf("         6. Dispatcher: %s. %s is made for %s; alltoall is for bringing a run up.\n",
           c->to == TO_DOMAINS   ? flex
           : c->to == TO_EXPERTS ? "alltoall"
                                 : "allgather",
           flex, p->hw->name);
    printf("         7. Precision: %s (%s). The router computes in FP32.\n",
           recipe_word(&s->r, K_PRECISION),
           p->given->knob[K_PRECISION].from == FROM_USER ? "as asked"
                                                         : "the platform's; --precision any "
                                                           "searches others");
    printf("         8. Graphs: %s (%s).\n", choice_graphs(c->graphs),
           c->graphs == SCOPE_NONE   ? "they gain less than their memory costs here, or recompute "
                                       "excludes them"
           : c->graphs == SCOPE_STEP ? "paged stash and a rank capacity keep shapes fixed"
                                     : "what dropless routing allows; their memory is counted");
}

static void say_next(const plan_answer *p)
{
    const price *x = &p->result->best[0].exact;
    double day = x->tokens_per_s_per_gpu * (double)p->world * 86400;
    printf("         9. %.3g tokens a day. ", day);
    if (p->has_next)
        printf("On %lld GPUs (DP twice as large, the same batch): a step of %.3f s, %.3g tokens a "
               "day, %.0f %% of twice.\n",
               (long long)p->world * 2, p->next.step_s,
               p->next.tokens_per_s_per_gpu * (double)p->world * 2 * 86400,
               100 * x->step_s / (2 * p->next.step_s));
    else
        printf("On twice the GPUs this batch leaves no whole microbatches for each replica: plan "
               "again with a larger --gbs.\n");
    printf("        10. What stands in the way now: %s (%s).\n", wall_name(x->wall), x->evidence);
}

void plan_explain(const plan_answer *p, arena *a)
{
    setup *s = ARENA_NEW(a, setup);
    recipe *r = ARENA_NEW(a, recipe);
    error err = {{0}};
    search_recipe(r, p->result, p->given, &p->result->best[0].c);
    if (setup_init(s, r, a, &err)) return;
    say_memory(p);
    say_ladder(p, a);
    say_replicas(p);
    say_links(p, s, a);
    say_context(p);
    say_platform(p, s);
    say_next(p);
}

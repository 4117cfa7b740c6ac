/* plan_explain.c - why the winner is what it is, in the order in which one thinks: fit with the
 * least model parallelism, what was climbed to make it fit, what data parallelism remains, which
 * messages cross which links, stages, experts, context; then the knobs of the platform, and what
 * more GPUs would bring. The rest of the list follows row by row (plan_rows.c). */
#include <stdio.h>

#include "cli/plan.h"
#include "layout/members.h"
#include "program/segment.h"

static double gib(int64_t bytes)
{
    return (double)bytes / 1073741824.0;
}

static void say_half(const price *half, const price *now)
{
    double more = 100 * (half->step_s / now->step_s - 1);
    printf("%.2f GiB, which %s; a step %s %.1f %% %s.\n", gib(half->peak_bytes),
           half->fits ? "fits" : "does not fit", half->fits ? "is" : "would be",
           more < 0 ? -more : more, more < 0 ? "shorter" : "longer");
}

/* The winner with one of its sizes halved: least model parallelism comes first, so it has to be
 * said why there is not less. */
static void say_less(const plan_answer *p, arena *a)
{
    static const struct {
        knob_id k;
        const char *name;
    } sizes[] = {{K_TP, "TP"}, {K_CP, "CP"}, {K_PP, "PP"}};
    const found *f = &p->result->best[0];
    const int64_t now[] = {f->c.tp, f->c.cp, f->c.pp};
    for (int i = 0; i < 3; i++) {
        choice half = f->c;
        if (p->given->knob[sizes[i].k].from == FROM_USER || !plan_halve(&half, sizes[i].k))
            continue;
        price x;
        printf("            Less of %s (%lld, DP twice as large): ", sizes[i].name,
               (long long)now[i] / 2);
        if (!plan_price_choice(&x, p, &half, a))
            printf("not legal with the rest as it is.\n");
        else
            say_half(&x, &f->exact);
    }
}

static void say_memory(const plan_answer *p, arena *a)
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
    say_less(p, a);
}

static void say_ladder(const plan_answer *p, arena *a)
{
    const search_result *r = p->result;
    const choice *c = &r->best[0].c;
    printf("         2. The memory ladder of this layout (without graphs and EP overlap), cheapest "
           "first:\n");
    bool shown = false;
    for (int i = 0; i < r->n_ladder; i++) {
        const found *f = &r->ladder[i];
        shown = shown || f->c.drop == c->drop;
        printf("            %-44s %9.3f s %8.2f GiB  %s%s\n", choice_modules(a, f->c.drop),
               f->step_s, gib(f->peak_bytes),
               f->peak_bytes <= p->hw->usable ? "fits" : "does not fit",
               f->c.drop == c->drop ? "  <- taken" : "");
    }
    if (!shown) printf("            Taken, between those: %s.\n", choice_modules(a, c->drop));
    if (c->offload)
        printf(
            "            %d %% of the optimizer's state went to the host: no recompute alone was "
            "faster that fits.\n",
            100 * c->offload / OFFLOAD_ALL);
    if (recipe_int(p->given, K_SEQ) >= 32768)
        printf("            Core attention is never made again at %lld tokens: it keeps no scores, "
               "and costs most.\n",
               (long long)recipe_int(p->given, K_SEQ));
    if (!p->more && (c->drop || c->offload))
        printf("            Activations on the host come after that: --more tries them.\n");
}

static void say_replicas(const plan_answer *p)
{
    const found *f = &p->result->best[0];
    const choice *c = &f->c;
    printf("         3. Data parallelism: DP %lld (experts: EDP %lld). TP %lld x CP %lld x PP %lld "
           "take %lld of %lld GPUs;\n            the batch of %lld is %lld replica%s x %lld "
           "microbatch%s of %lld.\n",
           (long long)f->dp, (long long)f->edp, (long long)c->tp, (long long)c->cp,
           (long long)c->pp, (long long)(c->tp * c->cp * c->pp), (long long)p->world,
           (long long)recipe_int(p->given, K_GBS), (long long)f->dp, f->dp > 1 ? "s" : "",
           (long long)f->micros, f->micros > 1 ? "es" : "", (long long)c->mbs);
    int64_t most = c->cp >= c->pp && c->cp >= c->tp ? c->cp : c->pp >= c->tp ? c->pp : c->tp;
    if (most == 1) return;
    const char *who = most == c->cp   ? "Context parallel"
                      : most == c->pp ? "The pipeline"
                                      : "Tensor parallel";
    if (f->dp == 1)
        printf("            %s squeezed it to 1: what is left is gradient accumulation.\n", who);
    else
        printf("            %s takes most of the GPUs that DP has not.\n", who);
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

/* The messages that show most, and whether they stay where links are fast. */
static void say_hottest(const plan_answer *p, const setup *s, arena *a)
{
    static const comm_group groups[] = {GROUP_TP, GROUP_CP, GROUP_EP, GROUP_PP, GROUP_DP_CP};
    static const char *const names[] = {"TP", "CP", "EP", "PP", "DP"};
    const price *x = &p->result->best[0].exact;
    int hot = 0;
    for (int i = 1; i < 5; i++)
        if (x->exposed[COST_TP + i] > x->exposed[COST_TP + hot]) hot = i;
    double seconds = x->exposed[COST_TP + hot];
    if (seconds < 0.01 * x->step_s) {
        printf("            None of them shows for more than 1 %% of the step.\n");
        return;
    }
    const char *where = link_of(s, groups[hot], a);
    bool fast = where[0] == 'i';
    printf("            %s shows most, %.0f %% of the step, %s%s.\n", names[hot],
           100 * seconds / x->step_s, fast ? "and stays " : "and crosses ", where);
    if (!fast && hot == 2)
        printf(
            "            A smaller EP would stay on faster links, but then fewer ranks share the "
            "experts' weights; see the rows below.\n");
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
    say_hottest(p, s, a);
}

static void say_stages(const plan_answer *p)
{
    const found *f = &p->result->best[0];
    const choice *c = &f->c;
    const price *x = &f->exact;
    if (c->pp == 1) {
        printf("         5. Stages: none; no bubble, and DP as large as it can be.\n");
        return;
    }
    int64_t ranks = p->world / c->pp, node = p->hw->gpus_per_node;
    printf("         5. Stages: PP %lld, each of %lld GPUs (%s); VPP %lld. Stages wait %.1f %% of "
           "the step for one another\n            (%lld microbatches), and their messages are the "
           "smallest: the pipeline is what crosses nodes.\n",
           (long long)c->pp, (long long)ranks,
           ranks % node == 0   ? "whole nodes"
           : node % ranks == 0 ? "within a node"
                               : "parts of nodes",
           (long long)c->vpp, 100 * x->bubble / x->step_s, (long long)f->micros);
}

static void say_experts(const plan_answer *p, const setup *s)
{
    const choice *c = &p->result->best[0].c;
    if (!s->m.experts) return;
    printf("         6. Experts: %lld, %lld a rank (EP %lld); ", (long long)s->m.experts,
           (long long)(s->m.experts / c->ep), (long long)c->ep);
    if (c->etp == 1)
        printf("EP before TP: each is whole on its rank (ETP 1), so that products stay "
               "large.\n");
    else
        printf("ETP %lld cuts each of them: with EP %lld alone their weights do not fit, or "
               "messages take longer.\n",
               (long long)c->etp, (long long)c->ep);
}

static const char *kind_reason(const choice *c)
{
    static const char *const reasons[CP_KINDS] = {
        "a ring: keys and values go round beside attention",
        "all_gather: each rank fetches all keys and values once",
        "a2a: each rank gets whole sequences of a part of the heads",
        "a2a inside nodes, a ring across them",
        "a ring over the latent: what goes round is the compressed key and value, not the heads'"};
    return reasons[c->kind];
}

/* Why the split of the sequence is not the first guess. */
static void say_departure(const plan_answer *p, int64_t seq, int64_t guess)
{
    const found *f = &p->result->best[0];
    const choice *c = &f->c;
    int64_t parts = c->cp * c->tp;
    printf("CP %lld with TP %lld: %lld tokens a rank.\n            ", (long long)c->cp,
           (long long)c->tp, (long long)(seq / parts));
    if (parts == guess)
        printf("As fine a split: part of CP has become TP, whose messages stay %s.\n",
               c->tp <= p->hw->gpus_per_node ? "inside a node" : "inside the NVLink domain");
    else if (parts < guess)
        printf(
            "Coarser, since it still fits (%.1f of %.1f GiB) and longer shards make products and "
            "attention larger,\n            with fewer ranks that exchange keys.\n",
            gib(f->exact.peak_bytes), gib(p->hw->usable));
    else
        printf("Finer: activations of a rank would not fit beside the rest, or microbatches would "
               "be too few for the stages.\n");
}

static void say_context(const plan_answer *p)
{
    const choice *c = &p->result->best[0].c;
    int64_t seq = recipe_int(p->given, K_SEQ), guess = 1;
    while (guess * 2 <= seq / 4096) guess *= 2;
    printf("         7. Context: the first guess is CP = sequence / 4096 = %lld; ",
           (long long)guess);
    if (c->cp == guess)
        printf("it is what wins.\n");
    else
        say_departure(p, seq, guess);
    if (c->cp > 1) printf("            Its kind is %s.\n", kind_reason(c));
}

static void say_platform(const plan_answer *p, const setup *s)
{
    const choice *c = &p->result->best[0].c;
    const char *flex = choice_flex(&s->r);
    printf("         8. Dispatcher: %s. %s is made for %s; alltoall is for bringing a run up.\n",
           c->to == TO_DOMAINS   ? flex
           : c->to == TO_EXPERTS ? "alltoall"
                                 : "allgather",
           flex, p->hw->name);
    printf("         9. Precision: %s (%s). The router computes in FP32.\n",
           recipe_word(&s->r, K_PRECISION),
           p->given->knob[K_PRECISION].from == FROM_USER ? "as asked"
                                                         : "what the platform multiplies "
                                                           "fastest with scales of its own; "
                                                           "--precision any searches others");
    printf("        10. Graphs: %s (%s).\n", choice_graphs(c->graphs),
           c->graphs == SCOPE_NONE   ? "they gain less than their memory costs here, or recompute "
                                       "excludes them"
           : c->graphs == SCOPE_STEP ? "paged stash and a rank capacity keep shapes fixed"
                                     : "what dropless routing allows; their memory is counted");
}

static void say_next(const plan_answer *p, arena *a)
{
    const price *x = &p->result->best[0].exact;
    double day = x->tokens_per_s_per_gpu * (double)p->world * 86400;
    printf("        11. %.3g tokens a day. ", day);
    if (p->has_next)
        printf("On %lld GPUs (DP twice as large, the same batch): a step of %.3f s, %.3g tokens a "
               "day, %.0f %% of twice.\n",
               (long long)p->world * 2, p->next.step_s,
               p->next.tokens_per_s_per_gpu * (double)p->world * 2 * 86400,
               100 * x->step_s / (2 * p->next.step_s));
    else
        printf("On twice the GPUs this batch leaves no whole microbatches for each replica: plan "
               "again with a larger --gbs.\n");
    plan_say_fewest(p, a);
    printf("        12. What stands in the way now: %s (%s).\n", wall_name(x->wall), x->evidence);
}

void plan_explain(const plan_answer *p, arena *a)
{
    setup *s = ARENA_NEW(a, setup);
    recipe *r = ARENA_NEW(a, recipe);
    error err = {{0}};
    search_recipe(r, p->result, p->given, &p->result->best[0].c);
    if (setup_init(s, r, a, &err)) return;
    say_memory(p, a);
    say_ladder(p, a);
    plan_say_offload(p, a);
    say_replicas(p);
    say_links(p, s, a);
    say_stages(p);
    say_experts(p, s);
    say_context(p);
    say_platform(p, s);
    say_next(p, a);
    plan_explain_rows(p, a);
}

/* plan_explain.c - why the winner is what it is, in the order in which one thinks: memory with the
 * least model parallelism, recompute, what data parallelism remains, which communication crosses
 * which links, pipeline, experts, context, dispatcher, overlap, precision, graphs, and what more
 * GPUs would bring. Each choice stands beside what the others would cost
 * (library/plan_reasons.c). The rest of the list follows row by row (plan_rows.c). */
#include <stdio.h>

#include "cli/plan.h"
#include "cli/screen.h"
#include "cli/screen_price.h"
#include "layout/members.h"
#include "ir/segment.h"

static double gib(int64_t bytes)
{
    return (double)bytes / 1073741824.0;
}

static void say_moved(const plan_other *o, const price *now)
{
    enum { SHOWN = 2 };
    moved kinds[MOVED_MAX];
    int n = price_moved(kinds, now, &o->p);
    for (int k = 0; k < n && k < SHOWN; k++)
        printf("%s%s %+.3g s", k ? ", " : "  ", kinds[k].title, kinds[k].seconds);
}

static void say_others(const plan_answer *p, const char *topic, arena *a)
{
    const price *now = &p->result->best[0].exact;
    for (int i = 0; i < p->reasons.n; i++) {
        const plan_other *o = &p->reasons.list[i];
        if (!text_equal(o->topic, topic)) continue;
        printf("              instead %-34s", o->name);
        if (!o->priced) {
            printf(" breaks the rule %s\n", o->rule);
            continue;
        }
        printf(" %10s %7s %9s%s", screen_seconds(a, o->p.step_s),
               screen_percent(a, o->p.step_s / now->step_s - 1),
               screen_bytes(a, (double)o->p.peak_bytes), o->p.fits ? "" : ", does not fit;");
        say_moved(o, now);
        printf(o->left ? "; %s\n" : "%s\n", o->left ? o->left : "");
    }
}

static void say_warnings(const plan_answer *p, arena *a)
{
    const violations *v = &p->reasons.warnings;
    if (!v->n) return;
    cli_print("\nCheck",
              "`moefold check` says this of the winner; our prediction of each repair says why it "
              "is not made:\n\n");
    for (int i = 0; i < v->n; i++) {
        printf("         %s: %s\n", v->list[i].rule->id, v->list[i].message);
        for (int k = 0; k < v->list[i].n_repairs; k++) {
            printf("           repair: %s", words_text(violation_words(&v->list[i], k, a), a));
            const char *cost = repair_text(&v->list[i].prices[k], a);
            printf(" (%s)\n", cost                          ? cost
                              : v->list[i].prices[k].priced ? "the same speed"
                                                            : "it breaks a rule, or cannot be "
                                                              "built");
        }
    }
}

/* What Megatron would report; small parts together. */
static void say_reported(const reported *r)
{
    static const allocated_part large[] = {ALLOCATED_WEIGHTS, ALLOCATED_GRADIENTS,
                                           ALLOCATED_OPTIMIZER, ALLOCATED_ACTIVATIONS,
                                           ALLOCATED_LOGITS};
    int64_t rest = r->allocated;
    for (size_t i = 0; i < sizeof large / sizeof large[0]; i++) rest -= r->part[large[i]];
    printf("weights %.2f, gradients %.2f, optimizer %.2f,\n             activations %.2f, logits "
           "%.2f, other tensors %.2f; reserved beyond that %.2f, outside the allocator %.2f.\n",
           gib(r->part[ALLOCATED_WEIGHTS]), gib(r->part[ALLOCATED_GRADIENTS]),
           gib(r->part[ALLOCATED_OPTIMIZER]), gib(r->part[ALLOCATED_ACTIVATIONS]),
           gib(r->part[ALLOCATED_LOGITS]), gib(rest), gib(r->reserved - r->allocated),
           gib(r->outside));
}

/* What the GPUs of a node put there together, beside what its host has. */
static void say_host(const host_need *h)
{
    if (!h->node) return;
    printf("             On the host: at most %.2f GiB for all GPUs of a node", gib(h->node));
    if (!h->memory)
        printf("; host.memory of the hardware description is not set.\n");
    else if (h->node <= h->memory)
        printf(" out of %.0f GiB.\n", gib(h->memory));
    else
        printf(", MORE THAN ALL of its %.0f GiB: pin "
               "optimizer.optimizer_cpu_offload=false, or take more GPUs.\n",
               gib(h->memory));
}

static void say_memory(const plan_answer *p, arena *a)
{
    const price *x = &p->result->best[0].exact;
    cli_print("Why", "Each choice, and what its alternatives would cost with all else equal.\n\n");
    printf("          1. Memory: rank %lld is the fullest, %.2f of %.2f GiB: ",
           (long long)x->fullest, gib(x->peak_bytes), gib(x->usable));
    if (x->megatron)
        say_reported(&x->memory);
    else
        printf("weights %.2f, gradients %.2f, optimizer %.2f,\n             activations %.2f, "
               "communication buffers %.2f, temporaries %.2f, outside %.2f.\n",
               gib(x->bytes[REGION_WEIGHTS]), gib(x->bytes[REGION_GRADIENTS]),
               gib(x->bytes[REGION_OPTIMIZER]), gib(x->bytes[REGION_SAVED]),
               gib(x->bytes[REGION_BOUNDARY]), gib(x->bytes[REGION_TEMP]), gib(x->memory.outside));
    say_host(&x->on_host);
    const search_counts *n = &p->result->counts;
    double all = (double)(n->legal ? n->legal : 1);
    printf("             %.0f %% of all layouts cannot hold weights, gradients and optimizer; %.0f "
           "%% have no room for activations.\n",
           100 * (double)n->state / all, 100 * (double)n->saved / all);
    say_others(p, "memory", a);
}

/* Is every faster row offloaded, too? Those that are left out are slower. */
static bool offload_pays(const search_result *r)
{
    for (int i = 1; i < r->n_best; i++)
        if (!r->best[i].c.offload && r->best[i].exact.step_s < r->best[0].exact.step_s)
            return false;
    return true;
}

static void say_ladder(const plan_answer *p, arena *a)
{
    const search_result *r = p->result;
    const choice *c = &r->best[0].c;
    printf("          2. Recompute: %s. This layout with more and more recompute, without CUDA "
           "graphs and EP overlap\n"
           "             (estimated from per-layer costs):\n",
           c->drop ? choice_modules(a, c->drop) : "none");
    for (int i = 0; i < r->n_ladder; i++) {
        const found *f = &r->ladder[i];
        printf("              %-42s %10s %9s  %s%s\n",
               f->c.drop ? choice_modules(a, f->c.drop) : "none", screen_seconds(a, f->step_s),
               screen_bytes(a, (double)f->peak_bytes),
               f->peak_bytes <= p->hw->usable ? "fits" : "does not fit",
               f->c.drop == c->drop ? "  <- taken" : "");
    }
    if (c->offload)
        printf("             %d %% of the optimizer state is on the host%s%s.\n",
               (int)(100 * choice_on_host(c)),
               c->offload == OFFLOAD_MOVED ? ", moved to the GPU in pieces to be updated" : "",
               offload_pays(r) ? ": no layout that fits without offload is faster" : "");
    if (!p->more && (c->drop || c->offload))
        printf("             --more tries activation offload, too.\n");
}

static void say_replicas(const plan_answer *p, arena *a)
{
    const found *f = &p->result->best[0];
    const choice *c = &f->c;
    printf(
        "          3. Data parallelism: DP %lld (experts: EDP %lld): TP %lld x CP %lld x PP %lld "
        "take %lld of %lld %s.\n             The global batch of %s is %lld replica%s x %lld "
        "microbatch%s of %lld.\n",
        (long long)f->dp, (long long)f->edp, (long long)c->tp, (long long)c->cp, (long long)c->pp,
        (long long)(c->tp * c->cp * c->pp), (long long)p->world,
        p->hw->arch == ARCH_CPU ? "processes" : "GPUs",
        text_grouped(a, recipe_int(p->given, K_GBS)), (long long)f->dp, f->dp > 1 ? "s" : "",
        (long long)f->micros, f->micros > 1 ? "es" : "", (long long)c->mbs);
}

static const char *link_of(const setup *s, comm_group g, arena *a)
{
    members m = members_of(s, g, 0, a);
    int64_t node = s->lay.gpus_per_node, domain = s->lay.nvlink_domain, far = 0;
    for (int64_t i = 0; i < m.n; i++)
        if (m.ranks[i] > far) far = m.ranks[i];
    return far < node     ? "inside a node"
           : far < domain ? "inside the NVLink domain"
                          : "across the network";
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
    printf("          4. Communication of the slowest pipeline rank:\n");
    bool any = false;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        members m = members_of(s, rows[i].group, 0, a);
        if (m.n < 2) continue;
        any = true;
        printf("              %s of %4lld ranks, %-26s %9s, %s exposed (%.1f %% of the "
               "step)\n",
               rows[i].name, (long long)m.n, link_of(s, rows[i].group, a),
               screen_seconds(a, x->time[rows[i].kind]),
               screen_seconds(a, x->exposed[rows[i].kind]),
               100 * x->exposed[rows[i].kind] / x->step_s);
    }
    if (!any) printf("              none: every group has one rank.\n");
}

static void say_pipeline(const plan_answer *p, arena *a)
{
    const found *f = &p->result->best[0];
    const choice *c = &f->c;
    int64_t ranks = p->world / c->pp, node = p->hw->gpus_per_node;
    if (c->pp == 1) {
        printf("          5. Pipeline: none (PP 1), no bubble.\n");
        return;
    }
    printf("          5. Pipeline: PP %lld, VPP %lld; a stage has %lld %s (%s); %lld microbatches, "
           "bubble %.1f %% of the step.\n",
           (long long)c->pp, (long long)c->vpp, (long long)ranks,
           p->hw->arch == ARCH_CPU ? "processes" : "GPUs",
           ranks % node == 0   ? "whole nodes"
           : node % ranks == 0 ? "within a node"
                               : "parts of nodes",
           (long long)f->micros, 100 * f->exact.bubble / f->exact.step_s);
    say_others(p, "pipeline", a);
}

static void say_experts(const plan_answer *p, const setup *s, arena *a)
{
    const choice *c = &p->result->best[0].c;
    if (!s->m.moe->experts) {
        printf("          6. Experts: none in this model.\n");
        return;
    }
    printf("          6. Experts: %lld, %lld a rank (EP %lld, ETP %lld).\n",
           (long long)s->m.moe->experts, (long long)(s->m.moe->experts / c->ep), (long long)c->ep,
           (long long)c->etp);
    say_others(p, "experts", a);
}

static void say_context(const plan_answer *p, arena *a)
{
    const choice *c = &p->result->best[0].c;
    int64_t seq = recipe_int(p->given, K_SEQ);
    printf("          7. Context: CP %lld with TP %lld, %lld tokens a rank", (long long)c->cp,
           (long long)c->tp, (long long)(seq / (c->cp * c->tp)));
    printf(c->cp > 1 ? "; %s.\n" : ".\n", cp_kinds[c->kind].title);
    say_others(p, "context", a);
}

static const char *why_precision(const plan_answer *p)
{
    if (p->given->knob[K_PRECISION].from == FROM_USER) return "as asked";
    if (p->any_precision) return "the first of all that were searched";
    if (p->left[PLAN_FP8_WEIGHTS]) return "nothing fits with weights in FP8";
    return "the platform's default; --precision any searches others";
}

static void say_platform(const plan_answer *p, const setup *s, arena *a)
{
    const choice *c = &p->result->best[0].c;
    if (s->m.moe->experts) {
        printf("          8. Dispatcher: %s.\n", plan_dispatcher(p, c));
        say_others(p, "dispatcher", a);
        printf("          9. Overlap of EP communication: %s.\n", plan_overlap(c->overlap));
        say_others(p, "overlap", a);
    }
    printf("         10. Precision: %s (%s)%s.\n", recipe_word(&s->r, K_PRECISION),
           why_precision(p),
           p->result->maker->wide[c->precision]
               ? ", weights in 16 bits, as the optimizer on the host needs them"
               : "");
    say_others(p, "precision", a);
    printf("         11. CUDA graphs: %s.\n", choice_graphs(c->graphs));
    say_others(p, "graphs", a);
}

static void say_next(const plan_answer *p, arena *a)
{
    const price *x = &p->result->best[0].exact;
    double day = x->tokens_per_s_per_gpu * (double)p->world * 86400;
    bool cpu = p->hw->arch == ARCH_CPU;
    const char *devices = cpu ? "processes" : "GPUs";
    printf("         12. Scaling: %s tokens a day. ", screen_count(a, day));
    if (p->has_next)
        printf("On %lld %s (DP doubles, same batch): %s a step, %s tokens a day, "
               "%.0f %% scaling efficiency.\n",
               (long long)p->world * 2, devices, screen_seconds(a, p->next.step_s),
               screen_count(a, p->next.tokens_per_s_per_gpu * (double)p->world * 2 * 86400),
               100 * x->step_s / (2 * p->next.step_s));
    else
        printf("On twice the %s this batch does not divide into whole microbatches for each "
               "replica: plan again with a larger --gbs.\n",
               devices);
    plan_say_fewest(p, a);
    printf("         13. Bottleneck: %s (%s).\n", wall_name(x->wall),
           screen_evidence(a, x->evidence, cpu));
}

void plan_explain(const plan_answer *p, arena *a)
{
    const setup *s = p->reasons.winner;
    if (!s) return;
    say_memory(p, a);
    say_ladder(p, a);
    plan_say_offload(p, a);
    say_replicas(p, a);
    say_links(p, s, a);
    say_pipeline(p, a);
    say_experts(p, s, a);
    say_context(p, a);
    say_platform(p, s, a);
    say_next(p, a);
    say_warnings(p, a);
    plan_explain_rows(p, a);
}

/* search_space.c - the lists of a search, and which combinations are legal.
 *
 * I1  A knob that a person set has one value.
 * I2  Where only published features are searched, each value of a knob that nobody set is one that
 *     occurs in a published run on the family of GPUs (predict/bands.h).
 * I3  Conditions here are those of rules that say ERROR: sizes are asked of the rules, the others
 *     restated for loops (tests/plan/test_space.c holds them against the rules). A layout that
 *     passes them and breaks another rule is found when it would enter the list of the best. */
#include "plan/search_space.h"

#include <assert.h>
#include <string.h>

#include "base/maths.h"
#include "predict/bands.h"
#include "config/job_of.h"
#include "config/target.h"
#include "ir/segment.h"
#include "rules/rules.h"

/* A ring of more ranks than CP_MOST is a pin: its waits take seconds to find, each, and no run has
 * been seen near it. */
enum { TP_MOST = 16, CP_MOST = 1024, VPP_COMMON = 8 };

static bool pinned(const space *s, knob_id k)
{
    return s->m->pinned[k];
}

/* May it be tried (I2)? `k`: the knob that would say it. */
static bool ran(const space *s, knob_id k, band_feature f, const char *word)
{
    return !s->family || pinned(s, k) || band_supports(s->family, f, word, s->stack);
}

/* Divisors of `whole`. */
static void fill(axis_list *l, const space *s, knob_id k, int64_t most, int64_t whole)
{
    l->n = 0;
    if (pinned(s, k) && job_has(s->asked, k)) { /* I1 */
        l->v[l->n++] = job_int(s->asked, k);
        return;
    }
    for (int64_t i = 1; i <= most && i <= whole; i++)
        if (whole % i == 0) l->v[l->n++] = i;
    assert(l->n <= AXIS_MAX);
}

/* ---- recompute */

static void add_drop(space *s, unsigned drop)
{
    assert(s->n_drops < DROPS_MAX);
    s->drops[s->n_drops++] = drop;
}

static void list_drops(space *s, const setup *base)
{
    s->n_drops = 0;
    if (pinned(s, K_RECOMPUTE)) { /* where no module is named, those that are derived */
        int how = s->asked->recompute;
        add_drop(s, how == J_RECOMPUTE_FULL ? DROP_FULL : how ? drop_of(&base->j) : 0);
        return;
    }
    unsigned all = drop_of_model(&base->m);
    if (s->seq >= 32768) all &= ~(unsigned)DROP_CORE_ATTN;
    for (int size = 0; size <= DROP_MODULES; size++)
        for (unsigned d = 0; d < DROP_FULL; d++) {
            if ((d & ~all) || drop_tidy(d) != d || __builtin_popcount(d) != size) continue;
            if (s->family && !band_supports_drops(s->family, d, s->stack)) continue;
            add_drop(s, d);
        }
    if (ran(s, K_RECOMPUTE, BAND_RECOMPUTE, "full")) add_drop(s, DROP_FULL);
}

/* ---- stages */

static bool same_stages(const pipe_split *a, const pipe_split *b)
{
    for (int64_t i = 0; i < a->pp * a->vpp; i++) {
        const stage *x = &a->pipe.stages[i], *y = &b->pipe.stages[i];
        if (x->n_layers != y->n_layers || x->n_mtp != y->n_mtp) return false;
    }
    return true;
}

static int64_t layers_of(const space *s)
{
    return s->asked->layers + s->asked->mtp;
}

static void keep_split(space *s, struct pp_split x)
{
    ARENA_GROW(s->m->a, s->splits, s->n_splits, s->room);
    s->splits[s->n_splits++] = x;
}

static void add_split(space *s, int64_t pp, int64_t vpp)
{
    choice c = {.pp = pp, .vpp = vpp};
    const pipe_split *first = choice_split(s->m, &c);
    bool rare = vpp > VPP_COMMON && vpp % VPP_COMMON;
    if (first->ok) keep_split(s, (struct pp_split){pp, vpp, 0, rare});
    if (pinned(s, K_PP_LAYOUT) || pinned(s, K_FIRST_LAYERS) || pinned(s, K_LAST_LAYERS) ||
        pinned(s, K_ACCOUNT_EMBEDDING) || pinned(s, K_ACCOUNT_LOSS) ||
        pinned(s, K_LAYERS_PER_VSTAGE) || pp == 1 || vpp > layers_of(s) + 2)
        return;
    c.split = 1;
    const pipe_split *other = choice_split(s->m, &c);
    if (other->ok && (!first->ok || !same_stages(first, other)))
        keep_split(s, (struct pp_split){pp, vpp, 1, rare});
}

/* Of a thousand layers and more, numbers of virtual stages beyond this one only where they divide
 * evenly: all of them would leave no room for other PP. */
enum { VPP_EACH = 64 };

static void list_splits(space *s, const model *m)
{
    for (int i = 0; i < s->pp.n; i++) {
        int64_t pp = s->pp.v[i], most = pp > 1 ? (m->n_layers + m->n_mtp + 1 + pp) / pp : 1;
        struct pp_splits *of = &s->of_pp[i];
        of->first = s->n_splits;
        if (pinned(s, K_VPP) && s->asked->vpp > 0)
            add_split(s, pp, s->asked->vpp);
        else if (pinned(s, K_PP_LAYOUT))
            for (int64_t v = 1; v <= m->n_layers + 2; v++) add_split(s, pp, v);
        else
            for (int64_t v = 1; v <= most; v++)
                if (v <= VPP_EACH || m->n_layers % (pp * v) == 0) add_split(s, pp, v);
        of->n = s->n_splits - of->first;
        for (int k = of->first; k < s->n_splits; k++)
            of->many[s->splits[k].rare][s->splits[k].vpp > 1]++;
    }
}

/* ---- graphs */

/* A graph of the whole step, in this number format? */
static bool step_ran(const space *s, const setup *base)
{
    return ran(s, K_GRAPHS, BAND_GRAPHS, band_full_iteration(band_precision(&base->j)));
}

/* In one of the number formats that are searched? */
static bool step_ran_in_any(const space *s)
{
    for (int i = 0; i < s->m->n_precisions; i++) {
        const setup *base = choice_base(s->m, i, 1);
        if (base && step_ran(s, base)) return true;
    }
    return false;
}

/* What a person left open. Modules that were named are one scope. */
static bool scope_is_open(const space *s, graph_scope g)
{
    bool partial = g == SCOPE_ATTENTION || g == SCOPE_ROUTER || g == SCOPE_BOTH;
    if (g == SCOPE_STEP ? !step_ran_in_any(s)
                        : !ran(s, K_GRAPHS, BAND_GRAPHS, partial ? "parts" : "none"))
        return false;
    if (pinned(s, K_GRAPH_MODULES) && partial && g != SCOPE_BOTH) return false;
    if (!pinned(s, K_GRAPHS)) return !pinned(s, K_GRAPH_MODULES) || g == SCOPE_BOTH;
    if (s->asked->graphs == J_GRAPHS_NONE) return g == SCOPE_NONE;
    return s->asked->graphs == J_GRAPHS_FULL_ITERATION ? g == SCOPE_STEP : partial;
}

/* ---- the whole */

void space_init(space *s, choice_maker *m, bool published, const char *stack)
{
    const job *j = &m->asked;
    *s = (space){.m = m, .asked = j, .world = m->world, .seq = j->seq, .gbs = j->gbs};
    s->family = published ? band_family(j->gpu) : 0;
    s->stack = stack ? stack : j->stack;
    const setup *base = choice_base(m, 0, 1);
    const gpu *g = j->machine;
    int64_t domain = g ? g->nvlink_domain : 8;
    fill(&s->tp, s, K_TP, domain < TP_MOST ? domain : TP_MOST, s->world);
    fill(&s->cp, s, K_CP,
         s->seq / 2 < 1         ? 1
         : s->seq / 2 < CP_MOST ? s->seq / 2
                                : CP_MOST,
         s->world);
    fill(&s->ep, s, K_EP, base && base->m.moe->experts ? base->m.moe->experts : 1, s->world);
    fill(&s->etp, s, K_ETP, base && base->m.moe->experts ? TP_MOST : 1, s->world);
    fill(&s->pp, s, K_PP, base ? base->m.n_layers : 1, s->world);
    fill(&s->mbs, s, K_MBS, SPACE_MBS_MOST, s->gbs);
    if (!base) return;
    list_drops(s, base);
    for (int i = 0; i < SCOPES; i++)
        if (scope_is_open(s, (graph_scope)i)) s->widest = (graph_scope)i;
    s->largest = -1;
    for (int d = 0; d < s->n_drops; d++)
        if (s->drops[d] != DROP_FULL) s->largest = d; /* fewer modules come first */
    list_splits(s, &base->m);
}

/* ---- legality */

static int64_t alignment(const job *j)
{
    if (j->fp8_recipe == J_FP8_RECIPE_MXFP8) return 32;
    return job_has(j, K_FP4) ? 16 : job_has(j, K_FP8) ? 8 : 1;
}

bool space_dense_ok(const space *s, const choice *c)
{
    int64_t tp = c->tp, cp = c->cp;
    if (s->world % (tp * cp) || s->seq % (cp * tp) || s->gbs % c->mbs) return false;
    const setup *base = choice_base(s->m, c->precision, tp);
    if (!base || !rules_allow_size(base, K_TP, tp) || !rules_allow_size(base, K_CP, cp))
        return false;
    const model *m = &base->m;
    if (model_has(m, BLOCK_GDN) && (m->gdn->k_heads % (tp * cp) || m->gdn->v_heads % (tp * cp)))
        return false;
    return c->mbs * (s->seq / (cp * tp)) % alignment(&base->j) == 0;
}

static bool kind_is_pinned_away(const space *s, const choice *c)
{
    bool latent = cp_kinds[c->kind].latent;
    const job_words *comm = &s->asked->cp_comm;
    if (pinned(s, K_LATENT_RING) && s->asked->latent_ring != latent) return true;
    return pinned(s, K_CP_COMM) && !(comm->n == 1 && comm->item[0] == cp_kinds[c->kind].word);
}

static bool pick_ok(const space *s, const choice *c, pick_id p, const job *j)
{
    const edit *e = &pick_values[p].list[c->pick[p]];
    if (!choice_may_pick(c, p, NULL)) return !c->pick[p];
    return pinned(s, e->k) ? edit_holds(e, s->asked) : !c->pick[p] || choice_may_pick(c, p, j);
}

bool space_kind_ok(const space *s, const choice *c)
{
    const setup *base = choice_base(s->m, c->precision, c->tp);
    const model *m = &base->m;
    int64_t heads = base->j.kv_heads, levels[2];
    for (pick_id p = 0; p < PICKS; p++)
        if (!pick_ok(s, c, p, &base->j)) return false;
    if (c->cp == 1) return c->kind == CP_RING;
    if (kind_is_pinned_away(s, c)) return false;
    bool sinks = base->j.softmax == J_SOFTMAX_LEARNABLE;
    const cp_traits *k = &cp_kinds[c->kind];
    if ((sinks && !k->sinks) || (!k->windows && model_is_windowed(m))) return false;
    if (!target_has_cp(&base->j, k)) return false;
    if (k->levels) return choice_levels(base, c->tp, c->cp, levels);
    return !k->whole || (heads >= c->tp && heads / c->tp % c->cp == 0);
}

/* The dispatcher with its reach. */
static bool dispatch_ran(const space *s, const choice *c, const setup *base)
{
    const dispatcher *d = choice_dispatcher(s->m, c);
    int64_t group = c->ep * c->etp;
    if (!s->family || (group == 1 && !d->flex)) return true;
    /* Alone, a backend of flex is as it is inside a node. */
    const band_reach reach = {group > 1 ? group : 2, base->j.gpus_per_node, base->j.nvlink};
    return ran(s, K_DISPATCHER, BAND_DISPATCH, band_dispatch(d, &reach));
}

bool space_etp_is_rare(const choice *c)
{
    return c->etp != 1 && c->etp != c->tp;
}

bool space_experts_ok(const space *s, const choice *c)
{
    const setup *base = choice_base(s->m, c->precision, c->tp);
    const model *m = &base->m;
    if (!m->moe->experts) return c->ep == 1 && c->etp == 1 && c->to == TO_ALLTOALL;
    if (!rules_allow_size(base, K_EP, c->ep) || !rules_allow_size(base, K_ETP, c->etp) ||
        s->world % (c->ep * c->etp))
        return false;
    const dispatcher *d = choice_dispatcher(s->m, c);
    if (pinned(s, K_DISPATCHER) && s->asked->dispatcher != d->word) return false;
    if (pinned(s, K_FLEX) && s->asked->flex && c->to != TO_FLEX) return false;
    if (!dispatch_ran(s, c, base)) return false;
    if (!d->flex) return !d->gathers || c->ep * c->etp > 1;
    int64_t domain = base->j.nvlink, group = c->ep * c->etp;
    if (job_has(&base->j, K_CAPACITY) || base->gpu->arch == ARCH_CPU) return false;
    if (c->to > TO_FLEX && domain > 8) return false; /* deepep does not run there */
    return (group > 1 || !d->needs_peers) && (domain <= 8 || group <= domain);
}

bool space_stages_ok(const space *s, const choice *c)
{
    if (s->world % (c->tp * c->cp * c->pp) || s->world % (c->ep * c->etp * c->pp)) return false;
    int64_t dp = s->world / (c->tp * c->cp * c->pp), once = c->mbs * dp;
    if (s->gbs % once) return false;
    int64_t micros = s->gbs / once;
    if (micros > SPACE_MICROS_MOST) return false;
    return c->vpp == 1 || (c->pp > 1 && micros >= c->pp && micros % c->pp == 0);
}

static bool pin_agrees(const space *s, knob_id k, bool on)
{
    return !pinned(s, k) || job_flag(s->asked, k) == on;
}

/* Where experts' rows are read on the device: GEMMs of Hopper's are told them by the host. */
bool space_captures_step(const space *s, const choice *c)
{
    const gpu *g = s->asked->machine;
    bool known = (g && g->arch == ARCH_BLACKWELL) || pinned(s, K_GRAPHS);
    return known && choice_dispatcher(s->m, c)->fixed_shapes;
}

static bool graphs_ok(const space *s, const choice *c, const setup *base)
{
    if (!scope_is_open(s, c->graphs)) return false;
    if (!c->graphs) return true;
    if (!base->m.moe->experts || base->gpu->arch == ARCH_CPU) return false;
    if (c->graphs == SCOPE_STEP)
        return space_captures_step(s, c) && !c->offload && step_ran(s, base);
    if (c->drop == DROP_FULL || (c->graphs != SCOPE_ATTENTION && (c->drop & DROP_MOE)))
        return false;
    /* Megatron turns the recompute of norms off there */
    return !(c->drop & DROP_LAYERNORM) || choice_dispatcher(s->m, c)->norm_recompute;
}

bool space_overlap_ok(const space *s, const choice *c)
{
    const setup *base = choice_base(s->m, c->precision, c->tp);
    if (!pin_agrees(s, K_EP_OVERLAP, c->overlap >= OVERLAP_EP) ||
        !pin_agrees(s, K_DELAY_WGRAD, c->overlap == OVERLAP_EP_DELAY) ||
        !pin_agrees(s, K_SHARED_OVERLAP, c->overlap == OVERLAP_SHARED) ||
        !pin_agrees(s, K_DISPATCH_WGRAD, c->overlap == OVERLAP_WGRAD))
        return false;
    static const char *const overlaps[OVERLAP_KINDS] = {"off", "off", "wgrad", "on", "delayed"};
    if (!ran(s, K_EP_OVERLAP, BAND_OVERLAP, overlaps[c->overlap])) return false;
    switch (c->overlap) {
    case OVERLAP_NOTHING:
        return true;
    case OVERLAP_SHARED:
        return base->m.moe->shared_ffn > 0 && choice_dispatcher(s->m, c)->shared_overlap &&
               !(c->drop & DROP_SHARED_EXPERTS);
    case OVERLAP_WGRAD:
        return base->m.moe->experts > 0 && c->ep > 1;
    default:
        return c->ep > 1 && choice_dispatcher(s->m, c)->ep_overlap && (c->pp == 1 || c->vpp > 1) &&
               c->drop != DROP_FULL && !(c->drop & DROP_MOE) && (base->j.bf16 || base->j.fp16);
    }
}

static bool offload_ok(const space *s, const choice *c, const setup *base)
{
    bool moved = c->offload == OFFLOAD_MOVED, ours = job_is_ours(&base->j);
    if (ours ? !pin_agrees(s, K_OPT_STATES, moved) : moved) return false;
    if (!pin_agrees(s, K_OPT_OFFLOAD, c->offload && !moved)) return false;
    if (!c->offload) return !s->m->wide[c->precision];
    if (pinned(s, K_OPT_OFFLOAD_FRACTION) && c->offload != OFFLOAD_ALL) return false;
    if (moved) return base->gpu->arch != ARCH_CPU && base->j.optimizer != J_OPTIMIZER_NONE;
    bool delayed = base->j.fp8_recipe == J_FP8_RECIPE_DELAYED;
    return base->j.precision_aware && base->gpu->arch != ARCH_CPU &&
           (!base->j.fp8_params || delayed);
}

bool space_inner_ok(const space *s, const choice *c)
{
    const setup *base = choice_base(s->m, c->precision, c->tp);
    return graphs_ok(s, c, base) && space_overlap_ok(s, c) && offload_ok(s, c, base);
}

/* search.c - a search from beginning to end: opens it, runs through attention, then experts, stages
 * and what only sums depend on (search_parts.h), and closes it. */
#include "predict/audit/audit.h"
#include "base/caller.h"
#include "base/caller.h"
#include "base/clock.h"
#include "config/job_of.h"
#include "plan/search.h"

#include <math.h>
#include <string.h>
#include <time.h>

#include "plan/search_best.h"
#include "plan/search_parts.h"
#include "plan/search_ties.h"

static void list_precisions(choice_maker *m, bool any)
{
    static const int hopper[] = {J_PRECISION_BF16_WITH_FP8_SUBCHANNEL_SCALING_MIXED,
                                 J_PRECISION_BF16_MIXED,
                                 J_PRECISION_BF16_WITH_FP8_CURRENT_SCALING_MIXED};
    static const int blackwell[] = {J_PRECISION_BF16_WITH_MXFP8_MIXED, J_PRECISION_BF16_MIXED,
                                    J_PRECISION_BF16_WITH_NVFP4_MIXED};
    static const int ampere[] = {J_PRECISION_BF16_MIXED};
    static const int cpus[] = {J_PRECISION_FP32};
    gpu_arch arch = m->asked.machine ? m->asked.machine->arch : ARCH_HOPPER;
    const int *list = arch == ARCH_HOPPER      ? hopper
                      : arch == ARCH_BLACKWELL ? blackwell
                      : arch == ARCH_AMPERE    ? ampere
                                               : cpus;
    int n = arch == ARCH_HOPPER || arch == ARCH_BLACKWELL ? 3 : 1;
    static const knob_id parts[] = {K_PRECISION, K_BF16, K_FP16, K_FP8, K_FP4, K_FP8_RECIPE};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (m->pinned[parts[i]]) {
            m->n_precisions = 1; /* as the recipe has it */
            return;
        }
    m->n_precisions = any ? n : 1;
    for (int i = 0; i < m->n_precisions; i++) m->precisions[i] = list[i];
}

static void add_format(choice_maker *m, int word, bool wide)
{
    for (int i = 0; i < m->n_precisions; i++)
        if (m->precisions[i] == word && m->wide[i] == wide) return;
    if (m->n_precisions == PRECISIONS_MAX) return;
    m->precisions[m->n_precisions] = word;
    m->wide[m->n_precisions++] = wide;
}

/* Beside formats that keep weights in FP8 those with weights in 16 bits: the same, with the
 * optimizer on the host, which needs them; and BF16, where nobody said a format. */
static void list_wide(choice_maker *m, bool try)
{
    bool asked = m->pinned[K_OPT_OFFLOAD] && m->asked.opt_offload;
    bool open = !m->pinned[K_FP8_PARAMS] && !m->pinned[K_REUSE_GRAD];
    bool left_open = try && !m->pinned[K_OPT_OFFLOAD];
    for (int i = 0, n = m->n_precisions; i < n; i++) {
        const setup *base = choice_base(m, i, 1);
        if (!base || !base->j.fp8_params) continue;
        bool delayed = base->j.fp8_recipe == J_FP8_RECIPE_DELAYED;
        if (open && !delayed && (asked || left_open)) add_format(m, m->precisions[i], true);
        if (try && m->precisions[i]) add_format(m, J_PRECISION_BF16_MIXED, false);
    }
}

/* What every layout has. The precision-aware optimizer, where nobody says, is one of these: it is
 * the same optimizer in fewer bytes, and the host updates with it alone. */
static status open_probe(setup *probe, choice_maker *m, arena *a, error *err)
{
    recipe *whole = ARENA_NEW(a, recipe);
    *whole = *m->given;
    if (m->precisions[0])
        recipe_set(whole, K_PRECISION, value_of_text(job_word(K_PRECISION, m->precisions[0])),
                   "the platform's");
    status st = setup_init(probe, whole, a, err);
    m->aware = !st && !m->pinned[K_PRECISION_AWARE] && !job_on_cpu(&probe->j) &&
               probe->j.optimizer == J_OPTIMIZER_ADAM && probe->j.dist_opt;
    if (!m->aware) return st;
    recipe_set(whole, K_PRECISION_AWARE, value_of_bool(true), "the search's");
    return setup_init(probe, whole, a, err);
}

/* Room for what is summed by stage: pins allow more of them than the lists of a search have. */
static void make_room(search *s, arena *a)
{
    int64_t stages = 1, pp = 1, vpp = 1;
    for (int i = 0; i < s->sp.n_splits; i++) {
        const struct pp_split *x = &s->sp.splits[i];
        if (x->pp * x->vpp > stages) stages = x->pp * x->vpp;
        if (x->pp > pp) pp = x->pp;
        if (x->vpp > vpp) vpp = x->vpp;
    }
    s->chunks = ARENA_ARRAY(a, chunk_sum, stages);
    s->fixed = ARENA_ARRAY(a, int64_t, pp);
    s->step = ARENA_ARRAY(a, int64_t, pp);
    s->of_chunk = ARENA_ARRAY(a, int64_t, vpp);
}

static status open_search(search *s, const recipe *given, arena *a, error *err)
{
    choice_maker *m = ARENA_NEW(a, choice_maker);
    choice_open(m, given, a);
    m->routed = s->o->prices.routing;
    list_precisions(m, s->o->any_precision);
    s->out->maker = m;
    setup *probe = ARENA_NEW(a, setup);
    status st = open_probe(probe, m, a, err);
    if (st) return st;
    s->out->not_known = audit_not_known(probe, a);
    if (s->out->not_known) return error_set(err, ERR_RULE, "%s", s->out->not_known);
    list_wide(m, s->o->wide);
    search_rules_open(s);
    if (search_rules_never(s, probe))
        return error_set(err, ERR_RULE, "there is no valid layout: %s",
                         s->out->never.list[0].message);
    if (!choice_base(m, 0, 1))
        return error_set(err, ERR_RULE, "there is no layout of %lld GPUs", (long long)m->world);
    s->k = cards_create(m, s->o->hw, &s->o->prices, a);
    if (!cards_kinds(s->k))
        return error_set(err, ERR_RULE,
                         "%s has more than %d kinds of layers, which a search does not cover; "
                         "repair: moefold price of the layout that you have in mind",
                         given->name, LAYER_KINDS_MAX);
    s->r = ranks_create(s->k, m, s->o->hw, &s->o->prices, a);
    s->megatron = fit_by_megatron(probe);
    s->packs = probe->j.pack_step && !s->megatron;
    s->waits = state_waits_on_host(&probe->j);
    for (int i = 0; i < m->n_precisions; i++) {
        const setup *base = choice_base(m, i, 1);
        s->least[i] = reported_frame_least(base ? &base->j : &probe->j);
    }
    space_init(&s->sp, m, s->o->published, s->o->prices.stack);
    make_room(s, a);
    const model *mod = cards_model(s->k);
    for (int64_t i = 0; i < mod->n_layers; i++) s->layers[cards_kind_of(s->k, i)]++;
    s->module = mod->n_mtp > 0 ? cards_kind_of(s->k, mod->n_layers) : -1;
    memo_init(&s->times, 4 * sizeof(int64_t), a);
    memo_init(&s->bytes, 8 * sizeof(int64_t), a);
    memo_init(&s->states, 6 * sizeof(int64_t), a);
    memo_init(&s->messages, 6 * sizeof(int64_t), a);
    memo_init(&s->frames, 8 * sizeof(int64_t), a);
    return OK;
}

/* What the rules say of the recipe as it was given. */
static status say_why_none(const recipe *given, arena *a, error *err)
{
    setup *s = ARENA_NEW(a, setup);
    violations v = {0};
    if (setup_init(s, given, a, err)) return ERR_RULE;
    rules_check(&v, s, false, a);
    const char *why = v.n_errors
                          ? v.list[0].message
                          : "no sizes divide GPUs, heads, experts, sequence and batch at once";
    return error_set(err, ERR_RULE, "there is no valid layout: %s", why);
}

bool search_over(search *s)
{
    if (s->done) return true;
    caller_goes_on(-1);
    bool late = s->o->until > 0 && clock_seconds() >= s->o->until;
    late = late || (s->o->work > 0 && clock_work() >= s->o->work);
    if (late) s->done = s->late = true;
    return s->done;
}

static void visit_nodes(search *s, node *nodes, int n)
{
    for (int i = 0; i < n && !search_over(s); i++) {
        bool slow = !s->o->judge_all && nodes[i].least >= best_tenth(s->out);
        bool broken = search_forbidden(s, &nodes[i].c, AXES_NODE);
        s->experts_least = INFINITY;
        search_each_experts(s, &nodes[i],
                            slow     ? search_slow_visit
                            : broken ? search_rule_visit
                                     : search_experts_visit);
        if (!slow) search_tell_others(s, nodes, i, n);
    }
}

void search_visit_nodes(search *s, node *nodes, int n)
{
    for (int rare = 0; rare < 2; rare++) {
        s->rare = rare;
        visit_nodes(s, nodes, n);
    }
}

status search_run(search_result *out, const recipe *given, const search_options *o, arena *a,
                  error *err)
{
    double start = clock_seconds();
    memset(out, 0, sizeof *out);
    out->room = BEST_MAX;
    out->below = o->below > 0 ? o->below : INFINITY;
    search *s = ARENA_NEW(a, search);
    *s = (search){.out = out, .o = o, .a = a, .scratch = arena_create()};
    status st = open_search(s, given, a, err);
    node *nodes = NULL;
    int n = st ? 0 : search_list_nodes(s, &nodes);
    s->all = true;
    for (int i = 0; i < n && !search_over(s); i++)
        search_each_experts(s, &nodes[i], search_count_visit);
    s->all = false;
    search_visit_nodes(s, nodes, n);
    if (!st) search_fill_front(s, nodes, n);
    if (!st && !o->unpriced) search_price_best(s, a);
    if (!st && o->judged) search_judge_ties(out, o);
    if (!st) search_climb(s);
    out->counts.cards = st ? 0 : cards_built(s->k);
    if (s->k) cards_release(s->k);
    if (s->r) ranks_release(s->r);
    arena_destroy(s->scratch);
    out->counts.seconds = clock_seconds() - start;
    out->complete = !s->late;
    if (!st && !out->counts.legal && out->complete) st = say_why_none(given, a, err);
    return st;
}

void search_recipe(recipe *out, search_result *r, const recipe *given, const choice *c)
{
    *out = *given;
    choice_set(out, r->maker, c);
}

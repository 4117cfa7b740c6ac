/* search_choice.c - from a choice to knobs.
 *
 * I1  choice_patch leaves the same value in every knob that setup_init would, from choice_set's
 *     recipe. What it does not write does not depend on a choice. */
#include "plan/search_choice.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/maths.h"
#include "predict/cost.h"
#include "ir/segment.h"
#include "config/job_of.h"
#include "config/judgement.h"
#include "config/target.h"
#include "config/loads.h"

static const char by_plan[] = "plan";

/* Where a choice goes: the job of a setup that is patched, with the recipe beside it, which rules
 * and screens read; or a recipe as a person writes it, with the job that it says. */
typedef struct destination {
    recipe *r;
    job *j;
    choice_maker *m;
    uint64_t *written; /* [WRITTEN_WORDS] by knob; NULL: nobody asks */
} destination;

static void see(destination to, knob_id k)
{
    if (to.written) to.written[k / 64] |= UINT64_C(1) << k % 64;
}

static void note(destination to, knob_id k, value v)
{
    to.r->knob[k] = (setting){v, FROM_USER, by_plan};
    see(to, k);
}

static void put_int(destination to, knob_id k, int64_t n)
{
    note(to, k, value_of_int(n));
    job_put_int(to.j, k, n);
}

static void put_real(destination to, knob_id k, double x)
{
    note(to, k, value_of_float(x));
    job_put_real(to.j, k, x);
}

/* 0: null. */
static void put_word(destination to, knob_id k, int word)
{
    note(to, k, word ? value_of_text(job_word(k, word)) : (value){.kind = V_NULL});
    job_put_word(to.j, k, word);
}

static void put_null(destination to, knob_id k)
{
    note(to, k, (value){.kind = V_NULL});
    job_put_null(to.j, k);
}

static void put_words(destination to, knob_id k, const word_list *l)
{
    note(to, k, (value){.kind = V_LIST, .list = {l->v, l->n}});
    job_put_words(to.j, k, l->word, l->n);
}

static void set_flag(destination to, knob_id k, bool on)
{
    note(to, k, value_of_bool(on));
    job_put_flag(to.j, k, on);
}

/* Only where it differs from what the recipe has: exported recipes stay short. */
static void put_flag(destination to, knob_id k, bool on)
{
    if (job_flag(to.j, k) != on) set_flag(to, k, on);
}

/* ---- words */

const char *choice_modules(arena *a, unsigned drop)
{
    if (drop == DROP_FULL) return "full";
    textbuf t = text_init(a);
    for (int i = 0; i < DROP_MODULES; i++)
        if (drop & drop_modules[i].drop) text_add(&t, "%s%s", t.n ? "+" : "", drop_modules[i].word);
    return t.n ? t.s : "-";
}

const char *choice_pick(arena *a, pick_id p, int picked)
{
    const char *words = axis_words(axis_of(pick_values[p].list[0].k));
    if (pick_values[p].n == 2) return picked ? words : arena_text(a, "no %s", words);
    return edits_text((edits){&pick_values[p].list[picked], 1}, a);
}

static void list_word(word_list *l, knob_id k, int word)
{
    l->word[l->n] = (signed char)word;
    l->v[l->n++] = value_of_text(job_word(k, word));
}

static void open_lists(choice_maker *m)
{
    static const int words[] = {J_GRAPH_MODULES_ATTN, J_GRAPH_MODULES_MOE_ROUTER,
                                J_GRAPH_MODULES_MOE_PREPROCESS};
    for (int i = 0; i < 3; i++) {
        list_word(&m->graph_modules[SCOPE_BOTH], K_GRAPH_MODULES, words[i]);
        list_word(&m->graph_modules[i ? SCOPE_ROUTER : SCOPE_ATTENTION], K_GRAPH_MODULES, words[i]);
    }
}

static const word_list *modules_of(choice_maker *m, unsigned drop)
{
    unsigned at = 0;
    for (int i = 0; i < DROP_MODULES; i++)
        if (drop & drop_modules[i].drop) at |= 1u << i;
    word_list *l = &m->drop_modules[at];
    if (!l->n)
        for (int i = 0; i < DROP_MODULES; i++)
            if (at & 1u << i) list_word(l, K_RECOMPUTE_MODULES, drop_modules[i].listed);
    return l;
}

unsigned choice_captured(const choice_maker *m, graph_scope g)
{
    static const unsigned parts[SCOPES] = {[SCOPE_ATTENTION] = CAPTURED_ATTENTION,
                                           [SCOPE_ROUTER] = CAPTURED_ROUTER | CAPTURED_PREPROCESS,
                                           [SCOPE_BOTH] = CAPTURED_ATTENTION | CAPTURED_ROUTER |
                                                          CAPTURED_PREPROCESS,
                                           [SCOPE_STEP] = ~0u};
    return g == SCOPE_BOTH && m->pinned[K_GRAPH_MODULES] ? capture_of(&m->asked) : parts[g];
}

const char *choice_graphs(graph_scope g)
{
    static const char *const words[SCOPES] = {"none", "attention", "router", "attention+router",
                                              "full iteration"};
    return words[g];
}

static bool flex_is_pinned(const choice_maker *m)
{
    return m->pinned[K_FLEX] && !m->by_plan[K_FLEX];
}

static const dispatcher_id all_dispatchers[TO_KINDS] = {
#define DISPATCHER(id, ...) DISPATCHER_##id,
#define UNBUILT(...)
#include "job/dispatchers.def"
};

const char *choice_dispatcher_word(dispatch_choice to)
{
    return to < TO_FLEX ? dispatchers[all_dispatchers[to]].name : "flex";
}

const dispatcher *choice_dispatcher(const choice_maker *m, const choice *c)
{
    if (c->to < TO_FLEX) return &dispatchers[all_dispatchers[c->to]];
    if (flex_is_pinned(m)) return dispatcher_of_backend(m->asked.flex);
    const dispatcher *usual = judge_flex_over(m->asked.machine, c->ep * c->etp, NULL), *d = usual;
    for (int i = TO_FLEX, at = TO_FLEX; at < (int)c->to; i++) {
        d = &dispatchers[all_dispatchers[i]];
        at += d != usual;
    }
    return d;
}

const char *choice_text(arena *a, const choice *c)
{
    return arena_text(a,
                      "TP%" PRId64 " CP%" PRId64 "%s%s EP%" PRId64 " ETP%" PRId64 " PP%" PRId64
                      " VPP%" PRId64 " mbs %" PRId64,
                      c->tp, c->cp, c->cp > 1 ? " " : "", c->cp > 1 ? cp_kinds[c->kind].name : "",
                      c->ep, c->etp, c->pp, c->vpp, c->mbs);
}

double choice_on_host(const choice *c)
{
    return c->offload < OFFLOAD_ALL ? (double)c->offload / OFFLOAD_ALL : 1;
}

const char *choice_offload(arena *a, const choice *c)
{
    if (!c->offload) return "optimizer on the GPU";
    if (c->offload == OFFLOAD_ALL) return "optimizer on the host";
    if (c->offload == OFFLOAD_MOVED)
        return "optimizer state on the host, moved to the GPU for updates";
    return arena_text(a, "%d %% of the optimizer on the host", 100 * c->offload / OFFLOAD_ALL);
}

/* Powers of two, as large inside as heads and the node allow. */
bool choice_levels(const setup *base, int64_t tp, int64_t cp, int64_t levels[2])
{
    int64_t heads = base->j.kv_heads / tp;
    int64_t node = base->j.nvlink / tp, inner = 1;
    while (inner * 2 < cp && cp % (inner * 2) == 0 && inner * 2 <= node && heads > 0 &&
           heads % (inner * 2) == 0 && inner < 8)
        inner *= 2;
    levels[0] = inner;
    levels[1] = cp / inner;
    return inner > 1;
}

/* ---- knobs */

static void set_parallel(destination to, const choice *c)
{
    put_int(to, K_TP, c->tp);
    put_int(to, K_CP, c->cp);
    put_int(to, K_EP, c->ep);
    put_int(to, K_ETP, c->etp);
    put_int(to, K_MBS, c->mbs);
}

static void put_levels(destination to, const int64_t levels[2])
{
    int x = 0, y = 0;
    while (levels[0] >> (x + 1) && x < LEVELS_LOG - 1) x++;
    while (levels[1] >> (y + 1) && y < LEVELS_LOG - 1) y++;
    level_list *l = &to.m->levels[x][y];
    for (int i = 0; i < 2; i++) l->v[i] = value_of_int(l->item[i] = levels[i]);
    note(to, K_CP_LEVELS, (value){.kind = V_LIST, .list = {l->v, 2}});
    job_put_ints(to.j, K_CP_LEVELS, l->item, 2);
}

static void set_context(destination to, const choice *c, const setup *base)
{
    int64_t levels[2] = {1, 1};
    bool two = c->cp > 1 && cp_kinds[c->kind].levels && choice_levels(base, c->tp, c->cp, levels);
    if (c->cp > 1) put_word(to, K_CP_COMM, cp_kinds[c->kind].word);
    if (two)
        put_levels(to, levels);
    else if (job_has(to.j, K_CP_LEVELS))
        put_null(to, K_CP_LEVELS);
    put_flag(to, K_LATENT_RING, c->cp > 1 && cp_kinds[c->kind].latent);
}

/* Published runs have as many as fill the links (predict/dispatch.c). */
static void set_multiprocessors(destination to, const dispatcher *d)
{
    const int64_t full = to.m->ours ? 0 : dispatcher_full_sms(d, to.j->machine);
    bool set = job_has(to.j, K_FLEX_SMS);
    if (set && !to.m->by_plan[K_FLEX_SMS]) return;
    if (full)
        put_int(to, K_FLEX_SMS, full);
    else if (set)
        put_null(to, K_FLEX_SMS);
}

static void set_experts(destination to, const choice *c)
{
    const dispatcher *d = choice_dispatcher(to.m, c);
    put_word(to, K_DISPATCHER, d->word);
    if (d->flex)
        put_word(to, K_FLEX, flex_is_pinned(to.m) ? to.m->asked.flex : d->backend);
    else if (job_has(to.j, K_FLEX))
        put_null(to, K_FLEX);
    set_multiprocessors(to, d);
    put_flag(to, K_SHARED_OVERLAP, c->overlap == OVERLAP_SHARED);
    put_flag(to, K_DISPATCH_WGRAD, c->overlap == OVERLAP_WGRAD);
    put_flag(to, K_EP_OVERLAP, c->overlap >= OVERLAP_EP);
    put_flag(to, K_DELAY_WGRAD, c->overlap == OVERLAP_EP_DELAY);
}

static void put_edit(destination to, const edit *e)
{
    if (e->kind == EDIT_FLAG)
        put_flag(to, e->k, e->flag);
    else if (edit_holds(e, to.j))
        return;
    else if (e->kind == EDIT_NULL)
        put_null(to, e->k);
    else if (e->kind == EDIT_INT)
        put_int(to, e->k, e->whole);
    else
        put_word(to, e->k, e->word);
}

static void set_picks(destination to, const choice *c)
{
    for (pick_id p = 0; p < PICKS; p++) put_edit(to, &pick_values[p].list[c->pick[p]]);
}

bool choice_may_pick(const choice *c, pick_id p, const job *j)
{
    switch (p) {
#define PICK(knob, words, can, may, ...)                                                           \
    case PICK_##knob:                                                                              \
        return (can) && (!j || (may));
#include "plan/axes.def"
    default:
        return false;
    }
}

void choice_settle(choice *c)
{
    for (pick_id p = 0; p < PICKS; p++)
        if (!choice_may_pick(c, p, NULL)) c->pick[p] = 0;
}

static void set_recompute(destination to, unsigned drop)
{
    bool full = drop == DROP_FULL;
    put_word(to, K_RECOMPUTE,
             full   ? J_RECOMPUTE_FULL
             : drop ? J_RECOMPUTE_SELECTIVE
                    : J_RECOMPUTE_NULL);
    put_word(to, K_RECOMPUTE_METHOD, full ? J_RECOMPUTE_METHOD_UNIFORM : J_RECOMPUTE_METHOD_NULL);
    if (full)
        put_int(to, K_RECOMPUTE_LAYERS, 1);
    else
        put_null(to, K_RECOMPUTE_LAYERS);
    if (full || !drop)
        put_null(to, K_RECOMPUTE_MODULES);
    else
        put_words(to, K_RECOMPUTE_MODULES, modules_of(to.m, drop));
}

static void set_graphs(destination to, graph_scope g)
{
    const choice_maker *m = to.m;
    if (!g && (to.j->graphs == J_GRAPHS_NULL || to.j->graphs == J_GRAPHS_NONE)) return;
    bool named = m->pinned[K_GRAPH_MODULES] && !m->by_plan[K_GRAPH_MODULES];
    bool local = g && g != SCOPE_STEP && to.j->graphs == J_GRAPHS_LOCAL; /* as a person asked */
    if (!local)
        put_word(to, K_GRAPHS,
                 !g                ? J_GRAPHS_NONE
                 : g == SCOPE_STEP ? J_GRAPHS_FULL_ITERATION
                                   : J_GRAPHS_TRANSFORMER_ENGINE);
    if (!named || g != SCOPE_BOTH) put_words(to, K_GRAPH_MODULES, &m->graph_modules[g]);
    if (g != SCOPE_STEP) return;
    put_flag(to, K_PAGED_STASH, true);
    put_flag(to, K_OP_FUSER, true);
    /* on where nobody says; Megatron-LM has one flag for both */
    set_flag(to, K_NAN_LOSS, false);
    if (!m->pinned[K_NAN_GRAD]) set_flag(to, K_NAN_GRAD, false);
}

/* Our own runs go on with copies while the host updates, and move state: the other system's are
 * left as the recipe has them. */
static void set_state(destination to, const choice *c)
{
    bool moved = c->offload == OFFLOAD_MOVED, there = c->offload && !moved;
    put_flag(to, K_OPT_OFFLOAD, there);
    if (there && c->offload < OFFLOAD_ALL) put_real(to, K_OPT_OFFLOAD_FRACTION, choice_on_host(c));
    if (!to.m->ours) return;
    put_flag(to, K_OPT_STATES, moved);
    if (there && !to.m->pinned[K_OPT_OFFLOAD_OVERLAP]) put_flag(to, K_OPT_OFFLOAD_OVERLAP, true);
}

static void set_memory(destination to, const choice *c)
{
    set_recompute(to, c->drop);
    set_state(to, c);
    set_graphs(to, c->graphs);
}

static void set_precision(destination to, const choice *c)
{
    const choice_maker *m = to.m;
    if (m->precisions[c->precision]) put_word(to, K_PRECISION, m->precisions[c->precision]);
    if (m->aware) set_flag(to, K_PRECISION_AWARE, true);
    if (!m->wide[c->precision]) return;
    set_flag(to, K_FP8_PARAMS, false);
    if (!m->pinned[K_REUSE_GRAD]) set_flag(to, K_REUSE_GRAD, false);
}

/* Megatron-LM turns these on only where a flag asks for them; the other system does so by itself
 * (setup.c). */
static void set_asked(destination to, const choice *c)
{
    const bool *pinned = to.m->pinned;
    if (to.j->system != J_SYSTEM_MEGATRON_LM) return;
    bool sharded = to.j->dist_opt;
    bool reduced = layout_dp(to.j) > 1 || c->cp > 1 || layout_edp(to.j) > 1;
    bool gathers = sharded && reduced && (!pinned[K_GRAD_OVERLAP] || to.j->grad_overlap);
    if (!pinned[K_SP]) set_flag(to, K_SP, c->tp > 1);
    if (!pinned[K_GRAD_OVERLAP]) set_flag(to, K_GRAD_OVERLAP, sharded && reduced);
    if (!pinned[K_PARAM_OVERLAP]) set_flag(to, K_PARAM_OVERLAP, gathers);
}

/* What was recorded, for this EP: memory follows it as times do. */
static void set_routing(destination to, const choice *c)
{
    if (!to.m->routed || c->ep < 2 || !loads_by_megatron(to.j)) return;
    knob_id k = loads_knob(to.j);
    put_real(to, k, fmax(1, routing_skew(to.m->routed, c->ep)));
    to.r->knob[k].why = "--routing";
}

/* Behind the skew of this EP, which it holds. */
static void set_rank_capacity(destination to, const choice *c)
{
    bool kept = job_has(to.j, K_RANK_CAPACITY) && !to.m->by_plan[K_RANK_CAPACITY];
    if (c->graphs != SCOPE_STEP || kept) return;
    put_real(to, K_RANK_CAPACITY, loads_rank_capacity(to.j));
}

void choice_set(recipe *r, choice_maker *m, const choice *c)
{
    job own;
    job_of(&own, r);
    destination to = {r, &own, m, NULL};
    set_precision(to, c);
    set_parallel(to, c);
    put_int(to, K_PP, c->pp);
    bool open = !m->pinned[K_PP_LAYOUT];
    if (open && c->split)
        note(to, K_PP_LAYOUT,
             value_of_text(pipeline_balanced(r->a, own.layers, own.mtp, c->pp * c->vpp)));
    else if (open && c->vpp > 1 && !job_has(&own, K_LAYERS_PER_VSTAGE))
        put_int(to, K_VPP, c->vpp);
    const setup *base = choice_base(m, c->precision, c->tp);
    if (base) set_context(to, c, base);
    set_experts(to, c);
    set_picks(to, c);
    set_memory(to, c);
    set_routing(to, c);
    set_rank_capacity(to, c);
    set_asked(to, c);
}

void choice_open(choice_maker *m, const recipe *given, arena *a)
{
    /* bases and splits are made when they are first asked for, wherever that is */
    *m = (choice_maker){
        .a = arena_child(a), .given = given, .ours = target_of(given) == TARGET_MOEFOLD};
    job_of(&m->asked, given);
    m->world = m->asked.n_gpus;
    for (int k = 0; k < K_COUNT; k++) {
        m->pinned[k] = recipe_by_user(given, (knob_id)k);
        m->by_plan[k] = recipe_why(given, (knob_id)k) == by_plan;
    }
    memo_init(&m->splits, 3 * sizeof(int64_t), m->a);
    open_lists(m);
}

/* ---- setups that patches start from */

/* One stage, whatever the recipe says of more: only splits know (choice_split). */
static void leave_stages(recipe *r)
{
    static const knob_id of_stages[] = {
        K_VPP,          K_PP_LAYOUT,   K_ACCOUNT_EMBEDDING, K_ACCOUNT_LOSS,
        K_FIRST_LAYERS, K_LAST_LAYERS, K_LAYERS_PER_VSTAGE, K_GROUP_SIZE};
    for (size_t i = 0; i < sizeof of_stages / sizeof of_stages[0]; i++)
        recipe_open(r, of_stages[i]);
}

const setup *choice_base(choice_maker *m, int precision, int64_t tp)
{
    for (struct base_setup *b = m->bases; b; b = b->next)
        if (b->precision == precision && b->tp == tp) return b->s;
    struct base_setup *made = ARENA_NEW(m->a, struct base_setup);
    *made = (struct base_setup){.precision = precision, .tp = tp, .next = m->bases};
    m->bases = made;
    recipe *r = ARENA_NEW(m->a, recipe);
    *r = *m->given;
    choice one = {.tp = tp, .cp = 1, .mbs = 1, .ep = 1, .etp = 1, .precision = precision};
    job own = m->asked;
    destination to = {r, &own, m, NULL};
    set_precision(to, &one);
    set_parallel(to, &one);
    leave_stages(r);
    put_int(to, K_PP, 1);
    put_word(to, K_DISPATCHER, J_DISPATCHER_ALLTOALL);
    if (job_has(&own, K_FLEX)) put_null(to, K_FLEX);
    error err = {{0}};
    setup *s = ARENA_NEW(m->a, setup);
    if (setup_init(s, r, m->a, &err) == OK && s->possible && s->pipe.stages) made->s = s;
    return made->s;
}

const pipe_split *choice_split(choice_maker *m, const choice *c)
{
    const int64_t key[3] = {c->pp, c->vpp, c->split};
    pipe_split *made = memo_get(&m->splits, key);
    if (made) return made;
    made = ARENA_NEW(m->a, pipe_split);
    *made = (pipe_split){.pp = c->pp, .vpp = c->vpp, .split = c->split};
    memo_put(&m->splits, key, made);
    recipe *r = ARENA_NEW(m->a, recipe);
    *r = *m->given;
    choice one = {.tp = 1, .cp = 1, .mbs = 1, .ep = 1, .etp = 1, .to = TO_ALLTOALL};
    one.pp = c->pp;
    one.vpp = c->vpp;
    one.split = c->split;
    choice_set(r, m, &one);
    error err = {{0}};
    setup *s = ARENA_NEW(m->a, setup);
    if (setup_init(s, r, m->a, &err) != OK || s->pipe.why_not || !s->pipe.stages) return made;
    made->pipe = s->pipe;
    made->ok = s->pipe.vpp == c->vpp;
    made->j = &s->j;
    made->receives_early = c->pp > 1 && s->j.overlap_p2p;
    for (const axis_knob *x = axis_knobs; x->k != K_COUNT; x++)
        if (x->on == ON_STAGES) made->knob[made->n_knobs++] = (pipe_knob){x->k, s->r.knob[x->k]};
    return made;
}

/* ---- patching */

static void follow(destination to)
{
    int n;
    const follower *f = setup_followers(&n);
    for (int i = 0; i < n; i++) {
        setting *x = &to.r->knob[f[i].k];
        if (x->from != FROM_DERIVED && x->from != FROM_DEFAULT) continue;
        const char *why;
        const value v = f[i].of(to.j, &why);
        if (v.kind == V_NULL) continue;
        *x = (setting){v, FROM_DERIVED, why};
        see(to, f[i].k);
        job_take(to.j, to.r, f[i].k);
    }
}

/* A copy of the base gets the choice. */
static bool patch(setup *out, uint64_t *written, choice_maker *m, const choice *c,
                  const pipe_split *split)
{
    recipe *r = &out->r;
    destination to = {r, &out->j, m, written};
    set_parallel(to, c);
    for (int i = 0; split && i < split->n_knobs; i++) {
        knob_id k = split->knob[i].k;
        r->knob[k] = split->knob[i].s;
        job_put_as(&out->j, split->j, k);
        see(to, k);
    }
    set_context(to, c, choice_base(m, c->precision, c->tp));
    set_experts(to, c);
    set_picks(to, c);
    set_memory(to, c);
    set_asked(to, c);
    set_routing(to, c);
    follow(to);
    set_rank_capacity(to, c);
    out->possible = layout_possible(&out->j);
    if (out->possible) layout_init(&out->lay, &out->j);
    if (split) out->pipe = split->pipe;
    return out->possible;
}

bool choice_patch(setup *out, choice_maker *m, const choice *c, const pipe_split *split)
{
    const setup *base = choice_base(m, c->precision, c->tp);
    if (!base || (split && !split->ok)) return false;
    *out = *base;
    return patch(out, NULL, m, c, split);
}

bool choice_repatch(setup *out, patch_log *log, choice_maker *m, const choice *c,
                    const pipe_split *split)
{
    static const size_t behind = offsetof(setup, r) + sizeof(recipe);
    const setup *base = choice_base(m, c->precision, c->tp);
    if (!base || (split && !split->ok)) return false;
    if (log->base != base) {
        *out = *base;
        log->base = base;
    } else {
        for (int i = 0; i < WRITTEN_WORDS; i++)
            for (uint64_t w = log->written[i]; w; w &= w - 1) {
                int k = 64 * i + __builtin_ctzll(w);
                recipe_take(&out->r, &base->r, (knob_id)k);
            }
        memcpy((char *)out + behind, (const char *)base + behind, sizeof *out - behind);
    }
    memset(log->written, 0, sizeof log->written);
    return patch(out, log->written, m, c, split);
}

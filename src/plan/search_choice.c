/* search_choice.c - from a choice to knobs.
 *
 * I1  choice_patch leaves the same value in every knob that setup_init would, from choice_set's
 *     recipe. What it does not write does not depend on a choice. */
#include "plan/search_choice.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/maths.h"
#include "predict/cost.h"
#include "ir/segment.h"
#include "config/job_of.h"
#include "config/judgement.h"
#include "config/target.h"
#include "config/loads.h"

static const char by_plan[] = "plan";

/* Where a choice goes: a recipe, and the job of a setup that is patched. */
typedef struct destination {
    recipe *r;
    job *j; /* NULL: a recipe that is not resolved has none */
} destination;

static void put(destination to, knob_id k, value v)
{
    to.r->knob[k] = (setting){v, FROM_USER, by_plan};
    if (to.j) job_take(to.j, to.r, k);
}

static void put_int(destination to, knob_id k, int64_t n)
{
    put(to, k, value_of_int(n));
}

static void put_word(destination to, knob_id k, const char *word)
{
    put(to, k, word ? value_of_text(word) : (value){.kind = V_NULL});
}

/* Only where it differs from what the recipe has: exported recipes stay short. */
static void put_flag(destination to, knob_id k, bool on)
{
    if (recipe_on(to.r, k) != on) put(to, k, value_of_bool(on));
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

/* Lists of words are made once and live as long as the program. */
static value module_list(unsigned drop)
{
    static _Thread_local value lists[1 << DROP_MODULES][DROP_MODULES];
    unsigned at = 0;
    for (int i = 0; i < DROP_MODULES; i++)
        if (drop & drop_modules[i].drop) at |= 1u << i;
    int n = 0;
    for (int i = 0; i < DROP_MODULES; i++)
        if (at & 1u << i) lists[at][n++] = value_of_text(drop_modules[i].word);
    return (value){.kind = V_LIST, .list = {lists[at], n}};
}

static value graph_modules(graph_scope g)
{
    static const value words[] = {{.kind = V_TEXT, .text = "attn"},
                                  {.kind = V_TEXT, .text = "moe_router"},
                                  {.kind = V_TEXT, .text = "moe_preprocess"}};
    if (g == SCOPE_ATTENTION) return (value){.kind = V_LIST, .list = {words, 1}};
    if (g == SCOPE_ROUTER) return (value){.kind = V_LIST, .list = {words + 1, 2}};
    return (value){.kind = V_LIST, .list = {words, g == SCOPE_BOTH ? 3 : 0}};
}

unsigned choice_captured(const choice_maker *m, graph_scope g)
{
    static const unsigned parts[SCOPES] = {[SCOPE_ATTENTION] = CAPTURED_ATTENTION,
                                           [SCOPE_ROUTER] = CAPTURED_ROUTER | CAPTURED_PREPROCESS,
                                           [SCOPE_BOTH] = CAPTURED_ATTENTION | CAPTURED_ROUTER |
                                                          CAPTURED_PREPROCESS,
                                           [SCOPE_STEP] = ~0u};
    if (g != SCOPE_BOTH || m->given->knob[K_GRAPH_MODULES].from != FROM_USER) return parts[g];
    job j = {0};
    job_take(&j, m->given, K_GRAPHS);
    job_take(&j, m->given, K_GRAPH_MODULES);
    return capture_of(&j);
}

const char *choice_graphs(graph_scope g)
{
    static const char *const words[SCOPES] = {"none", "attention", "router", "attention+router",
                                              "full iteration"};
    return words[g];
}

enum { LEVELS_LOG = 16 };

static value level_list(const int64_t levels[2])
{
    static _Thread_local value lists[LEVELS_LOG][LEVELS_LOG][2];
    int x = 0, y = 0;
    while (levels[0] >> (x + 1) && x < LEVELS_LOG - 1) x++;
    while (levels[1] >> (y + 1) && y < LEVELS_LOG - 1) y++;
    value *l = lists[x][y];
    l[0] = value_of_int(levels[0]);
    l[1] = value_of_int(levels[1]);
    return (value){.kind = V_LIST, .list = {l, 2}};
}

const char *cp_kind_word(cp_kind k)
{
    static const char *const words[CP_KINDS] = {"p2p", "all_gather", "a2a", "a2a+p2p", "p2p"};
    return words[k];
}

const char *choice_flex(const recipe *r, const choice *c)
{
    if (r->knob[K_FLEX].from == FROM_USER && r->knob[K_FLEX].why != by_plan)
        return recipe_word(r, K_FLEX);
    const char *platforms = judge_flex_over(r, c->ep * c->etp, NULL);
    if (c->to != TO_OTHERS) return platforms;
    return text_equal(platforms, "deepep") ? "hybridep" : "deepep";
}

const char *choice_cp_kind(cp_kind k)
{
    static const char *const words[CP_KINDS] = {"ring", "all_gather", "a2a", "a2a+p2p", "latent"};
    return words[k];
}

const char *choice_text(arena *a, const choice *c)
{
    return arena_text(a,
                      "TP%" PRId64 " CP%" PRId64 "%s%s EP%" PRId64 " ETP%" PRId64 " PP%" PRId64
                      " VPP%" PRId64 " mbs %" PRId64,
                      c->tp, c->cp, c->cp > 1 ? " " : "", c->cp > 1 ? choice_cp_kind(c->kind) : "",
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

static void set_context(destination to, const choice *c, const setup *base)
{
    recipe *r = to.r;
    int64_t levels[2] = {1, 1};
    bool two = c->cp > 1 && c->kind == CP_LEVELS && choice_levels(base, c->tp, c->cp, levels);
    if (c->cp > 1) put_word(to, K_CP_COMM, cp_kind_word(c->kind));
    if (two)
        put(to, K_CP_LEVELS, level_list(levels));
    else if (recipe_given(r, K_CP_LEVELS))
        put_word(to, K_CP_LEVELS, NULL);
    put_flag(to, K_LATENT_RING, c->cp > 1 && c->kind == CP_LATENT);
}

/* hybridep's kernels reach more of Blackwell's links with 32 multiprocessors than with the 16 that
 * they take by themselves, and published runs there have them (predict/cost_message.c). */
static void set_multiprocessors(destination to, const choice *c)
{
    recipe *r = to.r;
    const gpu *g = recipe_gpu(r);
    bool set = recipe_given(r, K_FLEX_SMS), ours = r->knob[K_FLEX_SMS].why == by_plan;
    if (set && !ours) return;
    if (c->to >= TO_DOMAINS && recipe_is(r, K_FLEX, "hybridep") && g && g->arch == ARCH_BLACKWELL &&
        target_of(r) == TARGET_MEGATRON)
        put_int(to, K_FLEX_SMS, 32);
    else if (set)
        put_word(to, K_FLEX_SMS, NULL);
}

static void set_experts(destination to, const choice *c, const recipe *given)
{
    recipe *r = to.r;
    static const char *const words[DISPATCHER_KINDS] = {"allgather", "alltoall", "flex", "flex"};
    put_word(to, K_DISPATCHER, words[c->to]);
    if (c->to >= TO_DOMAINS)
        put_word(to, K_FLEX, choice_flex(given, c));
    else if (recipe_given(r, K_FLEX))
        put_word(to, K_FLEX, NULL);
    set_multiprocessors(to, c);
    put_flag(to, K_SHARED_OVERLAP, c->overlap == OVERLAP_SHARED);
    put_flag(to, K_DISPATCH_WGRAD, c->overlap == OVERLAP_WGRAD);
    put_flag(to, K_EP_OVERLAP, c->overlap >= OVERLAP_EP);
    put_flag(to, K_DELAY_WGRAD, c->overlap == OVERLAP_EP_DELAY);
    put_flag(to, K_TP_OVERLAP, c->tp_overlap);
}

static void set_recompute(destination to, unsigned drop)
{
    bool full = drop == DROP_FULL;
    put_word(to, K_RECOMPUTE, full ? "full" : drop ? "selective" : NULL);
    put_word(to, K_RECOMPUTE_METHOD, full ? "uniform" : NULL);
    put(to, K_RECOMPUTE_LAYERS, full ? value_of_int(1) : (value){.kind = V_NULL});
    put(to, K_RECOMPUTE_MODULES, full || !drop ? (value){.kind = V_NULL} : module_list(drop));
}

static void set_graphs(destination to, graph_scope g)
{
    recipe *r = to.r;
    bool given = recipe_given(r, K_GRAPHS) && !recipe_is(r, K_GRAPHS, "none");
    if (!g && !given) return;
    bool named =
        r->knob[K_GRAPH_MODULES].from == FROM_USER && r->knob[K_GRAPH_MODULES].why != by_plan;
    bool local = g && g != SCOPE_STEP && recipe_is(r, K_GRAPHS, "local"); /* as a person asked */
    if (!local)
        put_word(to, K_GRAPHS,
                 !g                ? "none"
                 : g == SCOPE_STEP ? "full_iteration"
                                   : "transformer_engine");
    if (!named || g != SCOPE_BOTH) put(to, K_GRAPH_MODULES, graph_modules(g));
    if (g != SCOPE_STEP) return;
    put_flag(to, K_PAGED_STASH, true);
    put_flag(to, K_OP_FUSER, true);
    /* on where nobody says; Megatron-LM has one flag for both */
    put(to, K_NAN_LOSS, value_of_bool(false));
    if (r->knob[K_NAN_GRAD].from != FROM_USER) put(to, K_NAN_GRAD, value_of_bool(false));
}

/* Our own runs go on with copies while the host updates, and move state: the other system's are
 * left as the recipe has them. */
static void set_state(destination to, const choice *c)
{
    recipe *r = to.r;
    bool moved = c->offload == OFFLOAD_MOVED, there = c->offload && !moved;
    put_flag(to, K_OPT_OFFLOAD, there);
    if (there && c->offload < OFFLOAD_ALL)
        put(to, K_OPT_OFFLOAD_FRACTION, value_of_float(choice_on_host(c)));
    if (target_of(r) == TARGET_MEGATRON) return;
    put_flag(to, K_OPT_STATES, moved);
    if (there && r->knob[K_OPT_OFFLOAD_OVERLAP].from != FROM_USER)
        put_flag(to, K_OPT_OFFLOAD_OVERLAP, true);
}

static void set_memory(destination to, const choice *c)
{
    set_recompute(to, c->drop);
    set_state(to, c);
    set_graphs(to, c->graphs);
}

static void set_precision(destination to, const choice_maker *m, const choice *c)
{
    recipe *r = to.r;
    const char *word = m->precisions[c->precision];
    if (word) put_word(to, K_PRECISION, word);
    if (m->aware) put(to, K_PRECISION_AWARE, value_of_bool(true));
    if (!m->wide[c->precision]) return;
    put(to, K_FP8_PARAMS, value_of_bool(false));
    if (r->knob[K_REUSE_GRAD].from != FROM_USER) put(to, K_REUSE_GRAD, value_of_bool(false));
}

/* Megatron-LM turns these on only where a flag asks for them; the other system does so by itself
 * (setup.c). */
static void set_asked(destination to, const choice *c)
{
    recipe *r = to.r;
    if (!recipe_is_lm(r)) return;
    bool sharded = recipe_on(r, K_DIST_OPT);
    bool reduced = layout_dp(r) > 1 || c->cp > 1 || layout_edp(r) > 1;
    const struct {
        knob_id k;
        bool on;
    } asked[] = {{K_SP, c->tp > 1},
                 {K_GRAD_OVERLAP, sharded && reduced},
                 {K_PARAM_OVERLAP,
                  sharded && reduced &&
                      (r->knob[K_GRAD_OVERLAP].from != FROM_USER || recipe_on(r, K_GRAD_OVERLAP))}};
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++)
        if (r->knob[asked[i].k].from != FROM_USER) put(to, asked[i].k, value_of_bool(asked[i].on));
}

/* What was recorded, for this EP: memory follows it as times do. False: nothing was. */
static bool set_routing(destination to, const choice_maker *m, const choice *c)
{
    recipe *r = to.r;
    if (!m->routed || c->ep < 2 || !loads_by_megatron(r)) return false;
    loads_set(r, fmax(1, routing_skew(m->routed, c->ep)), "--routing");
    if (to.j) {
        job_take(to.j, r, K_ROUTING_SKEW);
        job_take(to.j, r, K_BUFFER_FACTOR);
    }
    return true;
}

/* Behind the skew of this EP, which it holds. */
static void set_rank_capacity(destination to, const choice *c)
{
    recipe *r = to.r;
    bool ours = r->knob[K_RANK_CAPACITY].why == by_plan;
    if (c->graphs != SCOPE_STEP || (recipe_given(r, K_RANK_CAPACITY) && !ours)) return;
    put(to, K_RANK_CAPACITY, value_of_float(loads_rank_capacity(r)));
}

void choice_set(recipe *r, choice_maker *m, const choice *c)
{
    destination to = {r, NULL};
    set_precision(to, m, c);
    set_parallel(to, c);
    put_int(to, K_PP, c->pp);
    if (r->knob[K_PP_LAYOUT].from != FROM_USER && c->split)
        put_word(
            to, K_PP_LAYOUT,
            pipeline_balanced(r->a, recipe_int(r, K_LAYERS), recipe_int(r, K_MTP), c->pp * c->vpp));
    else if (r->knob[K_PP_LAYOUT].from != FROM_USER && c->vpp > 1 &&
             !recipe_given(r, K_LAYERS_PER_VSTAGE))
        put_int(to, K_VPP, c->vpp);
    const setup *base = choice_base(m, c->precision, c->tp);
    if (base) set_context(to, c, base);
    set_experts(to, c, m->given);
    set_memory(to, c);
    set_routing(to, m, c);
    set_rank_capacity(to, c);
    set_asked(to, c);
}

/* ---- setups that patches start from */

/* What a split of layers over stages sets or reads. */
static const knob_id pipe_knobs[PIPE_KNOBS] = {
    K_PP,           K_VPP,          K_PP_LAYOUT,   K_ACCOUNT_EMBEDDING,
    K_ACCOUNT_LOSS, K_OVERLAP_P2P,  K_BATCH_P2P,   K_ALIGN_GATHER,
    K_GROUP_SIZE,   K_FIRST_LAYERS, K_LAST_LAYERS, K_LAYERS_PER_VSTAGE};

/* One stage, whatever the recipe says of more: only splits know (choice_split). */
static void leave_stages(recipe *r)
{
    static const knob_id of_stages[] = {
        K_VPP,          K_PP_LAYOUT,   K_ACCOUNT_EMBEDDING, K_ACCOUNT_LOSS,
        K_FIRST_LAYERS, K_LAST_LAYERS, K_LAYERS_PER_VSTAGE, K_GROUP_SIZE};
    for (size_t i = 0; i < sizeof of_stages / sizeof of_stages[0]; i++)
        r->knob[of_stages[i]] = (setting){.from = FROM_NOTHING};
    put_int((destination){r, NULL}, K_PP, 1);
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
    one.to = TO_EXPERTS;
    destination to = {r, NULL};
    set_precision(to, m, &one);
    set_parallel(to, &one);
    leave_stages(r);
    put_word(to, K_DISPATCHER, "alltoall");
    if (recipe_given(r, K_FLEX)) put_word(to, K_FLEX, NULL);
    error err = {{0}};
    setup *s = ARENA_NEW(m->a, setup);
    if (setup_init(s, r, m->a, &err) == OK && s->possible && s->pipe.stages) made->s = s;
    return made->s;
}

const pipe_split *choice_split(choice_maker *m, const choice *c)
{
    const int64_t key[3] = {c->pp, c->vpp, c->split};
    if (!m->splits.a) memo_init(&m->splits, sizeof key, m->a);
    pipe_split *made = memo_get(&m->splits, key);
    if (made) return made;
    made = ARENA_NEW(m->a, pipe_split);
    *made = (pipe_split){.pp = c->pp, .vpp = c->vpp, .split = c->split};
    memo_put(&m->splits, key, made);
    recipe *r = ARENA_NEW(m->a, recipe);
    *r = *m->given;
    choice one = {.tp = 1, .cp = 1, .mbs = 1, .ep = 1, .etp = 1, .to = TO_EXPERTS};
    one.pp = c->pp;
    one.vpp = c->vpp;
    one.split = c->split;
    choice_set(r, m, &one);
    error err = {{0}};
    setup *s = ARENA_NEW(m->a, setup);
    if (setup_init(s, r, m->a, &err) != OK || s->pipe.why_not || !s->pipe.stages) return made;
    made->pipe = s->pipe;
    made->ok = s->pipe.vpp == c->vpp;
    made->receives_early = c->pp > 1 && s->j.overlap_p2p;
    for (int i = 0; i < PIPE_KNOBS; i++) made->knob[i] = s->r.knob[pipe_knobs[i]];
    return made;
}

/* ---- patching */

/* Null asks for the derived value. */
static void patch_value(destination to, const recipe *given, knob_id k, value v)
{
    const setting *set = &given->knob[k];
    if (set->from == FROM_USER && set->v.kind != V_NULL) return;
    to.r->knob[k].v = v;
    job_take(to.j, to.r, k);
}

static void patch_derived(setup *s, const choice_maker *m, const choice *c)
{
    recipe *r = &s->r;
    destination to = {r, &s->j};
    const recipe *given = m->given;
    bool sharded = s->j.dist_opt;
    bool reduced = layout_dp(r) > 1 || c->cp > 1 || layout_edp(r) > 1;
    patch_value(to, given, K_SP, value_of_bool(c->tp > 1));
    patch_value(to, given, K_GRAD_OVERLAP, value_of_bool(sharded && reduced));
    bool overlap = s->j.grad_overlap;
    patch_value(to, given, K_PARAM_OVERLAP, value_of_bool(sharded && reduced && overlap));
    patch_value(to, given, K_OPT_OFFLOAD_FRACTION,
                value_of_float(c->offload == OFFLOAD_MOVED ? 0 : choice_on_host(c)));
    patch_value(to, given, K_ROUTING_SKEW, value_of_float(loads_skew(r)));
    if (!set_routing(to, m, c) || !loads_forced(r))
        patch_value(to, given, K_BUFFER_FACTOR, value_of_float(loads_room(r)));
    set_rank_capacity(to, c);
    patch_value(to, given, K_CONNECTIONS, setup_connections(r));
    patch_value(to, given, K_TE_RNG, value_of_bool(s->j.graphs != J_GRAPHS_NONE));
}

bool choice_patch(setup *out, choice_maker *m, const choice *c, const pipe_split *split)
{
    const setup *base = choice_base(m, c->precision, c->tp);
    if (!base || (split && !split->ok)) return false;
    *out = *base;
    recipe *r = &out->r;
    destination to = {r, &out->j};
    set_parallel(to, c);
    for (int i = 0; split && i < PIPE_KNOBS; i++) {
        r->knob[pipe_knobs[i]] = split->knob[i];
        job_take(&out->j, r, pipe_knobs[i]);
    }
    set_context(to, c, base);
    set_experts(to, c, m->given);
    set_memory(to, c);
    patch_derived(out, m, c);
    out->possible = layout_possible(r);
    if (out->possible) layout_init(&out->lay, r);
    if (split) out->pipe = split->pipe;
    return out->possible;
}

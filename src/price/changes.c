/* changes.c - each of a table of changes, checked by the rules and priced.
 *
 * A change is a few overrides on top of the recipe. One that changes nothing, breaks a rule or
 * makes another number of ranks necessary is left out. */
#include "price/changes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "rules/rules.h"

static const double NOTHING = 5e-4; /* a gain that is none */

#define EP_BESIDE   "comm_overlap.overlap_moe_expert_parallel_comm"
#define DELAY       "comm_overlap.delay_wgrad_compute"
#define DISPATCHER  "model.moe_token_dispatcher_type"
#define FLEX        "model.moe_flex_dispatcher_backend"
#define SELECTIVE   "model.recompute_granularity=selective model.recompute_modules="
#define GRAPHS      "model.cuda_graph_impl="
#define GRAPH_PARTS " model.cuda_graph_modules="

static const char *const table[] = {
    "model.recompute_granularity=null model.recompute_modules=null",
    SELECTIVE "[moe_act]",
    SELECTIVE "[layernorm,moe_act]",
    SELECTIVE "[mla_up_proj]",
    SELECTIVE "[mla_up_proj,moe_act]",
    SELECTIVE "[mla_up_proj,layernorm,moe_act]",
    SELECTIVE "[moe]",
    SELECTIVE "[core_attn]",
    "model.recompute_granularity=full model.recompute_method=uniform model.recompute_num_layers=1 "
    "model.recompute_modules=null",
    EP_BESIDE "=true",
    EP_BESIDE "=true " DELAY "=true",
    EP_BESIDE "=false " DELAY "=false",
    "model.moe_shared_expert_overlap=true",
    "ddp.overlap_grad_reduce=true ddp.overlap_param_gather=true",
    "comm_overlap.overlap_p2p_comm=true comm_overlap.batch_p2p_comm=false",
    "comm_overlap.tp_comm_overlap=true",
    DISPATCHER "=alltoall " FLEX "=null",
    DISPATCHER "=flex " FLEX "=deepep",
    DISPATCHER "=flex " FLEX "=hybridep",
    GRAPHS "none" GRAPH_PARTS "[]",
    GRAPHS "transformer_engine" GRAPH_PARTS "[attn,moe_router,moe_preprocess]",
    GRAPHS "full_iteration" GRAPH_PARTS "[]",
    "moefold.mla_latent_ring=true",
    "model.cp_comm_type=p2p",
    "model.cp_comm_type=all_gather",
    "model.cp_comm_type=a2a",
    "mixed_precision=bf16_mixed",
    "mixed_precision=bf16_with_fp8_subchannel_scaling_mixed",
    "mixed_precision=bf16_with_mxfp8_mixed",
    "optimizer.optimizer_cpu_offload=false",
};
enum { TABLE = sizeof table / sizeof table[0] };

/* ---- sizes: one doubled or halved, and what makes room for it */

static const struct {
    knob_id up, down; /* K_COUNT: none */
} swaps[] = {{K_TP, K_COUNT},  {K_COUNT, K_TP},  {K_CP, K_COUNT},  {K_COUNT, K_CP}, {K_EP, K_COUNT},
             {K_COUNT, K_EP},  {K_PP, K_COUNT},  {K_COUNT, K_PP},  {K_TP, K_CP},    {K_CP, K_TP},
             {K_MBS, K_COUNT}, {K_COUNT, K_MBS}, {K_VPP, K_COUNT}, {K_COUNT, K_VPP}};
enum { SWAPS = sizeof swaps / sizeof swaps[0] };

static const char *swap_words(const setup *s, int i, arena *a)
{
    textbuf t = text_init(a);
    for (int half = 0; half < 2; half++) {
        knob_id k = half ? swaps[i].down : swaps[i].up;
        if (k == K_COUNT) continue;
        int64_t now = recipe_given(&s->r, k) ? recipe_int(&s->r, k) : 1;
        if (half && now % 2) return NULL;
        text_add(&t, "%s%s=%lld", t.n ? " " : "", knobs[k].key,
                 (long long)(half ? now / 2 : now * 2));
    }
    return t.s;
}

/* ---- pricing one */

static bool same_knobs(const setup *a, const setup *b)
{
    for (int k = 0; k < K_COUNT; k++)
        if (!value_equal(a->r.knob[k].v, b->r.knob[k].v)) return false;
    return true;
}

typedef struct trial {
    const recipe *given;
    const setup *now;
    const hardware *hw;
    const price_options *o;
    arena *a;
} trial;

static bool try_words(const trial *t, const char *words, price *out)
{
    recipe r = *t->given;
    setup *s = ARENA_NEW(t->a, setup);
    violations found;
    error err;
    status st = OK;
    for (const char *w = words; *w && !st;) {
        size_t n = strcspn(w, " ");
        st = recipe_override(&r, arena_copy(t->a, w, n), "change", &err);
        w += n + strspn(w + n, " ");
    }
    if (!st) st = setup_init(s, &r, t->a, &err);
    if (st || !s->possible || s->pipe.why_not || s->lay.world != t->now->lay.world) return false;
    if (same_knobs(s, t->now)) return false;
    rules_check(&found, s, false, t->a);
    if (found.n_errors) return false;
    price_setup(out, s, t->hw, t->o, t->a);
    return true;
}

static int by_gain(const void *a, const void *b)
{
    const price_change *x = a, *y = b;
    if (x->fits != y->fits) return y->fits - x->fits;
    return (y->gain > x->gain) - (y->gain < x->gain);
}

int price_changes(price_change *out, int room, const recipe *given, const price *now,
                  const hardware *hw, const price_options *o, arena *a)
{
    setup *s = ARENA_NEW(a, setup);
    error err;
    if (setup_init(s, given, a, &err)) return 0;
    price_change all[TABLE + SWAPS];
    int n = 0;
    for (int i = 0; i < TABLE + SWAPS; i++) {
        const char *words = i < TABLE ? table[i] : swap_words(s, i - TABLE, a);
        arena *scratch = arena_create();
        trial t = {given, s, hw, o, scratch};
        price p;
        bool moves =
            words && try_words(&t, words, &p) &&
            (fabs(now->step_s / p.step_s - 1) > NOTHING || p.peak_bytes != now->peak_bytes);
        if (moves)
            all[n++] =
                (price_change){words, now->step_s / p.step_s - 1, p.step_s, p.peak_bytes, p.fits};
        arena_destroy(scratch);
    }
    qsort(all, (size_t)n, sizeof *all, by_gain);
    if (n > room) n = room;
    memcpy(out, all, sizeof *out * (size_t)n);
    return n;
}

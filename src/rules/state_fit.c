/* state_fit.c - a layout on which weights, gradients and optimizer fit.
 *
 * They shrink with EP (experts) and with PP (everything), and the optimizer with the replicas. The
 * smallest world is taken whose fullest rank keeps a third of the GPU for activations. */
#include <inttypes.h>

#include "rules/words.h"

enum { PP_MOST = 32, EP_MOST = 65536 };

typedef struct choice {
    int64_t pp, ep, world;
} choice;

/* What a split and a batch say is of the old layout. */
static const knob_id reopened[] = {
    K_PP_LAYOUT,         K_VPP,          K_LAYERS_PER_VSTAGE, K_GBS,
    K_ACCOUNT_EMBEDDING, K_ACCOUNT_LOSS, K_FIRST_LAYERS,      K_LAST_LAYERS};

static bool holds(const setup *s, const choice *c, arena *a)
{
    arena_place mark = arena_mark(a);
    setup *t = ARENA_NEW(a, setup);
    *t = *s;
    t->r.a = a;
    for (size_t i = 0; i < sizeof reopened / sizeof reopened[0]; i++)
        t->r.knob[reopened[i]] = (setting){.from = FROM_NOTHING};
    recipe_set(&t->r, K_PP, value_of_int(c->pp), "");
    recipe_set(&t->r, K_EP, value_of_int(c->ep), "");
    recipe_set(&t->r, K_N_GPUS, value_of_int(c->world), "");
    if (!USER(ETP)) recipe_set(&t->r, K_ETP, value_of_int(c->ep > 1 && !LM ? 1 : I(TP)), "");
    error err;
    bool fits = !pipeline_derive(&t->r, &err) && !pipeline_init(&t->pipe, &t->r, &err) &&
                !t->pipe.why_not && layout_possible(&t->r);
    if (fits) {
        layout_init(&t->lay, &t->r);
        state_bytes bytes;
        setup_fullest(t, &bytes);
        fits = state_total(&bytes) < s->gpu->memory_bytes / 3 * 2;
    }
    arena_release(a, mark);
    return fits;
}

/* The least model parallelism that fits on `world` GPUs; 0: on as few as it needs. */
static bool search(const setup *s, int64_t world, choice *best, arena *a)
{
    int64_t fewest_so_far = INT64_MAX;
    for (int64_t pp = 1; pp <= PP_MOST && pp <= I(LAYERS); pp *= 2)
        for (int64_t ep = 1; ep <= EP_MOST && ep <= I(EXPERTS); ep *= 2) {
            int64_t etp = USER(ETP) ? I(ETP) : ep > 1 && !LM ? 1 : I(TP);
            int64_t fewest = layout_fewest(I(TP), I(CP), pp, ep, etp);
            choice c = {pp, ep, world ? world : fewest};
            if (I(EXPERTS) % ep || fewest >= fewest_so_far || fewest > LAYOUT_WORLD_MAX) continue;
            if (c.world % fewest || !holds(s, &c, a)) continue;
            fewest_so_far = fewest;
            *best = c;
        }
    return fewest_so_far < INT64_MAX;
}

const char *state_fit(const setup *s, arena *a)
{
    if (!s->gpu || !s->possible || s->pipe.why_not || !SET(EXPERTS)) return NULL;
    choice best;
    bool stays = USER(N_GPUS) && search(s, I(N_GPUS), &best, a);
    if (!stays && !search(s, 0, &best, a)) return NULL;
    int64_t dp = best.world / mul_sat(mul_sat(I(TP), I(CP)), best.pp);
    bool stays_whole = MULTIPLE(I(GBS), mul_sat(I(MBS), dp));
    return arena_text(a,
                      "EP=%" PRId64 " PP=%" PRId64 " N_GPUS=%" PRId64 " VPP=null PP_LAYOUT=null "
                      "LAYERS_PER_VSTAGE=null FIRST_LAYERS=null LAST_LAYERS=null%s",
                      best.ep, best.pp, best.world, stays_whole ? "" : " GBS=null");
}

/* Weights and gradients stay, and leave a third of the GPU for activations. */
const char *state_offload(const setup *s, arena *a)
{
    bool narrow = ON(FP8_PARAMS) && !IS(FP8_RECIPE, "delayed");
    if (!s->gpu || !s->possible || s->pipe.why_not || narrow || ON(OPT_OFFLOAD) || ON(OPT_STATES) ||
        IS(OPTIMIZER, "none") || !ON(DECOUPLED_WD))
        return NULL;
    state_bytes bytes;
    setup_fullest(s, &bytes);
    if (state_total(&bytes) - state_optimizer(&bytes) >= s->gpu->memory_bytes / 3 * 2) return NULL;
    return arena_text(a, "OPT_OFFLOAD=true PRECISION_AWARE=true%s",
                      OURS ? " OPT_OFFLOAD_OVERLAP=true" : "");
}

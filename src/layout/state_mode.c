/* state_mode.c - bytes of an element: one row a precision, and what the optimizer's knobs make
 * of it. */
#include "layout/state.h"

#include <math.h>

#include "base/maths.h"
#include "config/target.h"

/* Transformer Engine keeps narrow weights twice, by rows and by columns; each copy has its
 * scales. */
typedef struct narrow_mode {
    const char *recipe, *name;
    double bytes;
} narrow_mode;

static const narrow_mode fp8_modes[] = {
    {"delayed", "FP8 weights and their transposes", 1 + 1},
    {"tensorwise", "FP8 weights and their transposes", 1 + 1},
    {"blockwise", "FP8 weights by 128 x 128 blocks, and their transposes", 2 * (1 + 4.0 / 16384)},
    {"mxfp8", "MXFP8 weights by rows and by columns", 2 * (1 + 1.0 / 32)},
};
static const narrow_mode fp4_mode = {"nvfp4", "NVFP4 weights by rows and by columns",
                                     2 * (0.5 + 1.0 / 16)};

static const narrow_mode *narrow_of(const recipe *r)
{
    if (recipe_given(r, K_FP4) && recipe_on(r, K_FP4_PARAMS)) return &fp4_mode;
    if (!recipe_given(r, K_FP8) || !recipe_on(r, K_FP8_PARAMS)) return NULL;
    for (size_t i = 0; i < sizeof fp8_modes / sizeof fp8_modes[0]; i++)
        if (recipe_is(r, K_FP8_RECIPE, fp8_modes[i].recipe)) return &fp8_modes[i];
    return &fp8_modes[0];
}

double state_on_host(const recipe *r)
{
    if (!recipe_on(r, K_OPT_OFFLOAD)) return 0;
    if (!recipe_given(r, K_OPT_OFFLOAD_FRACTION)) return 1;
    double p = recipe_real(r, K_OPT_OFFLOAD_FRACTION);
    return p > 0 ? fmin(p, 1) : 0; /* NaN is 0 too */
}

bool state_host_is_ours(const recipe *r)
{
    return target_of(r) != TARGET_MEGATRON;
}

bool state_waits_on_host(const recipe *r)
{
    return recipe_on(r, K_OPT_STATES) && !recipe_on_cpu(r) && target_of(r) == TARGET_MEGATRON;
}

bool state_is_moved(const recipe *r)
{
    return recipe_on(r, K_OPT_STATES) && !recipe_on(r, K_OPT_OFFLOAD) && !recipe_on_cpu(r) &&
           target_of(r) != TARGET_MEGATRON && !recipe_is(r, K_OPTIMIZER, "none");
}

/* Copies of 16 MiB an array take the host's link as well as larger ones; and of little there are
 * several pieces, too, so that they take turns. */
int64_t moved_piece(int64_t owned)
{
    enum { MOST = 1 << 22, LEAST = 1 << 14, PIECES = 4 };
    int64_t piece = round_up(ceil_div(owned, PIECES), LEAST);
    return piece < LEAST ? LEAST : piece < MOST ? piece : MOST;
}

/* FP16 gradients that are kept narrow have an FP32 copy in the optimizer. */
static double gradient_copy(const number_types *t)
{
    return t->weight == DTYPE_F16 && t->gradient == DTYPE_F16 ? 4 : 0;
}

/* Without the precision-aware optimizer Megatron keeps the FP32 weights of its slices on the GPU,
 * whatever is offloaded: moments go to the host, and a copy of the weights. */
static double stays_on_gpu(const recipe *r, const number_types *t)
{
    return t->masters && !recipe_on(r, K_PRECISION_AWARE) ? 4 : 0;
}

state_mode state_mode_bare(const recipe *r)
{
    number_types t = number_types_of(r);
    const narrow_mode *narrow = narrow_of(r);
    double p = t.moments ? state_on_host(r) : 0, plain = (double)dtype_bits(t.weight) / 8;
    bool moved = state_is_moved(r);
    double here = number_types_optimizer(&t) + (t.moments ? gradient_copy(&t) : 0);
    return (state_mode){.types = t,
                        .weight = narrow ? narrow->bytes : plain,
                        .plain = plain,
                        .gradient = (double)dtype_bits(t.gradient) / 8,
                        .optimizer = moved ? 0 : (1 - p) * here + p * stays_on_gpu(r, &t),
                        /* master, moments; Megatron's gradients are pinned whole, ours in pieces */
                        .host = moved ? number_types_optimizer(&t)
                                      : p * (4 + 8 + (target_of(r) == TARGET_MEGATRON ? 4 : 0)),
                        .moved = moved ? number_types_optimizer(&t) : 0};
}

state_mode state_mode_of(const recipe *r)
{
    state_mode m = state_mode_bare(r);
    const narrow_mode *narrow = narrow_of(r);
    textbuf t = text_init(r->a);
    text_add(&t, "%s weights, %g-byte gradients, %s", dtype_name(m.types.weight), m.gradient,
             !m.types.moments     ? "no optimizer"
             : m.types.one_moment ? "Muon"
                                  : "Adam");
    if (m.types.moments && !m.types.one_moment && !recipe_is(r, K_OPTIMIZER, "adam"))
        text_add(&t, " (state of other optimizers is unknown)");
    if (recipe_on(r, K_PRECISION_AWARE) && !recipe_on(r, K_OPT_OFFLOAD))
        text_add(&t, ", precision-aware%s",
                 m.types.masters && m.types.master == DTYPE_I16 ? " with remainders" : "");
    if (recipe_on(r, K_DIST_OPT)) text_add(&t, ", sharded");
    if (m.moved > 0)
        text_add(&t, ", on the host and moved to the GPU in pieces to be updated");
    else if (m.host > 0)
        text_add(&t, ", %g %% of it on the host", 100 * state_on_host(r));
    if (state_waits_on_host(r)) text_add(&t, ", on the host between updates");
    if (narrow)
        text_add(&t, "; %s (Transformer Engine's layout; approximate)", narrow->name);
    else if (recipe_given(r, K_FP8) || recipe_given(r, K_FP4))
        text_add(&t, target_of(r) == TARGET_MEGATRON
                         ? "; low-precision copies cached by Transformer Engine are not counted"
                         : "; low-precision copies of weights are counted in the peak");
    m.why = t.s;
    return m;
}

/* state_mode.c - bytes of an element: one row a precision, and what the optimizer's knobs make
 * of it. */
#include "layout/state.h"

#include <math.h>

#include "base/maths.h"

/* Transformer Engine keeps narrow weights twice, by rows and by columns; each copy has its
 * scales. */
typedef struct narrow_mode {
    const char *name;
    double bytes;
} narrow_mode;

static const narrow_mode fp8_modes[J_FP8_RECIPE_OTHER + 1] = {
    [J_FP8_RECIPE_DELAYED] = {"FP8 weights and their transposes", 1 + 1},
    [J_FP8_RECIPE_TENSORWISE] = {"FP8 weights and their transposes", 1 + 1},
    [J_FP8_RECIPE_BLOCKWISE] = {"FP8 weights by 128 x 128 blocks, and their transposes",
                                2 * (1 + 4.0 / 16384)},
    [J_FP8_RECIPE_MXFP8] = {"MXFP8 weights by rows and by columns", 2 * (1 + 1.0 / 32)},
};
static const narrow_mode fp4_mode = {"NVFP4 weights by rows and by columns", 2 * (0.5 + 1.0 / 16)};

static const narrow_mode *narrow_of(const job *j)
{
    if (job_has(j, K_FP4) && j->fp4_params) return &fp4_mode;
    if (!job_has(j, K_FP8) || !j->fp8_params) return NULL;
    const narrow_mode *mode = &fp8_modes[j->fp8_recipe];
    return mode->name ? mode : &fp8_modes[J_FP8_RECIPE_DELAYED];
}

double state_on_host(const job *j)
{
    if (!j->opt_offload) return 0;
    if (!job_has(j, K_OPT_OFFLOAD_FRACTION)) return 1;
    double p = j->opt_offload_fraction;
    return p > 0 ? fmin(p, 1) : 0; /* NaN is 0 too */
}

bool state_host_is_ours(const job *j)
{
    return job_is_ours(j);
}

bool state_waits_on_host(const job *j)
{
    return j->opt_states && !job_on_cpu(j) && !job_is_ours(j);
}

bool state_is_moved(const job *j)
{
    return j->opt_states && !j->opt_offload && !job_on_cpu(j) && job_is_ours(j) &&
           j->optimizer != J_OPTIMIZER_NONE;
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
static double stays_on_gpu(const job *j, const number_types *t)
{
    return t->masters && !j->precision_aware ? 4 : 0;
}

state_mode state_mode_bare(const job *j)
{
    number_types t = number_types_of(j);
    const narrow_mode *narrow = narrow_of(j);
    double p = t.moments ? state_on_host(j) : 0, plain = (double)dtype_bits(t.weight) / 8;
    bool moved = state_is_moved(j);
    double here = number_types_optimizer(&t) + (t.moments ? gradient_copy(&t) : 0);
    return (state_mode){.types = t,
                        .weight = narrow ? narrow->bytes : plain,
                        .plain = plain,
                        .gradient = (double)dtype_bits(t.gradient) / 8,
                        .optimizer = moved ? 0 : (1 - p) * here + p * stays_on_gpu(j, &t),
                        /* master, moments; Megatron's gradients are pinned whole, ours in pieces */
                        .host = moved ? number_types_optimizer(&t)
                                      : p * (4 + 8 + (!job_is_ours(j) ? 4 : 0)),
                        .moved = moved ? number_types_optimizer(&t) : 0};
}

state_mode state_mode_of(const job *j, arena *a)
{
    state_mode m = state_mode_bare(j);
    const narrow_mode *narrow = narrow_of(j);
    textbuf t = text_init(a);
    text_add(&t, "%s weights, %g-byte gradients, %s", dtype_name(m.types.weight), m.gradient,
             !m.types.moments     ? "no optimizer"
             : m.types.one_moment ? "Muon"
                                  : "Adam");
    if (m.types.moments && !m.types.one_moment && j->optimizer != J_OPTIMIZER_ADAM)
        text_add(&t, " (state of other optimizers is unknown)");
    if (j->precision_aware && !j->opt_offload)
        text_add(&t, ", precision-aware%s",
                 m.types.masters && m.types.master == DTYPE_I16 ? " with remainders" : "");
    if (j->dist_opt) text_add(&t, ", sharded");
    if (m.moved > 0)
        text_add(&t, ", on the host and moved to the GPU in pieces to be updated");
    else if (m.host > 0)
        text_add(&t, ", %g %% of it on the host", 100 * state_on_host(j));
    if (state_waits_on_host(j)) text_add(&t, ", on the host between updates");
    if (narrow)
        text_add(&t, "; %s (Transformer Engine's layout; approximate)", narrow->name);
    else if (job_has(j, K_FP8) || job_has(j, K_FP4))
        text_add(&t, !job_is_ours(j)
                         ? "; low-precision copies cached by Transformer Engine are not counted"
                         : "; low-precision copies of weights are counted in the peak");
    m.why = t.s;
    return m;
}

/* state_mode.c - bytes of an element: one row a precision, and what the optimizer's knobs make
 * of it. */
#include "layout/state.h"

#include <math.h>

typedef struct base_mode {
    const char *name;
    double weight, master;
    double narrow_gradient; /* of a gradient buffer that is not FP32 */
    double narrow_extra;    /* FP32 copy of such gradients that the optimizer keeps */
} base_mode;

static const base_mode fp32_mode = {"FP32", 4, 0, 4, 0};
static const base_mode bf16_mode = {"BF16", 2, 4, 2, 0};
static const base_mode fp16_mode = {"FP16", 2, 4, 2, 4};

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

static double dtype_bytes(const recipe *r, knob_id k)
{
    const char *word = recipe_word(r, k);
    if (!word || text_equal(word, "fp32")) return 4;
    return text_equal(word, "fp8") ? 1 : 2;
}

/* Only the low 16 bits of the master weight are kept: the BF16 weight has the others. Scaled FP8
 * takes its master weights from outside the optimizer, whole. */
static bool keeps_remainders(const recipe *r)
{
    bool scaled = recipe_given(r, K_FP8) && !recipe_is(r, K_FP8_RECIPE, "delayed");
    return recipe_on(r, K_REMAINDERS) && recipe_on(r, K_BF16) && !scaled && !narrow_of(r) &&
           dtype_bytes(r, K_MAIN_PARAMS) == 4;
}

static double offload_fraction(const recipe *r)
{
    if (!recipe_on(r, K_OPT_OFFLOAD)) return 0;
    if (!recipe_given(r, K_OPT_OFFLOAD_FRACTION)) return 1;
    double p = recipe_real(r, K_OPT_OFFLOAD_FRACTION);
    return p > 0 ? fmin(p, 1) : 0; /* NaN is 0 too */
}

/* The hybrid optimizer of an offload keeps everything in FP32, whatever is asked, on the host and
 * on the GPU: Megatron makes both of its Adams without dtypes, and copies of all weights with
 * param_update_in_fp32. So a small share on the host may leave more on the GPU than BF16 moments
 * took without offload. */
static bool is_aware(const recipe *r)
{
    return recipe_on(r, K_PRECISION_AWARE) && !recipe_on(r, K_OPT_OFFLOAD);
}

/* Bytes of master weight and both moments. */
static double optimizer_bytes(const recipe *r, const base_mode *b)
{
    if (!is_aware(r)) return b->master + 8;
    double master = keeps_remainders(r) ? 2 : b->master > 0 ? dtype_bytes(r, K_MAIN_PARAMS) : 0;
    return master + dtype_bytes(r, K_EXP_AVG) + dtype_bytes(r, K_EXP_AVG_SQ);
}

static const base_mode *base_of(const recipe *r)
{
    return recipe_on(r, K_BF16) ? &bf16_mode : recipe_on(r, K_FP16) ? &fp16_mode : &fp32_mode;
}

state_mode state_mode_bare(const recipe *r)
{
    const base_mode *b = base_of(r);
    const narrow_mode *narrow = narrow_of(r);
    bool wide = recipe_on(r, K_GRAD_FP32);
    double p = offload_fraction(r);
    double optimizer = optimizer_bytes(r, b) + (wide ? 0 : b->narrow_extra);
    return (state_mode){.weight = narrow ? narrow->bytes : b->weight,
                        .plain = b->weight,
                        .gradient = wide ? 4 : b->narrow_gradient,
                        .optimizer = (1 - p) * optimizer,
                        .host = p * (4 + 8 + 4)}; /* master, moments, pinned gradients */
}

state_mode state_mode_of(const recipe *r)
{
    state_mode m = state_mode_bare(r);
    const narrow_mode *narrow = narrow_of(r);
    textbuf t = text_init(r->a);
    text_add(&t, "%s weights, gradients of %g bytes, Adam", base_of(r)->name, m.gradient);
    if (!recipe_is(r, K_OPTIMIZER, "adam")) text_add(&t, " (what other rules keep is not known)");
    if (is_aware(r))
        text_add(&t, ", precision-aware%s", keeps_remainders(r) ? " with remainders" : "");
    if (recipe_on(r, K_DIST_OPT)) text_add(&t, ", sharded");
    if (m.host > 0) text_add(&t, ", %g %% of it on the host", 100 * offload_fraction(r));
    if (narrow)
        text_add(&t, "; %s (Transformer Engine's layout; approximate)", narrow->name);
    else if (recipe_given(r, K_FP8) || recipe_given(r, K_FP4))
        text_add(&t, "; narrow copies that Transformer Engine caches are not counted");
    m.why = t.s;
    return m;
}

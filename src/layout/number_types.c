/* number_types.c - what the knobs of precision and of the optimizer make of every format. */
#include "layout/number_types.h"

#include "config/target.h"

static dtype narrow_type(const recipe *r)
{
    return recipe_on(r, K_BF16) ? DTYPE_BF16 : recipe_on(r, K_FP16) ? DTYPE_F16 : DTYPE_F32;
}

static dtype named_type(const recipe *r, knob_id k)
{
    static const struct {
        const char *name;
        dtype type;
    } names[] = {
        {"fp32", DTYPE_F32}, {"bf16", DTYPE_BF16}, {"fp16", DTYPE_F16}, {"fp8", DTYPE_E4M3}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (recipe_is(r, k, names[i].name)) return names[i].type;
    return DTYPE_F32;
}

/* The hybrid optimizer of an offload keeps everything in FP32, whatever is asked, on the host and
 * on the GPU: Megatron makes both of its Adams without dtypes, and copies of all weights with
 * param_update_in_fp32. So a small share on the host may leave more on the GPU than BF16 moments
 * took without offload. */
static bool is_aware(const recipe *r)
{
    return recipe_on(r, K_PRECISION_AWARE) && !recipe_on(r, K_OPT_OFFLOAD);
}

/* Only the low 16 bits of the master weight are kept: the BF16 weight has the others. Scaled FP8
 * takes its master weights from outside the optimizer, whole, and so do narrow parameters. */
static bool keeps_remainders(const recipe *r)
{
    bool fp8 = recipe_given(r, K_FP8), fp4 = recipe_given(r, K_FP4);
    bool scaled = fp8 && !recipe_is(r, K_FP8_RECIPE, "delayed");
    bool narrow = (fp4 && recipe_on(r, K_FP4_PARAMS)) || (fp8 && recipe_on(r, K_FP8_PARAMS));
    return recipe_on(r, K_REMAINDERS) && recipe_on(r, K_BF16) && !scaled && !narrow &&
           named_type(r, K_MAIN_PARAMS) == DTYPE_F32;
}

number_types number_types_of(const recipe *r)
{
    dtype narrow = narrow_type(r);
    bool updates = !recipe_is(r, K_OPTIMIZER, "none");
    number_types t = {.activation = narrow,
                      .stored = narrow,
                      .weight = narrow,
                      .gradient = recipe_on(r, K_GRAD_FP32) ? DTYPE_F32 : narrow,
                      .moments = updates,
                      .masters = updates && narrow != DTYPE_F32};
    t.one_moment = recipe_is(r, K_OPTIMIZER, "muon") && target_of(r) == TARGET_MEGATRON;
    bool quantised = recipe_given(r, K_FP8) || recipe_given(r, K_FP4);
    if (quantised && target_of(r) == TARGET_MEGATRON) t.stored = DTYPE_E4M3;
    if (!is_aware(r)) return t; /* FP32 is zero */
    if (t.masters) t.master = keeps_remainders(r) ? DTYPE_I16 : named_type(r, K_MAIN_PARAMS);
    t.first = named_type(r, K_EXP_AVG);
    t.second = named_type(r, K_EXP_AVG_SQ);
    return t;
}

double number_types_optimizer(const number_types *t)
{
    int bits = t->moments ? dtype_bits(t->first) : 0;
    if (t->moments && !t->one_moment) bits += dtype_bits(t->second);
    return (double)(bits + (t->masters ? dtype_bits(t->master) : 0)) / 8;
}

/* number_types.c - what the knobs of precision and of the optimizer make of every format. */
#include "layout/number_types.h"

#include <assert.h>

static dtype narrow_type(const job *j)
{
    return j->bf16 ? DTYPE_BF16 : j->fp16 ? DTYPE_F16 : DTYPE_F32;
}

static dtype main_type(const job *j)
{
    return j->main_params == J_MAIN_PARAMS_FP16 ? DTYPE_F16 : DTYPE_F32;
}

/* Of a word of optimizer.exp_avg_dtype; exp_avg_sq_dtype has the same. */
static dtype moment_type(int word)
{
    static_assert((int)J_EXP_AVG_BF16 == J_EXP_AVG_SQ_BF16 &&
                      (int)J_EXP_AVG_FP8 == J_EXP_AVG_SQ_FP8 &&
                      (int)J_EXP_AVG_FP16 == J_EXP_AVG_SQ_FP16,
                  "one list of words");
    return word == J_EXP_AVG_BF16   ? DTYPE_BF16
           : word == J_EXP_AVG_FP16 ? DTYPE_F16
           : word == J_EXP_AVG_FP8  ? DTYPE_E4M3
                                    : DTYPE_F32;
}

/* The hybrid optimizer of an offload keeps everything in FP32, whatever is asked, on the host and
 * on the GPU: Megatron makes both of its Adams without dtypes, and copies of all weights with
 * param_update_in_fp32. So a small share on the host may leave more on the GPU than BF16 moments
 * took without offload. */
static bool is_aware(const job *j)
{
    return j->precision_aware && !j->opt_offload;
}

/* Only the low 16 bits of the master weight are kept: the BF16 weight has the others. Scaled FP8
 * takes its master weights from outside the optimizer, whole, and so do narrow parameters. */
static bool keeps_remainders(const job *j)
{
    bool fp8 = job_has(j, K_FP8), fp4 = job_has(j, K_FP4);
    bool scaled = fp8 && j->fp8_recipe != J_FP8_RECIPE_DELAYED;
    bool narrow = (fp4 && j->fp4_params) || (fp8 && j->fp8_params);
    return j->remainders && j->bf16 && !scaled && !narrow && main_type(j) == DTYPE_F32;
}

number_types number_types_of(const job *j)
{
    dtype narrow = narrow_type(j);
    bool updates = j->optimizer != J_OPTIMIZER_NONE;
    number_types t = {.activation = narrow,
                      .stored = narrow,
                      .weight = narrow,
                      .gradient = j->grad_fp32 ? DTYPE_F32 : narrow,
                      .moments = updates,
                      .masters = updates && narrow != DTYPE_F32};
    t.one_moment = j->optimizer == J_OPTIMIZER_MUON && !job_is_ours(j);
    bool quantised = job_has(j, K_FP8) || job_has(j, K_FP4);
    if (quantised && !job_is_ours(j)) t.stored = DTYPE_E4M3;
    if (!is_aware(j)) return t; /* FP32 is zero */
    if (t.masters) t.master = keeps_remainders(j) ? DTYPE_I16 : main_type(j);
    t.first = moment_type(j->exp_avg);
    t.second = moment_type(j->exp_avg_sq);
    return t;
}

double number_types_optimizer(const number_types *t)
{
    int bits = t->moments ? dtype_bits(t->first) : 0;
    if (t->moments && !t->one_moment) bits += dtype_bits(t->second);
    return (double)(bits + (t->masters ? dtype_bits(t->master) : 0)) / 8;
}

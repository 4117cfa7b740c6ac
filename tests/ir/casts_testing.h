/* casts_testing.h - scalings, and how often each kind of operation occurs in a program. */
#ifndef TESTS_IR_CASTS_TESTING_H
#define TESTS_IR_CASTS_TESTING_H

#include "ir/testing.h"

#include "guard/layouts_testing.h"
#include "op/fused.h"

#define P   "mixed_precision."
#define ALL "moefold.fusion=[qkv,add_norm,norm_back,act_quant,permute_quant,norm_quant] "
#define OFF "moefold.fusion=[] "

static const struct form {
    const char *name, *words;
    bool by_blocks;
} forms[] = {
    {"blockwise", "mixed_precision=bf16_with_fp8_subchannel_scaling_mixed ", true},
    {"MXFP8",
     "mixed_precision=bf16_with_mxfp8_mixed " P "fp8_param_gather=false " P
     "reuse_grad_buf_for_mxfp8_param_ag=false ",
     true},
    {"tensorwise",
     "mixed_precision=bf16_with_fp8_current_scaling_mixed " P "fp8_param_gather=false " P
     "first_last_layers_bf16=false ",
     false},
    {"NVFP4", "mixed_precision=bf16_with_nvfp4_mixed " P "fp4_param_gather=false ", false},
};
enum { N_FORMS = sizeof forms / sizeof forms[0] };

/* Operations of each kind in a program; returns those that end with QUANTISE. */
static inline int count(const char *model_name, const char *words, int by_kind[OP_COUNT])
{
    int n = 0;
    count_kinds(by_kind, model_name, words);
    for (int k = 0; k < OP_COUNT; k++)
        if (op_is_fused((op_kind)k) && op_makes_codes((op_kind)k)) n += by_kind[k];
    return n;
}

#endif

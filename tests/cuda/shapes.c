/* shapes.c - what the tensors of a kind are filled with, where random numbers do not do. */
#include "cuda/cases.h"

static const shape shapes[] = {
    {.kind = OP_NORM, .real = {1e-5}},
    {.kind = OP_NORM_PART, .real = {3}}, /* so that no sum of squares is below zero */
    {.kind = OP_LAYER_NORM, .real = {1e-5}},
    {.kind = OP_ACT, .fill = fill_wide},
    {.kind = OP_ACT_D, .fill = fill_wide},
    {.kind = OP_ACT_AS, .real = {1, 5}, .fill = fill_wide},
    {.kind = OP_ACT_AS_D, .real = {1, 5}, .fill = fill_wide},
    {.kind = OP_ADD_NORM, .real = {1e-5}},
    {.kind = OP_QKV_HEADS, .real = {1e-5}},
    {.kind = OP_HEAD_LOSS, .real = {0.37}},
    {.kind = OP_HEAD_PART_D, .real = {0.37}, .fill = fill_head_stats},
    {.kind = OP_ATTN, .real = {0.5}},
    {.kind = OP_ATTN_D, .real = {0.5}, .fill = fill_attention_d},
    {.kind = OP_ATTN_BLOCK, .real = {0.5}, .fill = fill_block},
    {.kind = OP_ATTN_BLOCK_D, .real = {0.5}, .fill = fill_block_d},
    {.kind = OP_GDN_RULE, .fill = fill_rule},
    {.kind = OP_GDN_RULE_D, .fill = fill_rule_d},
    {.kind = OP_GATED_NORM, .real = {1e-5}},
    {.kind = OP_ROUTER, .real = {2.5}, .fill = fill_router},
    {.kind = OP_ROUTER_D, .real = {2.5}, .fill = fill_router_d},
    {.kind = OP_DROP, .fill = fill_choice},
    {.kind = OP_LOAD, .fill = fill_choice},
    {.kind = OP_SORT, .fill = fill_choice},
    {.kind = OP_AUX_LOSS, .real = {0.7, 1.3}, .fill = fill_counts},
    {.kind = OP_AUX_GLOBAL, .real = {0.7, 1.3}, .fill = fill_counts},
    {.kind = OP_AUX_COUNT, .fill = fill_counts},
    {.kind = OP_Z_LOSS, .real = {0.7, 1.3}},
    {.kind = OP_PERMUTE, .fill = fill_permute},
    {.kind = OP_PERMUTE_D, .fill = fill_permute},
    {.kind = OP_UNPERMUTE, .fill = fill_permute},
    {.kind = OP_UNPERMUTE_D, .fill = fill_permute},
    {.kind = OP_GROUPED, .fill = fill_grouped},
    {.kind = OP_GROUPED_D, .fill = fill_grouped},
    {.kind = OP_GROUPED_W, .fill = fill_grouped},
    {.kind = OP_GROUPED_BIAS, .real = {0.7}, .fill = fill_grouped},
    {.kind = OP_GROUPED_BIAS_W, .fill = fill_grouped},
    {.kind = OP_GROUPED_BIAS_P, .real = {0.7}, .fill = fill_grouped},
    {.kind = OP_ROUTE, .fill = fill_route},
    {.kind = OP_FLEX_COUNT, .fill = fill_flex},
    {.kind = OP_FLEX_PLAN, .fill = fill_flex},
    {.kind = OP_FLEX_FAN, .fill = fill_flex},
    {.kind = OP_FLEX_PACK, .fill = fill_flex},
    {.kind = OP_FLEX_UNPACK, .fill = fill_flex},
    {.kind = OP_FLEX_PLACE, .fill = fill_flex},
    {.kind = OP_DEMAND, .fill = fill_demand},
    {.kind = OP_SQUARES, .fill = fill_update},
    {.kind = OP_TALLY, .fill = fill_tally},
    {.kind = OP_VERDICT, .fill = fill_verdict},
    {.kind = OP_ADAMW, .fill = fill_update},
    {.kind = OP_HOST_ADAMW, .fill = fill_update},
    {.kind = OP_BIAS_UPDATE, .real = {0.25}, .fill = fill_verdict},
};

const shape *shape_of(op_kind kind)
{
    static const shape plain;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        if (shapes[i].kind == kind) return &shapes[i];
    return &plain;
}

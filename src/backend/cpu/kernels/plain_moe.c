/* plain_moe.c - row 0 of every kind that routes tokens or works for experts. */
#include "backend/cpu/kernels/rows.h"

#include <stddef.h>

#include "backend/cpu/kernels/plain_moe.h"

static bool experts_fit(const op *o, const op_types *t)
{
    (void)t;
    return o->dim[DIM_ROUTER_E] <= EXPERTS_MAX;
}

static bool loss_experts_fit(const op *o, const op_types *t)
{
    (void)t;
    return o->dim[DIM_AUX_LOSS_E] <= EXPERTS_MAX;
}

static bool members_fit(const op *o, const op_types *t)
{
    (void)t;
    return o->dim[DIM_FLEX_COUNT_EP] * o->dim[DIM_FLEX_COUNT_ETP] <= EXPERTS_MAX;
}

static const kernel plain_moe_rows[] = {
    {OP_ROUTER, "plain", experts_fit, .run = plain_router},
    {OP_ROUTER_D, "plain", experts_fit, .run = plain_router_d},
    {OP_DROP, "plain", NULL, .run = plain_drop},
    {OP_AUX_LOSS, "plain", loss_experts_fit, .run = plain_aux_loss},
    {OP_AUX_GLOBAL, "plain", experts_fit, .run = plain_aux_global},
    {OP_AUX_COUNT, "plain", experts_fit, .run = plain_aux_count},
    {OP_Z_LOSS, "plain", experts_fit, .run = plain_z_loss},
    {OP_LOAD, "plain", NULL, .run = plain_load},
    {OP_SORT, "plain", NULL, .run = plain_sort},
    {OP_PERMUTE, "plain", NULL, .run = plain_permute},
    {OP_PERMUTE_D, "plain", NULL, .run = plain_permute_d},
    {OP_UNPERMUTE, "plain", NULL, .run = plain_unpermute},
    {OP_UNPERMUTE_D, "plain", NULL, .run = plain_unpermute_d},
    {OP_GROUPED, "plain", NULL, .run = plain_grouped},
    {OP_GROUPED_D, "plain", NULL, .run = plain_grouped_d},
    {OP_GROUPED_W, "plain", NULL, .run = plain_grouped_w},
    {OP_GROUPED_BIAS, "plain", NULL, .run = plain_grouped_bias},
    {OP_GROUPED_BIAS_W, "plain", NULL, .run = plain_grouped_bias_w},
    {OP_GROUPED_BIAS_P, "plain", NULL, .run = plain_grouped_bias_p},
    {OP_ROUTE, "plain", NULL, .run = plain_route},
    {OP_FLEX_COUNT, "plain", members_fit, .run = plain_flex_count},
    {OP_FLEX_PLAN, "plain", NULL, .run = plain_flex_plan},
    {OP_FLEX_FAN, "plain", members_fit, .run = plain_flex_fan},
    {OP_FLEX_PACK, "plain", NULL, .run = plain_flex_pack},
    {OP_FLEX_UNPACK, "plain", NULL, .run = plain_flex_unpack},
    {OP_FLEX_PLACE, "plain", NULL, .run = plain_flex_place},
    {OP_DEMAND, "plain", NULL, .run = plain_demand},
};

kernel_rows plain_moe(void)
{
    return (kernel_rows){plain_moe_rows, sizeof plain_moe_rows / sizeof plain_moe_rows[0]};
}

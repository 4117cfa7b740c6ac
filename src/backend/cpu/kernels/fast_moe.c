/* fast_moe.c - the threaded rows of the kinds that route tokens or work for experts.
 *
 * LOAD, SORT and what makes tables for messages have row 0 alone: one pass over T * K ids, a
 * thousandth of the GEMMs that follow, and its order is its result. */
#include "backend/cpu/kernels/rows.h"

#include <stddef.h>

#include "backend/cpu/kernels/blas.h"
#include "backend/cpu/kernels/fast_moe.h"
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

static bool has_blas(const op *o, const op_types *t)
{
    (void)t;
    (void)o;
    return blas_ready();
}

static const kernel fast_moe_rows[] = {
    {OP_ROUTER, "threads", experts_fit, .run = fast_router},
    {OP_ROUTER_D, "threads", experts_fit, .run = fast_router_d},
    {OP_DROP, "threshold", experts_fit, .run = fast_drop},
    {OP_AUX_LOSS, "threads", loss_experts_fit, .run = fast_aux_loss},
    {OP_AUX_GLOBAL, "threads", experts_fit, .run = fast_aux_global},
    {OP_AUX_COUNT, "threads", experts_fit, .run = fast_aux_count},
    {OP_Z_LOSS, "threads", experts_fit, .run = fast_z_loss},
    {OP_PERMUTE, "threads", NULL, .run = fast_permute},
    {OP_PERMUTE_D, "threads", NULL, .run = fast_permute_d},
    {OP_UNPERMUTE, "threads", NULL, .run = fast_unpermute},
    {OP_UNPERMUTE_D, "threads", NULL, .run = fast_unpermute_d},
    {OP_GROUPED, "openblas", has_blas, .run = fast_grouped},
    {OP_GROUPED_D, "openblas", has_blas, .run = fast_grouped_d},
    {OP_GROUPED_W, "openblas", has_blas, .run = fast_grouped_w},
    {OP_GROUPED_BIAS, "threads", NULL, .run = fast_grouped_bias},
    {OP_GROUPED_BIAS_W, "threads", NULL, .run = fast_grouped_bias_w},
    {OP_GROUPED_BIAS_P, "threads", NULL, .run = fast_grouped_bias_p},
    {OP_FLEX_PLACE, "threads", NULL, .run = fast_flex_place},
};

kernel_rows fast_moe(void)
{
    return (kernel_rows){fast_moe_rows, sizeof fast_moe_rows / sizeof fast_moe_rows[0]};
}

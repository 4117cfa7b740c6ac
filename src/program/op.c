/* op.c - names, FLOPs and bytes of operations. */
#include "program/op.h"

#include <string.h>

const op_info op_infos[OP_COUNT] = {
#define OP(id, in_, out_, dims_, reals_, help_)                                                    \
    [OP_##id] = {                                                                                  \
        .name = #id, .in = in_, .out = out_, .dims = dims_, .reals = reals_, .help = help_},
#include "program/ops.def"
#undef OP
};

/* Pairs of tokens that a causal mask with a window lets through, of one sequence. */
static double causal_pairs(double s, double window)
{
    if (window <= 0 || window >= s) return s * (s + 1) / 2;
    return window * (window + 1) / 2 + (s - window) * window;
}

double op_flops(const op *o)
{
    double d[OP_DIM_MAX];
    for (int i = 0; i < OP_DIM_MAX; i++) d[i] = (double)o->dim[i];
    switch (o->kind) {
    case OP_GEMM:
    case OP_GEMM_D:
    case OP_GEMM_W:
        return 2 * d[0] * d[1] * d[2];
    case OP_GROUPED:
    case OP_GROUPED_D:
    case OP_GROUPED_W:
        return 2 * d[0] * d[2] * d[3]; /* of all rows; empty ones cost nothing */
    case OP_ATTN:
        return 2 * d[0] * causal_pairs(d[1], d[6]) * d[2] * (d[4] + d[5]);
    case OP_ATTN_D:
        return 2 * d[0] * causal_pairs(d[1], d[6]) * d[2] * (3 * d[4] + 2 * d[5]);
    case OP_HEAD_LOSS:
        return 6 * d[0] * d[1] * d[2];
    case OP_HEAD_LOGITS:
        return 2 * d[0] * d[1] * d[2];
    case OP_GDN_RULE:
        return 8 * d[0] * d[1] * d[3] * d[4] * d[5];
    case OP_GDN_RULE_D:
        return 20 * d[0] * d[1] * d[3] * d[4] * d[5];
    case OP_CONV:
    case OP_CONV_D:
    case OP_CONV_W:
        return 2 * d[0] * d[1] * d[2] * d[3];
    default:
        return 0; /* bound by memory */
    }
}

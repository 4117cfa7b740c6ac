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

bool op_is_comm(op_kind k)
{
    return k >= OP_ALL_GATHER && k <= OP_RECV; /* they stand together in ops_comm.def */
}

bool op_is_copy(op_kind k)
{
    return k == OP_COPY_OUT || k == OP_COPY_IN;
}

bool op_is_beside(op_kind k)
{
    return op_is_comm(k) || op_is_copy(k);
}

/* Pairs of tokens that a causal mask with a window lets through, of one sequence. */
static double causal_pairs(double s, double window)
{
    if (window <= 0 || window >= s) return s * (s + 1) / 2;
    return window * (window + 1) / 2 + (s - window) * window;
}

/* Sum of clamp(u, 0, n) over u < t. */
static double clamped_sum(double t, double n)
{
    if (t <= 0) return 0;
    return t <= n + 1 ? t * (t - 1) / 2 : n * (n + 1) / 2 + (t - 1 - n) * n;
}

/* Pairs of n_q queries from position q on and n_k keys from k on in which the key is not behind. */
static double pairs_before(double q, double n_q, double k, double n_k)
{
    double d = q - k + 1;
    return clamped_sum(d + n_q, n_k) - clamped_sum(d, n_k);
}

/* Of a block over tokens in two halves (ATTN_BLOCK), one sample. */
static double block_pairs(const double *d)
{
    double sum = 0, n_q = d[1] / 2, n_k = d[2] / 2, window = d[7];
    for (int q = 8; q <= 9; q++)
        for (int k = 10; k <= 11; k++) {
            sum += pairs_before(d[q], n_q, d[k], n_k);
            if (window > 0) sum -= pairs_before(d[q] - window, n_q, d[k], n_k);
        }
    return sum;
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
    case OP_ATTN_BLOCK:
        return 2 * d[0] * block_pairs(d) * d[3] * (d[5] + d[6]);
    case OP_ATTN_BLOCK_D:
        return 2 * d[0] * block_pairs(d) * d[3] * (3 * d[5] + 2 * d[6]);
    case OP_HEAD_PART:
        return 2 * d[3] * d[1] * d[2];
    case OP_HEAD_PART_D:
        return 4 * d[3] * d[1] * d[2];
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

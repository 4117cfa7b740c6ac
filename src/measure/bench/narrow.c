/* narrow.c - GEMMs of FP8 in blocks. Of GPUs.
 *
 * Blocks are those of the recipe that Hopper multiplies by: 1 x 128 of activations and gradients,
 * 128 x 128 of weights. */
#include <string.h>

#include "op/quant.h"
#include "measure/bench/microbench.h"

bool narrow_type(op_kind k, bool in, int i, dtype *type)
{
    enum { CODES = 2, SCALES = 4 };
    static const int gemm[] = {IN_QGEMM_x, IN_QGEMM_w, IN_QGEMM_xs, IN_QGEMM_ws};
    static const int plain[] = {OUT_QUANTISE_q, OUT_QUANTISE_qt, OUT_QUANTISE_s, OUT_QUANTISE_st};
    static const int fused[] = {OUT_ACT_QUANT_q, OUT_ACT_QUANT_qt, OUT_ACT_QUANT_s,
                                OUT_ACT_QUANT_st};
    if (in == op_makes_codes(k) || !(op_makes_codes(k) || op_is_quantised(k))) return false;
    const int *places = in ? gemm : op_is_quantised(k) ? plain : fused;
    for (int n = 0; n < SCALES; n++) {
        if (places[n] != i) continue;
        *type = n < CODES ? DTYPE_E4M3 : DTYPE_F32;
        return true;
    }
    return false;
}

timed_op narrow_op(op_kind kind, int64_t m, int64_t n, int64_t k)
{
    timed_op t = {.o = {.kind = kind,
                        .dim = {m, n, k, QUANT_BLOCK, DTYPE_E4M3, DTYPE_E4M3},
                        .name = "FP8 product"}};
    timed_op_sizes(&t, "xg dyg wg");
    return t;
}

timed_op narrow_grouped_op(const microbench *j, op_kind kind, int64_t rows, int64_t n, int64_t k)
{
    const int64_t experts = j->scale->experts, room = rows * experts;
    timed_op t = {.o = {.kind = kind,
                        .dim = {room, experts, n, k, QUANT_BLOCK, DTYPE_E4M3, DTYPE_E4M3},
                        .name = "FP8 experts"},
                  .table = JIG_OFFSETS,
                  .table_n = experts,
                  .table_each = rows};
    timed_op_sizes(&t, "xg dyg wg");
    return t;
}

/* narrow.c - GEMMs of FP8 in blocks, and the passes that make their operands. Of GPUs.
 *
 * Blocks are those of the recipe that Hopper multiplies by: 1 x 128 of activations and gradients,
 * 128 x 128 of weights. Fused casts that also move rows are not here: they read two tables. */
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

static void operands(timed_op *t)
{
    const quant_pair p = quant_pair_of(&t->o);
    const int64_t parts = p.grouped && !p.weight_gradient ? p.parts : 1;
    t->in[IN_QGEMM_x] = p.a.rows * p.a.cols;
    t->in[IN_QGEMM_xs] = quant_scales(p.a);
    t->in[IN_QGEMM_w] = parts * p.b.rows * p.b.cols;
    t->in[IN_QGEMM_ws] = parts * quant_scales(p.b);
    t->out[OUT_QGEMM_y] = p.a.rows * p.b.rows * (p.weight_gradient ? p.parts : 1);
}

timed_op narrow_op(op_kind kind, int64_t m, int64_t n, int64_t k)
{
    timed_op t = {.o = {.kind = kind,
                        .dim = {m, n, k, QUANT_BLOCK, DTYPE_E4M3, DTYPE_E4M3},
                        .name = "FP8 product"}};
    operands(&t);
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
    operands(&t);
    t.in[IN_QGROUPED_offsets] = experts + 1;
    return t;
}

/* ---- passes: both copies, of as much as a layer of Qwen3-30B-A3B has */

enum { T = 32768, PAIRS = 8 * T, H = 2048, F = 768, E = 128 };

/* q, s, qt and st of [rows][cols], from output `first` on. */
static void copies(timed_op *t, const int at[4], int64_t rows, int64_t cols)
{
    t->out[at[0]] = t->out[at[2]] = rows * cols;
    t->out[at[1]] = quant_scales((quant_shape){QUANT_BLOCK, false, rows, cols});
    t->out[at[3]] = quant_scales((quant_shape){QUANT_BLOCK, false, cols, rows});
}

static timed_op pass_of(op_kind kind)
{
    static const int plain[] = {OUT_QUANTISE_q, OUT_QUANTISE_s, OUT_QUANTISE_qt, OUT_QUANTISE_st};
    static const int fused[] = {OUT_ACT_QUANT_q, OUT_ACT_QUANT_s, OUT_ACT_QUANT_qt,
                                OUT_ACT_QUANT_st};
    const int64_t quantise[] = {E, PAIRS, H, QUANT_BLOCK, DTYPE_E4M3, 0},
                  act[] = {E, PAIRS, F, QUANT_BLOCK, DTYPE_E4M3},
                  norm[] = {T, H, QUANT_BLOCK, DTYPE_E4M3};
    timed_op t = {.o = {.kind = kind, .name = "FP8 cast", .real = {1e-5}},
                  .table = kind == OP_NORM_QUANT ? JIG_NONE : JIG_OFFSETS,
                  .table_n = E,
                  .table_each = PAIRS / E};
    switch (kind) {
    case OP_QUANTISE:
        memcpy(t.o.dim, quantise, sizeof quantise);
        t.in[IN_QUANTISE_x] = (int64_t)PAIRS * H, t.in[IN_QUANTISE_offsets] = E + 1;
        copies(&t, plain, PAIRS, H);
        break;
    case OP_ACT_QUANT:
        memcpy(t.o.dim, act, sizeof act);
        t.in[IN_ACT_QUANT_u] = (int64_t)PAIRS * 2 * F, t.in[IN_ACT_QUANT_p] = PAIRS;
        t.in[IN_ACT_QUANT_offsets] = E + 1;
        copies(&t, fused, PAIRS, F);
        break;
    case OP_ACT_D_QUANT:
        memcpy(t.o.dim, act, sizeof act);
        t.in[IN_ACT_D_QUANT_da] = (int64_t)PAIRS * F;
        t.in[IN_ACT_D_QUANT_u] = (int64_t)PAIRS * 2 * F, t.in[IN_ACT_D_QUANT_p] = PAIRS;
        t.in[IN_ACT_D_QUANT_offsets] = E + 1, t.out[OUT_ACT_D_QUANT_dp] = PAIRS;
        copies(&t, fused, PAIRS, 2 * F);
        break;
    default:
        memcpy(t.o.dim, norm, sizeof norm);
        t.in[IN_NORM_QUANT_x] = (int64_t)T * H, t.in[IN_NORM_QUANT_w] = H;
        t.out[OUT_NORM_QUANT_rstd] = T;
        copies(&t, fused, T, H);
    }
    return t;
}

static const op_kind passes[] = {OP_QUANTISE, OP_ACT_QUANT, OP_ACT_D_QUANT, OP_NORM_QUANT};

int measure_narrow_count(void)
{
    return COUNT(passes);
}

void measure_narrow(microbench *j, measured *m)
{
    for (int i = 0; i < COUNT(passes); i++) {
        timed_op t = pass_of(passes[i]);
        const double seconds = microbench_time(j, &t);
        m->kind_bytes[passes[i]] = microbench_bytes(&t);
        m->kind[passes[i]] = m->kind_bytes[passes[i]] / seconds;
    }
}

/* gemms.c - GEMMs and attention as the microbenchmark takes them. */
#include <string.h>

#include "measure/bench/microbench.h"

timed_op gemm_op(op_kind kind, int64_t m, int64_t n, int64_t k)
{
    timed_op t = {.o = {.kind = kind, .dim = {m, n, k}, .name = "product"}};
    int64_t x = m * k, w = n * k, y = m * n;
    if (kind == OP_GEMM)
        t.in[IN_GEMM_x] = x, t.in[IN_GEMM_w] = w, t.out[OUT_GEMM_y] = y;
    else if (kind == OP_GEMM_D)
        t.in[IN_GEMM_D_dy] = y, t.in[IN_GEMM_D_w] = w, t.out[OUT_GEMM_D_dx] = x;
    else
        t.in[IN_GEMM_W_dy] = y, t.in[IN_GEMM_W_x] = x, t.out[OUT_GEMM_W_dw] = w;
    return t;
}

timed_op grouped_op(const microbench *j, op_kind kind, int64_t rows, int64_t n, int64_t k)
{
    int64_t experts = j->scale->experts, room = rows * experts, w = experts * n * k;
    timed_op t = {.o = {.kind = kind, .dim = {room, experts, n, k}, .name = "experts"},
                  .table = JIG_OFFSETS,
                  .table_n = experts,
                  .table_each = rows};
    t.in[IN_GROUPED_offsets] = experts + 1; /* the same place in all three */
    if (kind == OP_GROUPED)
        t.in[IN_GROUPED_x] = room * k, t.in[IN_GROUPED_w] = w, t.out[OUT_GROUPED_y] = room * n;
    else if (kind == OP_GROUPED_D)
        t.in[IN_GROUPED_D_dy] = room * n, t.in[IN_GROUPED_D_w] = w,
        t.out[OUT_GROUPED_D_dx] = room * k;
    else
        t.in[IN_GROUPED_W_dy] = room * n, t.in[IN_GROUPED_W_x] = room * k,
        t.out[OUT_GROUPED_W_dw] = w;
    return t;
}

timed_op attention_op(const microbench *j, int64_t s, int64_t d, int64_t dv, bool backward)
{
    const measure_scale *z = j->scale;
    bool unequal = d != dv; /* every head has its own keys and values then */
    int64_t b = z->tokens > s ? z->tokens / s : 1, t_all = b * s, n = z->heads;
    int64_t g = unequal ? n : z->key_heads;
    int64_t q = t_all * n * d, k = t_all * g * d, v = t_all * g * dv, o = t_all * n * dv;
    timed_op t = {.o = {.kind = backward ? OP_ATTN_D : OP_ATTN, .name = "attention"}};
    const int64_t dim[] = {b, s, n, g, d, dv, 0};
    const int64_t in[2][JIG_TENSORS] = {{q, k, v}, {o, q, k, v, o, t_all * n}};
    const int64_t out[2][JIG_TENSORS] = {{o, t_all * n}, {q, k, v}};
    memcpy(t.o.dim, dim, sizeof dim);
    memcpy(t.in, in[backward], sizeof t.in);
    memcpy(t.out, out[backward], sizeof t.out);
    t.o.real[REAL_ATTN_scale] = 0.125;
    return t;
}

static timed_op with_sinks(timed_op t)
{
    int64_t n = t.o.dim[DIM_ATTN_N];
    if (t.o.kind == OP_ATTN)
        t.in[IN_ATTN_sinks] = n;
    else
        t.in[IN_ATTN_D_sinks] = t.out[OUT_ATTN_D_dsinks] = n;
    return t;
}

/* Heads of unequal size, and sinks, beside plain attention at the usual length. */
void measure_variants(microbench *j, measured *m)
{
    const measure_scale *z = j->scale;
    double plain_seconds = 0, sinks_seconds = 0;
    for (int back = 0; back < 2; back++) {
        timed_op plain = attention_op(j, z->usual_length, z->head, z->head, back);
        timed_op unequal = attention_op(j, z->usual_length, z->unequal[0], z->unequal[1], back);
        timed_op sinks = with_sinks(plain);
        double seconds = microbench_time(j, &plain);
        plain_seconds += seconds;
        sinks_seconds += microbench_time(j, &sinks);
        m->unequal[back] = microbench_flops(j, &unequal, 1) / (op_flops(&plain.o) / seconds);
    }
    m->sinks = plain_seconds / sinks_seconds;
}

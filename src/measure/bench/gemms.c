/* gemms.c - GEMMs and attention as the microbenchmark takes them. */
#include <string.h>

#include "measure/bench/microbench.h"

timed_op gemm_op(op_kind kind, int64_t m, int64_t n, int64_t k)
{
    timed_op t = {.o = {.kind = kind, .dim = {m, n, k}, .name = "product"}};
    timed_op_sizes(&t, NULL);
    return t;
}

timed_op grouped_op(const microbench *j, op_kind kind, int64_t rows, int64_t n, int64_t k)
{
    const int64_t experts = j->scale->experts;
    timed_op t = {.o = {.kind = kind, .dim = {rows * experts, experts, n, k}, .name = "experts"},
                  .table = JIG_OFFSETS,
                  .table_n = experts,
                  .table_each = rows};
    timed_op_sizes(&t, NULL);
    return t;
}

timed_op attention_op(const microbench *j, int64_t s, int64_t d, int64_t dv, bool backward)
{
    const measure_scale *z = j->scale;
    bool unequal = d != dv; /* every head has its own keys and values then */
    int64_t b = z->tokens > s ? z->tokens / s : 1, n = z->heads;
    timed_op t = {.o = {.kind = backward ? OP_ATTN_D : OP_ATTN,
                        .name = "attention",
                        .dim = {b, s, n, unequal ? n : z->key_heads, d, dv, 0}}};
    t.o.real[REAL_ATTN_scale] = 0.125;
    timed_op_sizes(&t, "sinks dsinks");
    return t;
}

static timed_op with_sinks(timed_op t)
{
    timed_op_sizes(&t, NULL);
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

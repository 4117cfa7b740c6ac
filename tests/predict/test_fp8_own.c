/* test_fp8_own.c - what FP8 costs in our own programs: a cast moves what it names, and reads its
 * input twice where a factor of the tensor is asked for; fused with what makes its input it saves
 * the way there and back; GEMMs reach what a hardware file says of FP8. */
#include "predict/costing.h"

#include "op/quant.h"

#define BLOCKWISE "mixed_precision=bf16_with_fp8_subchannel_scaling_mixed"
#define OWN       "cluster.gpu=H200 cluster.n_gpus=1 moefold.target=moefold " BLOCKWISE

enum { ROWS = 32768, WIDE = 4096 };

static double memory_seconds(const costing *c, double bytes)
{
    return c->hw.least +
           bytes / (c->hw.memory_bandwidth * curve_at(&c->hw.memory_efficiency, bytes));
}

static void add_codes(lone_op *x, int first, double elements)
{
    for (int i = 0; i < 2; i++) x->o.out[first + i] = lone_buf(x, "codes", elements);
}

static lone_op cast_of(double elements, bool factor)
{
    lone_op x;
    lone_init(&x, OP_QUANTISE, "cast", (int64_t[]){1, ROWS, WIDE, QUANT_BLOCK, DTYPE_E4M3, 0}, 6);
    x.o.in[IN_QUANTISE_x] = lone_buf(&x, "x", 2 * elements);
    x.o.out[OUT_QUANTISE_q] = lone_buf(&x, "q", elements);
    x.o.out[OUT_QUANTISE_qt] = lone_buf(&x, "qt", elements);
    if (factor) x.o.out[OUT_QUANTISE_g] = lone_buf(&x, "g", 4);
    return x;
}

static void a_cast_moves_what_it_names(void **state)
{
    (void)state;
    costing c;
    const double n = (double)ROWS * WIDE;
    costing_open(&c, "hardware/h200.yaml", "tiny", OWN);
    lone_op once = cast_of(n, false), twice = cast_of(n, true);
    once.seg.bufs = once.bufs;
    twice.seg.bufs = twice.bufs;
    near("one pass", lone_cost(&c, &once).seconds, memory_seconds(&c, 4 * n), 0.01);
    near("with a factor", lone_cost(&c, &twice).seconds, memory_seconds(&c, 6 * n), 0.01);
    costing_close(&c);
}

/* SwiGLU writes 2 bytes an element that the cast reads: fused, neither. */
static void a_fused_cast_saves_the_way_there_and_back(void **state)
{
    (void)state;
    costing c;
    const double n = (double)ROWS * WIDE;
    lone_op act, fused, cast = cast_of(n, false);
    cast.seg.bufs = cast.bufs;
    costing_open(&c, "hardware/h200.yaml", "tiny", OWN); /* it names no kinds */
    lone_init(&act, OP_ACT, "act", (int64_t[]){ROWS, WIDE}, 2);
    act.o.in[IN_ACT_u] = lone_buf(&act, "u", 4 * n);
    act.o.out[OUT_ACT_a] = lone_buf(&act, "a", 2 * n);
    lone_init(&fused, OP_ACT_QUANT, "both", (int64_t[]){1, ROWS, WIDE, QUANT_BLOCK, DTYPE_E4M3}, 5);
    fused.o.in[IN_ACT_QUANT_u] = lone_buf(&fused, "u", 4 * n);
    add_codes(&fused, OUT_ACT_QUANT_q, n);
    fused.o.out[OUT_ACT_QUANT_qt] = fused.o.out[OUT_ACT_QUANT_s]; /* q and qt; no scales here */
    fused.o.out[OUT_ACT_QUANT_s] = -1;
    double apart = lone_cost(&c, &act).seconds + lone_cost(&c, &cast).seconds;
    double both = lone_cost(&c, &fused).seconds;
    near("fused", both, memory_seconds(&c, 6 * n), 0.01); /* of 10 n */
    assert_true(both < 0.8 * apart);
    near("cast", lone_cost(&c, &cast).quantise + both, both, 1e-9); /* its own kind, not a part */
    costing_close(&c);
}

static double gemm_seconds(const costing *c, op_kind kind)
{
    lone_op x;
    const double n = 8192.0 * 8192;
    lone_init(&x, kind, "product",
              (int64_t[]){8192, 8192, 8192, QUANT_BLOCK, DTYPE_E4M3, DTYPE_E4M3}, 6);
    x.o.in[0] = lone_buf(&x, "x", n);
    x.o.in[1] = lone_buf(&x, "w", n);
    x.o.out[0] = lone_buf(&x, "y", 2 * n);
    return lone_cost(c, &x).seconds;
}

static void gemms_reach_what_the_file_says_of_fp8(void **state)
{
    (void)state;
    costing c;
    costing_open(&c, "hardware/h200.yaml", "tiny", OWN);
    double wide = gemm_seconds(&c, OP_GEMM), narrow = gemm_seconds(&c, OP_QGEMM);
    double peak = c.hw.peak[NUMBER_FP8] * c.hw.narrow_rate[SCALING_BLOCKWISE];
    double depth = 8192 / (8192 + c.hw.depth[NUMBER_FP8]);
    double clock = c.hw.clock > 0 ? c.hw.clock : 1;
    double rate = clock * peak * curve_at(&c.hw.gemm[NUMBER_FP8], 8192) * depth;
    near("FP8", narrow, 2 * 8192.0 * 8192 * 8192 / rate, 0.01);
    assert_true(narrow < 0.75 * wide);
    costing_close(&c);
}

/* A row of the hardware file, where a fused kind was measured; else its slowest part's. */
static void a_measured_kind_has_its_own_rate(void **state)
{
    (void)state;
    costing c;
    costing_open(&c, "hardware/h200.yaml", "tiny", OWN);
    near("not measured", c.c.kind_part[OP_ACT_QUANT], 1, 1e-9);
    c.hw.kinds[0] = (kind_part){"ACT_QUANT", 0.5};
    c.hw.kinds[1] = (kind_part){"PERMUTE", 0.7};
    c.hw.n_kinds = 2;
    cost_init(&c.c, &c.hw, &c.s, NULL);
    near("measured", c.c.kind_part[OP_ACT_QUANT], 0.5, 1e-9);
    near("a part was", c.c.kind_part[OP_PERMUTE_QUANT], 0.7, 1e-9);
    costing_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cast_moves_what_it_names),
        cmocka_unit_test(a_fused_cast_saves_the_way_there_and_back),
        cmocka_unit_test(gemms_reach_what_the_file_says_of_fp8),
        cmocka_unit_test(a_measured_kind_has_its_own_rate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

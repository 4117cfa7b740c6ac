/* test_allocated.c - memory as Megatron reports it: beside what was measured, and part by part. */
#include "plan/searching.h"

#include <math.h>

#include "predict/memory_rows.h"

typedef struct errors {
    double list[128];
    int n;
} errors;

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(errors *e)
{
    qsort(e->list, (size_t)e->n, sizeof e->list[0], by_size);
    return e->list[e->n / 2];
}

static void measured_peaks_are_met(void **state)
{
    (void)state;
    arena *a = arena_create();
    csv t;
    error err = {{0}};
    errors allocated = {.n = 0}, reserved = {.n = 0};
    assert_int_equal(csv_read(&t, MEASURED_CSV, a, &err), OK);
    for (int i = 0; i < t.n_rows; i++) {
        measured m;
        bool left_out = strcmp(csv_cell(&t, i, "left_out"), "reserved") == 0;
        if (measured_row(&m, &t, i, a, &err)) fail_msg("%s: %s", m.id, err.text);
        double e = fabs(m.ours / m.allocated - 1);
        if (e > 0.06) fail_msg("%s: %.1f %% off", m.id, 100 * e);
        if (text_starts(m.id, "H200-") && e > 0.03) fail_msg("%s: %.1f %% off", m.id, 100 * e);
        allocated.list[allocated.n++] = e;
        if (!(m.reserved > 0) || left_out) continue;
        double more = fabs(m.ours_reserved / m.reserved - 1);
        if (more > 0.06) fail_msg("%s: reserved %.1f %% off", m.id, 100 * more);
        reserved.list[reserved.n++] = more;
    }
    assert_true(allocated.n >= 27 && reserved.n >= 18);
    assert_true(median(&allocated) < 0.015);
    assert_true(median(&reserved) < 0.025);
    arena_destroy(a);
}

/* ---- parts */

static void report(reported *out, const char *name, const char *const *words, int64_t rank)
{
    arena *a = arena_create();
    error err = {{0}};
    setup *s = ARENA_NEW(a, setup);
    recipe *r = searching_recipe(name, words, a);
    if (setup_init(s, r, a, &err)) fail_msg("%s: %s", name, err.text);
    program *p = ARENA_NEW(a, program);
    program_build(p, s, rank, a);
    program_size z = program_size_of(p);
    reported_of_rank(out, s, &z, 0);
    arena_destroy(a);
}

#define ONE "cluster.gpu=H200", "cluster.n_gpus=1", "model.num_layers=4", "model.seq_length=4096"

static void parts_add_up(void **state)
{
    (void)state;
    reported r;
    const char *words[] = {"cluster.n_gpus=64",
                           "model.expert_model_parallel_size=16",
                           "model.pipeline_model_parallel_size=4",
                           "model.moe_token_dispatcher_type=flex",
                           "model.moe_flex_dispatcher_backend=hybridep",
                           NULL};
    report(&r, "qwen3-235b-a22b", words, 63);
    int64_t sum = 0, outside = 0;
    for (int i = 0; i < ALLOCATED_PARTS; i++) sum += r.part[i];
    for (int i = 0; i < OUTSIDE_PARTS; i++) outside += r.outside_part[i];
    assert_int_equal(sum, r.allocated);
    assert_int_equal(outside, r.outside);
    assert_int_equal(r.reserved + r.outside, r.peak);
    assert_true(r.reserved_low < r.reserved && r.reserved < r.reserved_high);
    assert_true(r.outside_part[OUTSIDE_DISPATCHER] > 0);
}

/* Transformer Engine's: logits and their gradient, 2 + 2 bytes; the native one's: 4 + 2. */
static void logits_are_whole(void **state)
{
    (void)state;
    reported te, native;
    const char *words[] = {ONE, "model.cross_entropy_fusion_impl=te", NULL};
    const char *other[] = {ONE, "model.cross_entropy_fusion_impl=native", NULL};
    report(&te, "qwen3-30b-a3b", words, 0);
    report(&native, "qwen3-30b-a3b", other, 0);
    assert_int_equal(te.part[ALLOCATED_LOGITS], 4096LL * 151936 * 4);
    assert_int_equal(native.part[ALLOCATED_LOGITS], 4096LL * 151936 * 6);
}

/* One tensor for each shape: QKV, projection, fc1 and fc2 of an expert, head. */
static void a_dummy_for_each_shape(void **state)
{
    (void)state;
    reported fused, plain;
    const char *words[] = {ONE, NULL};
    const char *other[] = {ONE, "model.gradient_accumulation_fusion=false", NULL};
    report(&fused, "qwen3-30b-a3b", words, 0);
    report(&plain, "qwen3-30b-a3b", other, 0);
    int64_t shapes = 5120LL * 2048 + 2048LL * 4096 + 1536LL * 2048 + 2048LL * 768 + 151936LL * 2048;
    assert_int_equal(fused.part[ALLOCATED_DUMMIES], 2 * shapes);
    assert_int_equal(plain.part[ALLOCATED_DUMMIES], 0);
}

static void narrow_copies_of_weights(void **state)
{
    (void)state;
    reported bf16, fp8;
    const char *words[] = {ONE, NULL};
    const char *other[] = {ONE, "mixed_precision=bf16_with_fp8_subchannel_scaling_mixed",
                           "mixed_precision.fp8_param_gather=false", NULL};
    report(&bf16, "qwen3-30b-a3b", words, 0);
    report(&fp8, "qwen3-30b-a3b", other, 0);
    int64_t matrices = 4 * (5120LL * 2048 + 2048LL * 4096 + 128 * (1536LL * 2048 + 2048LL * 768));
    assert_int_equal(bf16.part[ALLOCATED_COPIES], 0);
    assert_in_range(fp8.part[ALLOCATED_COPIES], 2 * matrices, 2 * matrices + matrices / 1000);
    assert_true(fp8.part[ALLOCATED_ACTIVATIONS] < bf16.part[ALLOCATED_ACTIVATIONS]);
}

/* What core attention's recompute saves under CP is what Transformer Engine keeps beside. */
static void cp_keeps_a_second_output(void **state)
{
    (void)state;
    reported one, two, again;
    const char *words[] = {"cluster.n_gpus=2",          "model.num_layers=4",
                           "model.seq_length=8192",     "model.expert_model_parallel_size=2",
                           "train.global_batch_size=2", NULL};
    const char *cp[] = {"cluster.n_gpus=2",
                        "model.num_layers=4",
                        "model.seq_length=16384",
                        "model.expert_model_parallel_size=2",
                        "model.context_parallel_size=2",
                        "train.global_batch_size=1",
                        NULL};
    const char *made[] = {"cluster.n_gpus=2",
                          "model.num_layers=4",
                          "model.seq_length=16384",
                          "model.expert_model_parallel_size=2",
                          "model.context_parallel_size=2",
                          "train.global_batch_size=1",
                          "model.recompute_granularity=selective",
                          "model.recompute_modules=[core_attn]",
                          NULL};
    report(&one, "qwen3-30b-a3b", words, 0);
    report(&two, "qwen3-30b-a3b", cp, 0);
    report(&again, "qwen3-30b-a3b", made, 0);
    int64_t output = 8192LL * 4096 * 2; /* of a layer: 8,192 tokens of this rank, 32 heads of 128 */
    int64_t more = two.part[ALLOCATED_ACTIVATIONS] - one.part[ALLOCATED_ACTIVATIONS];
    assert_in_range(more, 4 * output, 4 * output + (32 << 20));
    int64_t less = two.part[ALLOCATED_ACTIVATIONS] - again.part[ALLOCATED_ACTIVATIONS];
    assert_in_range(less, 4 * output, 4 * output + (32 << 20));
}

/* The gradient shard is reduced in place: no copy of it, whatever the optimizer's shards. BF16
 * gradients are copied in the step, and that is no peak beside activations. */
static void gradients_are_reduced_in_place(void **state)
{
    (void)state;
    reported r;
    const char *words[] = {"cluster.n_gpus=16", "model.expert_model_parallel_size=8",
                           "ddp.overlap_grad_reduce=true", NULL};
    report(&r, "qwen3-30b-a3b", words, 0);
    assert_int_equal(r.part[ALLOCATED_STEP], 0);
    const char *narrow[] = {"cluster.n_gpus=16",
                            "model.expert_model_parallel_size=8",
                            "mixed_precision.grad_reduce_in_fp32=false",
                            "model.recompute_granularity=full",
                            "model.recompute_method=uniform",
                            "model.recompute_num_layers=1",
                            NULL};
    report(&r, "qwen3-30b-a3b", narrow, 0);
    assert_true(r.part[ALLOCATED_STEP] > 0); /* there it is: little else lives */
    assert_int_equal(r.part[ALLOCATED_ACTIVATIONS], 0);
}

/* A module that is made again takes off what it keeps, and nothing else changes. */
static void recompute_takes_off_activations_alone(void **state)
{
    (void)state;
    reported all, less;
    const char *words[] = {ONE, NULL};
    const char *made[] = {ONE, "model.recompute_granularity=selective",
                          "model.recompute_modules=[layernorm,moe_act]", NULL};
    report(&all, "qwen3-30b-a3b", words, 0);
    report(&less, "qwen3-30b-a3b", made, 0);
    /* the norm before attention is one with its projection: only the other norm goes */
    int64_t freed = 4 * 4096LL * (2048 * 2 + 8 * 768 * 2);
    assert_int_equal(all.part[ALLOCATED_ACTIVATIONS] - less.part[ALLOCATED_ACTIVATIONS], freed);
    assert_int_equal(all.part[ALLOCATED_LOGITS], less.part[ALLOCATED_LOGITS]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(measured_peaks_are_met),
        cmocka_unit_test(parts_add_up),
        cmocka_unit_test(logits_are_whole),
        cmocka_unit_test(a_dummy_for_each_shape),
        cmocka_unit_test(narrow_copies_of_weights),
        cmocka_unit_test(cp_keeps_a_second_output),
        cmocka_unit_test(gradients_are_reduced_in_place),
        cmocka_unit_test(recompute_takes_off_activations_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

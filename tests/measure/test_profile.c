/* Profiles of others: kinds and causes of real traces, small ones by hand, logs, bad input. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/gzip.h"
#include "base/text.h"
#include "measure/profile/profile.h"

#define DATA "tests/data/profile/"

static bool near(double x, double y, double part)
{
    return fabs(x - y) <= part * fabs(y);
}

static void adds_up(const profile *p)
{
    double sum = 0;
    for (int k = 0; k < PROFILE_KINDS; k++) sum += p->busy[k];
    for (int c = 0; c < CAUSE_COUNT; c++) sum += p->idle[c];
    assert_true(near(sum, p->span, 1e-6));
}

/* ---- traces of Megatron: the sums are those of an analysis with other means (medians and sums of
 * one step on an H200: head 79 ms and cross entropy 11.7, experts 55 ms of wall time and 94 ms
 * summed over four streams, projections 21, attention 33.5, fills of gradients 2.65) */

static void peers_are_explained(void **state)
{
    (void)state;
    static const char *const files[] = {DATA "megatron-8x4k.json.gz", DATA "megatron-1x4k.json.gz"};
    for (int i = 0; i < 2; i++) {
        arena *a = arena_create();
        profile p;
        error err = {{0}};
        assert_int_equal(profile_read(&p, files[i], 0, a, &err), OK);
        assert_true(p.explained >= 0.95);
        assert_int_equal(p.n_unknown, 0);
        assert_string_equal(p.gpu, "NVIDIA H200");
        adds_up(&p);
        arena_destroy(a);
    }
}

static void head_projections_and_experts_share_names_and_are_told_apart(void **state)
{
    (void)state;
    arena *a = arena_create();
    profile p;
    error err = {{0}};
    assert_int_equal(profile_read(&p, DATA "megatron-8x4k.json.gz", 0, a, &err), OK);
    assert_int_equal(p.n_kernels, 3527);
    assert_true(near(p.summed[COST_HEAD], 0.0786 + 0.0117, 0.01));
    assert_true(near(p.summed[COST_GROUPED], 0.0939, 0.01));
    assert_true(near(p.busy[COST_GROUPED], 0.055, 0.01));
    assert_true(near(p.busy[COST_GEMM], 0.0213, 0.02));
    assert_true(near(p.busy[COST_ATTENTION], 0.0335, 0.01));
    assert_true(near(p.busy[KIND_OPTIMIZER], 0.00265, 0.01));
    assert_int_equal(p.gemms_alone, 0);
    arena_destroy(a);
}

static void the_host_is_the_wall_of_the_small_batch_only(void **state)
{
    (void)state;
    arena *a = arena_create();
    profile p;
    error err = {{0}};
    price predicted = {.usable = (int64_t)100 << 30, .peak_bytes = (int64_t)50 << 30, .fits = true};
    price m;
    assert_int_equal(profile_read(&p, DATA "megatron-1x4k.json.gz", 0, a, &err), OK);
    profile_as_price(&m, &p, &predicted, a);
    assert_int_equal(m.wall, WALL_HOST);
    assert_true(m.host > 0.5 * m.step_s); /* busy 42.5 ms of 156 */
    assert_int_equal(profile_read(&p, DATA "megatron-8x4k.json.gz", 0, a, &err), OK);
    profile_as_price(&m, &p, &predicted, a);
    assert_int_equal(m.wall, WALL_COMPUTE);
    arena_destroy(a);
}

/* ---- the table of names */

static void the_operation_decides_where_the_kernel_does_not(void **state)
{
    (void)state;
    static const struct {
        const char *kernel, *group, *op;
        int kind;
    } cases[] = {
        {"nvjet_sm90_tst_128x256_64x4", NULL, "_GroupedLinear", COST_GROUPED},
        {"nvjet_sm90_tst_128x256_64x4", NULL, "_LayerNormLinearBackward", COST_GEMM},
        {"nvjet_sm90_tst_128x256_64x4", NULL, "LinearWithGradAccumulationAndAsyncCommunication",
         COST_HEAD},
        {"nvjet_sm90_tst_128x256_64x4", NULL, NULL, COST_GEMM},
        {"ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", "EXPERT_MODEL_PARALLEL_GROUP",
         "nccl:all_to_all", COST_EP},
        {"ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)",
         "PIPELINE_MODEL_PARALLEL_GROUP", NULL, COST_PP},
        {"ncclDevKernel_ReduceScatter_Sum_f32_RING_LL", "DATA_PARALLEL_GROUP_WITH_CP", NULL,
         COST_DP},
        {"ncclDevKernel_ReduceScatter_Sum_f32_RING_LL", "EXPERT_DATA_PARALLEL_GROUP", NULL,
         COST_DP},
        {"ncclDevKernel_AllGather_RING_LL", "TENSOR_MODEL_PARALLEL_GROUP", NULL, COST_TP},
        {"ncclDevKernel_AllGather_RING_LL", "CONTEXT_PARALLEL_GROUP", NULL, COST_CP},
        {"void deep_ep::internode::dispatch<true>(int4*)", NULL, NULL, COST_EP},
        {"void flash_fwd_kernel<Flash_fwd_kernel_traits<128>>", NULL, NULL, COST_ATTENTION},
        {"multi_tensor_apply_kernel<AdamFunctor>", NULL, NULL, KIND_OPTIMIZER},
        {"Memcpy DtoH (Device -> Pinned)", NULL, "aten::to", COST_COPY},
        {"a_kernel_of_nobody", NULL, "an_op", KIND_UNKNOWN},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *ops[] = {cases[i].op};
        int got = profile_kind_of(cases[i].kernel, cases[i].group, ops, cases[i].op != NULL);
        if (got != cases[i].kind)
            print_error("%s in %s: %s\n", cases[i].kernel, cases[i].op, profile_kind_name(got));
        assert_int_equal(got, cases[i].kind);
    }
}

/* ---- a trace by hand: microseconds */

#define OP(name, ts, dur)                                                                          \
    "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"" name "\",\"pid\":1,\"tid\":2,\"ts\":" #ts       \
    ",\"dur\":" #dur "},"
#define CALL(name, ts, dur, id)                                                                    \
    "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"" name "\",\"pid\":1,\"tid\":2,\"ts\":" #ts \
    ",\"dur\":" #dur ",\"args\":{\"correlation\":" #id "}},"
#define KERNEL(name, ts, dur, stream, id)                                                          \
    "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"" name "\",\"pid\":0,\"tid\":7,\"ts\":" #ts       \
    ",\"dur\":" #dur ",\"args\":{\"device\":0,\"stream\":" #stream ",\"correlation\":" #id "}},"

static const char by_hand[] = "{\"schemaVersion\": 1, \"traceEvents\": [" OP("_Linear", 0, 100)
    CALL("cudaLaunchKernel", 80, 20, 1)
        KERNEL("nvjet_a", 110, 100, 7, 1) /* 100 late by the host, 10 queued */
    CALL("cudaLaunchKernel", 120, 10, 2)  /* a collective, half of it beside the GEMM */
    KERNEL("ncclDevKernel_SendRecv", 160, 100, 8, 2) CALL("cudaStreamSynchronize", 140, 130, 3)
        OP("_Linear", 300, 40) CALL("cudaLaunchKernel", 320, 10, 4)
            KERNEL("nvjet_a", 330, 70, 7, 4) /* 260 to 330: the host had waited */
    OP("_Linear", 430, 30) CALL("cudaLaunchKernel", 450, 10, 5)
        KERNEL("nobody", 460, 40, 7, 5) /* 400 to 430 Python, to 460 in the operation */
    "{\"ph\":\"i\",\"name\":\"end\",\"ts\":NaN}],\"displayTimeUnit\":\"ms\"}";

static void every_instant_has_a_kind_or_a_cause(void **state)
{
    (void)state;
    arena *a = arena_create();
    profile p;
    error err = {{0}};
    assert_int_equal(profile_parse(&p, "by hand", by_hand, sizeof by_hand - 1, a, &err), OK);
    adds_up(&p);
    assert_true(near(p.span, 500e-6, 1e-9));
    assert_true(near(p.busy[COST_GEMM], 170e-6, 1e-9));
    assert_true(near(p.busy[COST_PP], 50e-6, 1e-9)); /* exposed */
    assert_true(near(p.hidden[COST_PP], 50e-6, 1e-9));
    assert_true(near(p.busy[KIND_UNKNOWN], 40e-6, 1e-9));
    assert_true(near(p.idle[CAUSE_LAUNCH], 130e-6, 1e-9));
    assert_true(near(p.idle[CAUSE_SYNC], 70e-6, 1e-9));
    assert_true(near(p.idle[CAUSE_BETWEEN], 30e-6, 1e-9));
    assert_true(near(p.idle[CAUSE_QUEUE], 10e-6, 1e-9));
    assert_true(near(p.explained, 1 - 40.0 / 500, 1e-9));
    assert_int_equal(p.n_unknown, 1);
    assert_string_equal(p.unknown[0].name, "nobody");
    assert_string_equal(p.unknown[0].op, "_Linear");
    arena_destroy(a);
}

/* Whatever is cut off, the end is missed and said. */
static void a_truncated_trace_is_refused_at_every_byte(void **state)
{
    (void)state;
    for (size_t n = 0; n < sizeof by_hand - 1; n++) {
        arena *a = arena_create();
        profile p;
        error err = {{0}};
        assert_int_equal(profile_parse(&p, "cut.json", by_hand, n, a, &err), ERR_INPUT);
        assert_true(strstr(err.text, "cut.json") != NULL);
        assert_true(strstr(err.text, "repair") != NULL);
        arena_destroy(a);
    }
}

static void a_truncated_packed_trace_is_refused(void **state)
{
    (void)state;
    arena *a = arena_create();
    char *packed;
    size_t n;
    profile p;
    error err = {{0}};
    assert_int_equal(file_read(a, DATA "megatron-1x4k.json.gz", 1 << 20, &packed, &n, &err), OK);
    for (size_t part = 1; part < 20; part++) {
        error e = {{0}};
        assert_int_equal(profile_parse(&p, "cut.gz", packed, n * part / 20, a, &e), ERR_INPUT);
        assert_true(strstr(e.text, "cut short") != NULL);
    }
    packed[n / 2] ^= 0x55;
    assert_int_equal(profile_parse(&p, "bad.gz", packed, n, a, &err), ERR_INPUT);
    arena_destroy(a);
}

/* ---- other files */

static void what_is_no_profile_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"", "is empty"},
        {" \n\t ", "is empty"},
        {"{}", "without a list traceEvents"},
        {"{\"a\": [1, 2, {\"b\": null}]}", "without a list traceEvents"},
        {"[]", "no GPU kernels"},
        {"{\"traceEvents\": []}", "no GPU kernels"},
        {"{\"traceEvents\": [], \"otherData\": {\"moefold\": \"trace\"}}", "moefold trace A B"},
        {"{\"traceEvents\": [{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"x\",\"ts\":1,\"dur\":2}]}",
         "ProfilerActivity.CUDA"},
        {"{\"traceEvents\": 7}", "'[' expected"},
        {"{traceEvents: []}", "is not JSON"},
        {"Epoch 1: loss 2.3, 12.1 it/s\nEpoch 2: loss 2.1, 12.0 it/s\n", "iteration line"},
        {"I0822 iteration 5: elapsed time per iteration (ms): none\n", "iteration line"},
        {"srun: error: node17: task 3: Killed\n", "iteration line"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        arena *a = arena_create();
        profile p;
        error err = {{0}};
        status s = profile_parse(&p, "other", cases[i].text, strlen(cases[i].text), a, &err);
        assert_int_equal(s, ERR_INPUT);
        if (!strstr(err.text, cases[i].says)) print_error("%s\n", err.text);
        assert_true(strstr(err.text, cases[i].says) != NULL);
        arena_destroy(a);
    }
    arena *a = arena_create();
    profile p;
    error err = {{0}};
    assert_int_equal(profile_parse(&p, "x.nsys-rep", "NSYS\0\1\2\n\0", 9, a, &err), ERR_INPUT);
    assert_true(strstr(err.text, "nsys export --type sqlite") != NULL);
    error missing = {{0}};
    assert_int_equal(profile_read(&p, DATA "none.json", 0, a, &missing), ERR_INPUT);
    assert_true(strstr(missing.text, "No such file") != NULL);
    arena_destroy(a);
}

static void deep_nesting_is_refused(void **state)
{
    (void)state;
    enum { DEEP = 100000 };
    char *text = malloc(DEEP + 16);
    assert_non_null(text);
    size_t n = (size_t)sprintf(text, "{\"a\":");
    memset(text + n, '[', DEEP);
    arena *a = arena_create();
    profile p;
    error err = {{0}};
    assert_int_equal(profile_parse(&p, "deep", text, n + DEEP, a, &err), ERR_INPUT);
    arena_destroy(a);
    free(text);
}

/* ---- logs */

static void a_log_has_its_step_memory_and_timers(void **state)
{
    (void)state;
    arena *a = arena_create();
    profile p;
    error err = {{0}};
    assert_int_equal(profile_read(&p, DATA "megatron.log", 0, a, &err), OK);
    assert_int_equal(p.source, SOURCE_LOG);
    assert_int_equal(p.log.n_iterations, 4);
    assert_true(near(p.log.step_s, 21.1, 1e-9)); /* of the last two */
    assert_int_equal(p.log.global_batch, 1024);
    assert_true(p.log.max_reserved == (int64_t)61440 << 20);
    assert_true(near(p.mixed, 19.4, 1e-9)); /* without the batches */
    assert_true(near(p.idle[CAUSE_DATA], 0.1, 1e-9));
    assert_true(near(p.busy[COST_DP], 0.5, 1e-9));
    assert_true(near(p.busy[KIND_OPTIMIZER], 0.2, 1e-9));
    assert_true(near(p.explained, 20.2 / 21.1, 1e-9));
    arena_destroy(a);
}

static void pipelines_wait_in_the_rest_of_forward_backward(void **state)
{
    (void)state;
    static const char log[] =
        " iteration 9/ 9 | elapsed time per iteration (ms): 1000.0 |\n"
        "max time across ranks (ms):\n"
        "    forward-backward ....: 900.00\n    forward-compute ....: 200.00\n"
        "    backward-compute ....: 400.00\n    forward-recv ....: 10.00\n"
        "    all-grads-sync ....: 50.00\n";
    arena *a = arena_create();
    profile p;
    error err = {{0}};
    assert_int_equal(profile_parse(&p, "log", log, sizeof log - 1, a, &err), OK);
    assert_true(near(p.idle[CAUSE_BUBBLE], 0.25, 1e-9));
    assert_true(near(p.busy[COST_DP], 0.05, 1e-9));
    assert_true(near(p.explained, 0.9, 1e-9));
    arena_destroy(a);
}

static void out_of_memory_is_a_result(void **state)
{
    (void)state;
    static const char log[] = "building GPT model ...\ntorch.OutOfMemoryError: CUDA out of memory. "
                              "Tried to allocate 2.32 GiB.\n";
    arena *a = arena_create();
    profile p;
    error err = {{0}};
    price predicted = {.usable = 80, .peak_bytes = 70, .fits = true, .step_s = 1}, m;
    assert_int_equal(profile_parse(&p, "log", log, sizeof log - 1, a, &err), OK);
    profile_as_price(&m, &p, &predicted, a);
    assert_int_equal(m.wall, WALL_MEMORY);
    assert_false(m.fits);
    assert_true(strstr(m.evidence, "2.32 GiB") != NULL);
    arena_destroy(a);
}

/* ---- Nsight: a fixture by the documented tables; not seen on a real file */

static void an_export_is_read_as_the_trace_is(void **state)
{
    (void)state;
    arena *a = arena_create();
    profile p;
    error err = {{0}};
    assert_int_equal(profile_read(&p, DATA "nsight.sqlite", 0, a, &err), OK);
    assert_int_equal(p.source, SOURCE_NSIGHT);
    assert_int_equal(p.n_kernels, 120);
    assert_string_equal(p.gpu, "NVIDIA H200");
    assert_true(p.explained >= 0.95);
    assert_int_equal(p.gemms_alone, 0);
    adds_up(&p);
    arena_destroy(a);
}

static uint32_t next_random(uint32_t *x)
{
    *x ^= *x << 13, *x ^= *x >> 17, *x ^= *x << 5;
    return *x;
}

/* SQLite's own reader stands between: what it cannot take is refused with its words. */
static void damaged_exports_are_refused_or_read(void **state)
{
    (void)state;
    arena *a = arena_create();
    char *data, path[] = "/tmp/moefold-nsight-XXXXXX";
    size_t n;
    error err = {{0}};
    uint32_t seed = 7;
    assert_int_equal(file_read(a, DATA "nsight.sqlite", 1 << 20, &data, &n, &err), OK);
    int file = mkstemp(path), refused = 0;
    assert_true(file >= 0);
    close(file);
    for (int i = 0; i < 150; i++) {
        char *copy = arena_copy(a, data, n);
        size_t keep = i % 3 ? n : 100 + next_random(&seed) % (n - 100);
        for (int k = 0; k < 1 + i % 40; k++)
            copy[100 + next_random(&seed) % (n - 100)] = (char)next_random(&seed);
        error e = {{0}};
        profile p;
        assert_int_equal(file_write(path, copy, keep, &e), OK);
        status s = profile_read(&p, path, 0, a, &e);
        assert_true(s == OK || (s == ERR_INPUT && e.text[0]));
        if (!s) assert_true(isfinite(p.span));
        refused += s != OK;
    }
    assert_true(refused > 10);
    unlink(path);
    arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(peers_are_explained),
        cmocka_unit_test(head_projections_and_experts_share_names_and_are_told_apart),
        cmocka_unit_test(the_host_is_the_wall_of_the_small_batch_only),
        cmocka_unit_test(the_operation_decides_where_the_kernel_does_not),
        cmocka_unit_test(every_instant_has_a_kind_or_a_cause),
        cmocka_unit_test(a_truncated_trace_is_refused_at_every_byte),
        cmocka_unit_test(a_truncated_packed_trace_is_refused),
        cmocka_unit_test(what_is_no_profile_is_named),
        cmocka_unit_test(deep_nesting_is_refused),
        cmocka_unit_test(a_log_has_its_step_memory_and_timers),
        cmocka_unit_test(pipelines_wait_in_the_rest_of_forward_backward),
        cmocka_unit_test(out_of_memory_is_a_result),
        cmocka_unit_test(an_export_is_read_as_the_trace_is),
        cmocka_unit_test(damaged_exports_are_refused_or_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

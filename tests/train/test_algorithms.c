/* test_algorithms.c - tuning a recipe meets every GEMM that a library computes, of every
 * pipeline stage, and runs nothing. The device stands in for a GPU: its rows write down what is
 * prepared. */
#include "ir/testing.h"

#include <string.h>

#include "measure/bench/algorithms.h"

enum { SEEN_MAX = 4096 };

static struct {
    op_kind kind[SEEN_MAX];
    int64_t n_dim[SEEN_MAX];
    int n, released;
    bool fails;
} seen;

static status prepare(const op *o, const op_types *t, void **state, error *err)
{
    (void)t;
    if (seen.fails) return error_set(err, ERR_MACHINE, "%s: no memory", op_infos[o->kind].name);
    assert_true(seen.n < SEEN_MAX);
    seen.kind[seen.n] = o->kind;
    seen.n_dim[seen.n++] = o->dim[1];
    *state = &seen;
    return OK;
}

static void release(void *state)
{
    assert_ptr_equal(state, &seen);
    seen.released++;
}

static void launch(const kernel_call *c)
{
    (void)c;
    fail_msg("something was launched");
}

/* Weight gradients are by a kernel of our own here. */
static const kernel rows[] = {
    {OP_GEMM, "cublaslt", NULL, prepare, release, NULL, launch, NULL},
    {OP_GEMM_D, "cublaslt, two halves", NULL, prepare, release, NULL, launch, NULL},
    {OP_GEMM_W, "wgmma", NULL, prepare, release, NULL, launch, NULL},
    {OP_ATTN, "cudnn", NULL, prepare, release, NULL, launch, NULL},
    {OP_HEAD_LOSS, "cublaslt", NULL, prepare, release, NULL, launch, NULL},
    {OP_QGEMM, "cublaslt", NULL, prepare, release, NULL, launch, NULL},
    {OP_QGEMM_D, "cublaslt", NULL, prepare, release, NULL, launch, NULL},
    {OP_QGEMM_W, "cublaslt", NULL, prepare, release, NULL, launch, NULL},
};

static const kernel *rows_of(int *n)
{
    *n = sizeof rows / sizeof rows[0];
    return rows;
}

static int count(op_kind k)
{
    int n = 0;
    for (int i = 0; i < seen.n; i++) n += seen.kind[i] == k;
    return n;
}

static status tune(const char *words, int *others, error *err)
{
    static const device_table table = {.name = "dry", .rows = rows_of};
    device d = {.table = &table};
    arena *a = arena_create();
    setup *s = ARENA_NEW(a, setup);
    const bool fails = seen.fails;
    memset(&seen, 0, sizeof seen);
    seen.fails = fails;
    setup_of_words(s, a, "qwen3-30b-a3b",
                   arena_text(a,
                              "cluster.gpu=H200 moefold.target=moefold model.num_layers=4 "
                              "model.seq_length=4096 %s",
                              words));
    status st = measure_algorithms(s, &d, others, err);
    arena_destroy(a);
    return st;
}

static void all_gemms_of_a_recipe_are_met(void **state)
{
    int others = 0;
    error err = {{0}};
    (void)state;
    assert_int_equal(tune("cluster.n_gpus=1", &others, &err), OK);
    assert_int_equal(count(OP_GEMM), count(OP_GEMM_D)); /* QKV, output, router of a layer */
    assert_true(count(OP_GEMM) >= 3);
    assert_int_equal(count(OP_HEAD_LOSS), 2); /* it writes its gradient, then it adds to it */
    assert_int_equal(count(OP_ATTN) + count(OP_GEMM_W), 0);
    assert_int_equal(others, count(OP_GEMM)); /* weight gradients, of each one */
    assert_int_equal(seen.released, seen.n);
}

static void so_are_those_of_fp8(void **state)
{
    int others = 0;
    error err = {{0}};
    (void)state;
    assert_int_equal(tune("cluster.n_gpus=1 mixed_precision=bf16_with_fp8_subchannel_scaling_mixed "
                          "mixed_precision.fp8_param_gather=false",
                          &others, &err),
                     OK);
    assert_true(count(OP_QGEMM) >= 2); /* QKV and output of a layer */
    assert_int_equal(count(OP_QGEMM), count(OP_QGEMM_D));
    assert_int_equal(count(OP_QGEMM), count(OP_QGEMM_W));
    assert_true(count(OP_GEMM) >= 1); /* the router's */
}

static void stages_bring_their_own(void **state)
{
    int others = 0;
    error err = {{0}};
    (void)state;
    assert_int_equal(tune("cluster.n_gpus=2 model.pipeline_model_parallel_size=2 "
                          "train.global_batch_size=2 train.micro_batch_size=1",
                          &others, &err),
                     OK);
    assert_int_equal(count(OP_HEAD_LOSS), 2); /* the last stage's, in both forms */
    assert_true(count(OP_GEMM) >= 6);         /* layers of both */
}

static void what_cannot_be_timed_ends_it(void **state)
{
    int others = 0;
    error err = {{0}};
    (void)state;
    seen.fails = true;
    assert_int_equal(tune("cluster.n_gpus=1", &others, &err), ERR_MACHINE);
    assert_non_null(strstr(err.text, "no memory"));
    seen.fails = false;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_gemms_of_a_recipe_are_met), cmocka_unit_test(so_are_those_of_fp8),
        cmocka_unit_test(stages_bring_their_own), cmocka_unit_test(what_cannot_be_timed_ends_it)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

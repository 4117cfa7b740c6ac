/* test_bf16.c - BF16 on the CPU: curves beside those of FP32, and layouts beside one rank. */
#include "train/layout_rig.c"

#include "parity_testing.h"

#define BF16   "mixed_precision=bf16_mixed "
#define NARROW "mixed_precision.grad_reduce_in_fp32=false "
#define M      "model."
#define RC_ALL                                                                                     \
    M "recompute_granularity=full " M "recompute_method=uniform " M "recompute_num_layers=1 "

/* Masters start on the grid of BF16, so that a weight stays where it is until its steps add up to
 * half a gap. The case of the gated delta net has a fifth of the others' learning rate: weights of
 * one binade leave together, after 3, 6 and 12 steps, and the curve descends in stairs. */
static double bound_of(const char *folder)
{
    return strstr(folder, "qwen3-next") ? 0.03 : 0.01;
}

static void curves_follow_fp32(void **state)
{
    (void)state;
    static const char *const words[] = {BF16, BF16 NARROW};
    for (int c = 0; c < N_FAMILY_CASES; c++)
        for (int i = 0; i < (c ? 1 : 2); i++) {
            parity_case q = {.folder = family_cases[c], .words = words[i]};
            run_case(NULL, &q);
            if (q.s[0]) fail_msg("%s %s: %s", q.folder, q.words, q.err[0].text);
            double e = q.result[0].curve_rel_err_max;
            assert_true(q.result[0].logits_rel_err > 1e-3); /* it is not FP32 that ran */
            if (!(e <= bound_of(q.folder))) fail_msg("%s %s: curve %g", q.folder, q.words, e);
        }
}

/* ---- layouts */

static const char *const layouts[] = {
    RC_ALL "cluster.n_gpus=1",
    "ddp.use_distributed_optimizer=true cluster.n_gpus=2",
    M "tensor_model_parallel_size=2 " M "expert_tensor_parallel_size=1 cluster.n_gpus=2",
    M "context_parallel_size=2 cluster.n_gpus=2",
    M "context_parallel_size=4 " M "cp_comm_type=all_gather cluster.n_gpus=4",
    M "context_parallel_size=2 " M "cp_comm_type=a2a cluster.n_gpus=2",
    M "expert_model_parallel_size=4 " M "moe_token_dispatcher_type=alltoall cluster.n_gpus=4",
    M "expert_model_parallel_size=2 " M "moe_token_dispatcher_type=allgather cluster.n_gpus=2",
    M "pipeline_model_parallel_size=2 cluster.n_gpus=2",
    M "tensor_model_parallel_size=2 " M "context_parallel_size=2 " M
      "pipeline_model_parallel_size=2 " M "expert_model_parallel_size=4 " M
      "expert_tensor_parallel_size=1 cluster.n_gpus=8",
};
enum { N_LAYOUTS = sizeof layouts / sizeof layouts[0] };

/* What changes no sum of narrow numbers: recompute, replicas (whose gradients are FP32), stages. */
static bool sums_alike(const char *words)
{
    return !strstr(words, "tensor_model") && !strstr(words, "context") &&
           !strstr(words, "expert_model");
}

/* Measured: 0.036 and 0.00035 (with another build's order of sums); the gated delta net, whose
 * gates grow what is rounded, 0.25 and 0.0040. Set: half as much again, and three times of the
 * curves, which wander. */
static double gradient_bound(const char *folder, const char *words)
{
    if (sums_alike(words)) return 1e-5;
    return strstr(folder, "qwen3-next") ? 0.4 : 0.05;
}

static double curve_bound(const char *folder)
{
    return strstr(folder, "qwen3-next") ? 0.012 : 0.001;
}

/* Every expert gets the same tokens, however scores are rounded. */
#define EVEN M "moe_router_force_load_balancing=true moefold.moe_buffer_factor=64 "

static void layouts_agree_with_one_rank(void **state)
{
    (void)state;
    arena *a = arena_create();
    int ran = 0, bad = 0;
    for (int c = 0; c < N_FAMILY_CASES; c++) {
        const char *folder = family_cases[c];
        rig_reference *ref = rig_reference_of(folder, EVEN BF16);
        /* all on the first three, every third on the others */
        for (size_t l = 0; l < N_LAYOUTS; l += c < 3 ? 1 : 3) {
            rig_result r;
            if (!rig_is_legal(folder, arena_text(a, "%s%s", EVEN BF16, layouts[l]), a)) continue;
            rig_compare(&r, ref, layouts[l]);
            bool ok = !r.text[0] && r.gradient <= gradient_bound(folder, layouts[l]) &&
                      r.loss <= curve_bound(folder);
            if (!ok || getenv("MOEFOLD_VERBOSE"))
                print_message("%s %s %s: gradient %g (%s; limit %g), curve %g %s\n",
                              ok ? "ok" : "NOT OK", strrchr(folder, '/') + 1, layouts[l],
                              r.gradient, r.worst ? r.worst : "-",
                              gradient_bound(folder, layouts[l]), r.loss, r.text);
            bad += !ok;
            ran++;
        }
        rig_reference_free(ref);
    }
    assert_true(ran >= 30);
    assert_int_equal(bad, 0);
    arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(curves_follow_fp32),
        cmocka_unit_test(layouts_agree_with_one_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_fp8.c - quantised recipes on the CPU: curves beside those of FP32, layouts beside one rank,
 * bytes that a step touches beside those planned.
 *
 * What is exact: recompute, replicas and stages change no block and no order of sums, so their
 * gradients are those of one rank as in BF16. TP, CP and EP cut tokens or columns where blocks lie:
 * scales differ, and gradients agree as far as eight bits do. */
#include "train/layout_rig.c"

#include <omp.h>

#include "parity_testing.h"

#define M "model."
#define P "mixed_precision."

static const struct form {
    const char *name, *words;
    double curve; /* how far it may lie from FP32's */
} forms[] = {
    {"blockwise", "mixed_precision=bf16_with_fp8_subchannel_scaling_mixed ", 0.01},
    {"tensorwise",
     "mixed_precision=bf16_with_fp8_current_scaling_mixed " P "fp8_param_gather=false " P
     "first_last_layers_bf16=false ",
     0.01},
    {"MXFP8",
     "mixed_precision=bf16_with_mxfp8_mixed " P "fp8_param_gather=false " P
     "reuse_grad_buf_for_mxfp8_param_ag=false ",
     0.01},
    {"NVFP4", "mixed_precision=bf16_with_nvfp4_mixed " P "fp4_param_gather=false ", 0.03},
};
enum { N_FORMS = sizeof forms / sizeof forms[0], BLOCKWISE = 0 };

/* ---- curves */

/* Measured: blockwise 0.0068 (DeepSeek's 0.0103, the gated delta net's 0.032, whose BF16 curve is
 * 0.02 off), tensorwise 0.0069, MXFP8 0.0067, NVFP4 0.020. */

static double bound_of(const char *folder, const struct form *f)
{
    return strstr(folder, "qwen3-next") ? 0.045 : strstr(folder, "deepseek") ? 0.015 : f->curve;
}

static void curves_follow_fp32(void **state)
{
    (void)state;
    int bad = 0;
    for (int i = 0; i < N_FORMS + N_FAMILY_CASES - 1; i++) { /* all on one, one on all */
        const struct form *f = &forms[i < N_FORMS ? i : BLOCKWISE];
        parity_case q = {.folder = family_cases[i < N_FORMS ? 0 : i - N_FORMS + 1],
                         .words = f->words};
        run_case(NULL, &q);
        if (q.s[0]) fail_msg("%s %s: %s", q.folder, q.words, q.err[0].text);
        double e = q.result[0].curve_rel_err_max, l = q.result[0].logits_rel_err;
        bool ok = e <= bound_of(q.folder, f) && l > 5e-3; /* and not BF16 ran */
        if (!ok || getenv("MOEFOLD_VERBOSE"))
            print_message("%s %s %s: curve %g, logits %g\n", ok ? "ok" : "NOT OK",
                          strrchr(q.folder, '/') + 1, f->name, e, l);
        bad += !ok;
    }
    assert_int_equal(bad, 0);
}

/* ---- layouts */

#define EVEN    M "moe_router_force_load_balancing=true moefold.moe_buffer_factor=64 "
#define RC_SOME M "recompute_granularity=selective " M "recompute_modules=[moe_act,layernorm,mlp] "
#define RC_ALL                                                                                     \
    M "recompute_granularity=full " M "recompute_method=uniform " M "recompute_num_layers=1 "

static const struct {
    const char *words;
    bool exact;
} layouts[] = {
    {RC_ALL "cluster.n_gpus=1", true},
    {RC_SOME "cluster.n_gpus=1", true},
    {"ddp.use_distributed_optimizer=true ddp.overlap_param_gather=true "
     "ddp.overlap_grad_reduce=true cluster.n_gpus=2",
     true},
    {M "pipeline_model_parallel_size=2 cluster.n_gpus=2", true},
    {M "tensor_model_parallel_size=2 " M "expert_tensor_parallel_size=1 cluster.n_gpus=2", false},
    {M "tensor_model_parallel_size=2 " M "expert_tensor_parallel_size=2 " M
       "moe_token_dispatcher_type=alltoall cluster.n_gpus=2",
     false},
    {M "context_parallel_size=2 cluster.n_gpus=2", false},
    {M "expert_model_parallel_size=2 " M "moe_token_dispatcher_type=alltoall cluster.n_gpus=2",
     false},
    {M "expert_model_parallel_size=2 " M "moe_token_dispatcher_type=allgather cluster.n_gpus=2",
     false},
    {M "expert_model_parallel_size=2 " M "moe_token_dispatcher_type=flex " M
       "moe_flex_dispatcher_backend=deepep cluster.n_gpus=2",
     false},
    {M "expert_model_parallel_size=2 " M "moe_token_dispatcher_type=flex " M
       "moe_flex_dispatcher_backend=hybridep cluster.n_gpus=2",
     false},
};
enum { N_LAYOUTS = sizeof layouts / sizeof layouts[0] };

static double gradient_bound(bool exact)
{
    return exact ? 1e-5 : 0.25; /* measured: 5e-7; 0.15, of a norm of 16 numbers */
}

static void layouts_agree_with_one_rank(void **state)
{
    (void)state;
    arena *a = arena_create();
    int ran = 0, bad = 0;
    for (int c = 0; c < 2; c++) {
        const char *folder = family_cases[c];
        const char *words = arena_text(a, "%s%s", EVEN, forms[BLOCKWISE].words);
        rig_reference *ref = rig_reference_of(folder, words);
        for (int l = c; l < N_LAYOUTS; l += 1 + c) {
            rig_result r;
            if (!rig_is_legal(folder, arena_text(a, "%s%s", words, layouts[l].words), a)) continue;
            rig_compare(&r, ref, layouts[l].words);
            double most = gradient_bound(layouts[l].exact);
            bool ok = !r.text[0] && r.gradient <= most && r.loss <= 0.005;
            if (!ok || getenv("MOEFOLD_VERBOSE"))
                print_message("%s %s %s: gradient %g (%s; limit %g), curve %g %s\n",
                              ok ? "ok" : "NOT OK", strrchr(folder, '/') + 1, layouts[l].words,
                              r.gradient, r.worst ? r.worst : "-", most, r.loss, r.text);
            bad += !ok;
            ran++;
        }
        rig_reference_free(ref);
    }
    assert_true(ran >= 10);
    assert_int_equal(bad, 0);
    arena_destroy(a);
}

/* ---- bytes */

static void touched_is_planned(void **state)
{
    (void)state;
    arena *a = arena_create();
    for (int i = 0; i < N_FORMS + N_FAMILY_CASES - 1; i++) {
        const char *folder = family_cases[i < N_FORMS ? 0 : i - N_FORMS + 1];
        const char *words = arena_text(a, "%s%s%s", EVEN, forms[i < N_FORMS ? i : BLOCKWISE].words,
                                       i % 2 ? layouts[7].words : RC_SOME "cluster.n_gpus=1");
        rig_result r = {.text = ""};
        if (!rig_is_legal(folder, words, a)) continue;
        rig_touch(&r, folder, words);
        if (r.text[0] || r.used != r.planned)
            fail_msg("%s %s: %lld of %lld bytes %s", folder, words, (long long)r.used,
                     (long long)r.planned, r.text);
    }
    arena_destroy(a);
}

int main(void)
{
    omp_set_num_threads(1); /* matrices are small: two would mostly wait for one another */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(curves_follow_fp32),
        cmocka_unit_test(layouts_agree_with_one_rank),
        cmocka_unit_test(touched_is_planned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

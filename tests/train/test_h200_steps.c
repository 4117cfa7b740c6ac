/* test_h200_steps.c - predicted steps of our own program on an H200, from the shipped file, beside
 * what was measured there (docs/GPU.md): within 10 %. */
#include "cli/verdict.h"
#include "ir/testing.h"

#include <math.h>
#include <stdio.h>

#include "predict/price.h"
#include "predict/machine.h"

static const char all[] = "cluster.gpu=H200 cluster.n_gpus=1 moefold.target=moefold "
                          "model.moe_router_force_load_balancing=true ";

/* The work of Megatron's runs. */
#define NO_UPDATE                                                                                  \
    "optimizer.optimizer=none optimizer.clip_grad=0 model.moe_router_load_balancing_type=none "
#define QWEN(samples, length)                                                                      \
    "model.num_layers=4 train.micro_batch_size=" #samples " train.global_batch_size=" #samples     \
    " model.seq_length=" #length " model.max_position_embeddings=131072 " NO_UPDATE
#define DEEPSEEK(samples, length)                                                                  \
    "model.num_layers=3 model.moe_layer_freq=[0,1,1] model.num_moe_experts=32 "                    \
    "model.mtp_num_layers=0 model.moe_router_num_groups=null model.moe_router_group_topk=null "    \
    "train.micro_batch_size=" #samples " train.global_batch_size=" #samples                        \
    " model.seq_length=" #length " " NO_UPDATE
#define FP8 "mixed_precision=bf16_with_fp8_subchannel_scaling_mixed "
#define LAYERS(n, samples)                                                                         \
    "model.num_layers=" #n " train.micro_batch_size=" #samples                                     \
    " train.global_batch_size=" #samples " model.seq_length=4096 "
#define ON_HOST                                                                                    \
    "optimizer.optimizer_cpu_offload=true optimizer.use_precision_aware_optimizer=true "           \
    "optimizer.store_param_remainders=false optimizer.overlap_cpu_optimizer_d2h_h2d=true "

static const char qwen[] = "qwen3-30b-a3b", deepseek[] = "deepseek-v3";

static const struct {
    const char *model, *words;
    double measured; /* ms, median; the first ten in one call */
} steps[] = {
    {qwen, QWEN(8, 4096), 211.5},
    {qwen, QWEN(1, 4096), 29.8},
    {qwen, QWEN(1, 4096) "model.cuda_graph_impl=full_iteration", 29.3},
    {qwen, QWEN(1, 32768), 406.8},
    {qwen, QWEN(1, 65536), 1258.9},
    {qwen, QWEN(1, 131072), 4363.0},
    {qwen, QWEN(8, 4096) FP8, 199.1},
    {deepseek, DEEPSEEK(4, 4096), 491.4},
    {deepseek, DEEPSEEK(1, 32768), 1802.9},
    {deepseek, DEEPSEEK(4, 4096) FP8, 418.8},
    {qwen, LAYERS(11, 1), 120.3},
    {qwen, LAYERS(20, 1) ON_HOST "optimizer.optimizer_offload_fraction=0.625", 2349.0},
    {qwen, LAYERS(1, 4), 72.6},
    {qwen, LAYERS(1, 4) ON_HOST "optimizer.optimizer_offload_fraction=0.5", 227.9},
    {qwen, LAYERS(1, 4) ON_HOST "optimizer.optimizer_offload_fraction=1", 395.4},
    {qwen, LAYERS(1, 4) "optimizer.offload_optimizer_states=true", 383.1},
    {qwen,
     LAYERS(1, 4) "model.fine_grained_activation_offloading=true "
                  "model.offload_modules=[core_attn,attn_proj,expert_fc1,moe_act]",
     105.9},
};

static void steps_take_what_was_predicted(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        arena *a = arena_create();
        setup *s = ARENA_NEW(a, setup);
        hardware *hw = ARENA_NEW(a, hardware);
        price p;
        error err = {{0}};
        setup_of_words(s, a, steps[i].model, arena_text(a, "%s%s", all, steps[i].words));
        if (machine_of_setup(hw, s, a, &err)) fail_msg("%s", err.text);
        assert_non_null(hw->measured);
        assert_false(answer_estimates_times(&s->j, hw));
        price_setup(&p, s, hw, NULL, a);
        double ratio = 1e3 * p.step_s / steps[i].measured;
        printf("%s: predicted %.1f ms, measured %.1f ms: %+.1f %%\n", steps[i].model,
               1e3 * p.step_s, steps[i].measured, 100 * (ratio - 1));
        assert_true(fabs(ratio - 1) < 0.1);
        arena_destroy(a);
    }
}

/* Hopper has no such GEMMs: reference kernels run, whose rate nobody measured. No price says
 * that they are as fast as those that it has. */
static void reference_kernels_are_slow_estimates(void **state)
{
    (void)state;
    static const char *const forms[] = {
        "mixed_precision=bf16_with_mxfp8_mixed mixed_precision.fp8_param_gather=false "
        "mixed_precision.reuse_grad_buf_for_mxfp8_param_ag=false",
        "mixed_precision=bf16_with_nvfp4_mixed mixed_precision.fp4_param_gather=false"};
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        arena *a = arena_create();
        setup *s = ARENA_NEW(a, setup);
        hardware *hw = ARENA_NEW(a, hardware);
        price p;
        error err = {{0}};
        setup_of_words(s, a, qwen, arena_text(a, "%s%s%s", all, QWEN(1, 4096), forms[i]));
        if (machine_of_setup(hw, s, a, &err)) fail_msg("%s", err.text);
        assert_true(answer_estimates_times(&s->j, hw));
        price_setup(&p, s, hw, NULL, a);
        assert_true(p.step_s > 100 * 0.0298); /* of BF16, as above */
        arena_destroy(a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(steps_take_what_was_predicted),
                                       cmocka_unit_test(reference_kernels_are_slow_estimates)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

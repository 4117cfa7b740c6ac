/* test_h200_steps.c - predicted steps of our own program on an H200, from the shipped file, beside
 * what was measured there (docs/GPU.md): within 10 %. */
#include "program/testing.h"

#include <math.h>
#include <stdio.h>

#include "price/price.h"
#include "run/timing.h"

static const char all[] = "cluster.gpu=H200 cluster.n_gpus=1 moefold.target=moefold "
                          "model.moe_router_force_load_balancing=true ";

#define NO_UPDATE " optimizer.optimizer=none"
#define ONE_LAYER                                                                                  \
    "model.num_layers=1 train.micro_batch_size=4 train.global_batch_size=4 model.seq_length=4096 "
#define ON_HOST                                                                                    \
    "optimizer.optimizer_cpu_offload=true optimizer.use_precision_aware_optimizer=true "           \
    "optimizer.overlap_cpu_optimizer_d2h_h2d=true "

static const struct {
    const char *model, *words;
    double measured; /* ms, median */
} steps[] = {
    {"qwen3-30b-a3b",
     "model.num_layers=4 train.micro_batch_size=8 train.global_batch_size=8 "
     "model.seq_length=4096" NO_UPDATE,
     228.3},
    {"qwen3-30b-a3b",
     "model.num_layers=4 train.micro_batch_size=1 train.global_batch_size=1 "
     "model.seq_length=32768" NO_UPDATE,
     426.4},
    {"deepseek-v3",
     "model.num_layers=3 model.moe_layer_freq=[0,1,1] model.num_moe_experts=32 "
     "model.mtp_num_layers=0 model.moe_router_num_groups=null model.moe_router_group_topk=null "
     "train.micro_batch_size=4 train.global_batch_size=4 model.seq_length=4096" NO_UPDATE,
     511.3},
    {"qwen3-30b-a3b", ONE_LAYER, 74.2},
    {"qwen3-30b-a3b", ONE_LAYER ON_HOST "optimizer.optimizer_offload_fraction=0.5", 230.4},
    {"qwen3-30b-a3b", ONE_LAYER ON_HOST, 387.2},
    {"qwen3-30b-a3b", ONE_LAYER "optimizer.offload_optimizer_states=true", 387.3},
    {"qwen3-30b-a3b",
     ONE_LAYER "model.fine_grained_activation_offloading=true "
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
        if (timing_machine(hw, s, a, &err)) fail_msg("%s", err.text);
        assert_non_null(hw->measured);
        assert_false(timing_estimated(&s->r, hw));
        price_setup(&p, s, hw, NULL, a);
        double ratio = 1e3 * p.step_s / steps[i].measured;
        printf("%s: predicted %.1f ms, measured %.1f ms: %+.1f %%\n", steps[i].model,
               1e3 * p.step_s, steps[i].measured, 100 * (ratio - 1));
        assert_true(fabs(ratio - 1) < 0.1);
        arena_destroy(a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(steps_take_what_was_predicted)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

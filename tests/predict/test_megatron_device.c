/* Megatron's time on the device: whole steps as they were measured on one H200, and the costs that
 * they taught. */
#include "predict/costing.h"
#include "predict/price.h"
#include "config/recipe.h"

#define ALONE                                                                                      \
    "cluster.gpu=H200 cluster.n_gpus=1 model.moe_token_dispatcher_type=alltoall "                  \
    "ddp.use_distributed_optimizer=false optimizer.use_distributed_optimizer=false "               \
    "model.moe_router_fusion=true "
#define QWEN  "model.num_layers=4 "
#define WIDE  "model.num_layers=3 model.moe_layer_freq=[0,1,1] model.num_moe_experts=32 "
#define SIXTY "model.seq_length=65536 model.max_position_embeddings=65536 "
#define FP8                                                                                        \
    "mixed_precision=bf16_with_fp8_subchannel_scaling_mixed "                                      \
    "mixed_precision.fp8_param_gather=false "
#define BATCH(n) "train.micro_batch_size=" #n " train.global_batch_size=" #n " "

typedef struct step_row {
    const char *name, *words;
    double ms; /* best of six */
} step_row;

/* Without the optimizer; what runs before and behind the layers is left out of ours. */
static void steps_of_one_h200_are_met(void **state)
{
    (void)state;
    static const step_row rows[] = {
        {"qwen3-30b-a3b", ALONE QWEN BATCH(8) "model.seq_length=4096", 250},
        {"qwen3-30b-a3b", ALONE QWEN BATCH(1) SIXTY, 1317},
        {"qwen3-30b-a3b",
         ALONE QWEN BATCH(1) SIXTY "model.recompute_granularity=full "
                                   "model.recompute_method=uniform model.recompute_num_layers=1",
         1623},
        {"qwen3-30b-a3b", ALONE QWEN BATCH(8) FP8 "model.seq_length=4096", 281},
        {"deepseek-v3", ALONE WIDE BATCH(4) "model.seq_length=4096", 514},
        {"deepseek-v3", ALONE WIDE BATCH(4) FP8 "model.seq_length=4096", 454},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        costing c;
        price p;
        costing_open(&c, "h200", rows[i].name, rows[i].words);
        price_setup(&p, &c.s, &c.hw, NULL, c.a);
        double ms = 1e3 * (p.step_s - p.optimizer);
        if (ms < 0.85 * rows[i].ms || ms > 1.03 * rows[i].ms)
            fail_msg("%s %s: %.0f ms, measured %.0f", rows[i].name, rows[i].words, ms, rows[i].ms);
        costing_close(&c);
    }
}

static double permuted(const costing *c)
{
    lone_op x;
    lone_init(&x, OP_PERMUTE, "permute", NULL, 0);
    x.o.in[0] = lone_buf(&x, "x", 134e6);
    x.o.out[0] = lone_buf(&x, "y", 1074e6);
    return lone_cost(c, &x).seconds;
}

/* The trace has 0.33 ms for the permutation and 0.51 for the sort behind it. */
static void one_rank_sorts_for_its_experts(void **state)
{
    (void)state;
    costing alone, flex;
    costing_open(&alone, "h200", "qwen3-30b-a3b", ALONE QWEN);
    near("permutation and sort", permuted(&alone), 0.84e-3, 0.1);
    alone.c.sorts_again = false;
    near("permutation alone", permuted(&alone), 0.33e-3, 0.15);
    costing_open(&flex, "h200", "qwen3-30b-a3b",
                 "cluster.gpu=H200 cluster.n_gpus=8 model.expert_model_parallel_size=8 "
                 "model.moe_token_dispatcher_type=flex");
    assert_false(flex.c.sorts_again);
    costing_close(&alone);
    costing_close(&flex);
}

static double rate_of_experts(const costing *c, int64_t rows_each, int64_t experts)
{
    lone_op x;
    int64_t n = 1536, k = 2048;
    lone_init(&x, OP_GROUPED, "fc1", (const int64_t[]){rows_each * experts, experts, n, k}, 4);
    x.o.role = ROLE_EXPERTS_FC1;
    x.o.in[0] = lone_buf(&x, "x", 2.0 * (double)(rows_each * experts * k));
    x.o.out[0] = lone_buf(&x, "y", 2.0 * (double)(rows_each * experts * n));
    op_cost cost = lone_cost(c, &x);
    return 2.0 * (double)(rows_each * experts * n * k) / (cost.seconds - cost.quantise);
}

/* A kernel of all experts reaches by rows what calls one by one reach by the size of each. */
static void experts_are_gemms_of_their_own(void **state)
{
    (void)state;
    costing c;
    costing_open(&c, "h200", "qwen3-30b-a3b", ALONE QWEN);
    assert_true(c.c.one_by_one);
    assert_true(rate_of_experts(&c, 256, 128) < 0.8 * rate_of_experts(&c, 2048, 128));
    double one = rate_of_experts(&c, 2048, 128);
    c.c.one_by_one = false;
    assert_true(rate_of_experts(&c, 2048, 128) > 1.1 * one);
    costing_close(&c);
}

#define ON_B200(n, ep)                                                                             \
    "cluster.gpu=B200 cluster.n_gpus=" #n " model.expert_model_parallel_size=" #ep                 \
    " model.moe_token_dispatcher_type=flex mixed_precision=bf16_mixed"

static void blackwell_has_hybridep_inside_a_node(void **state)
{
    (void)state;
    arena *a = arena_create();
    setup near_one, far;
    setup_of_words(&near_one, a, "qwen3-30b-a3b", ON_B200(8, 8));
    setup_of_words(&far, a, "qwen3-30b-a3b", ON_B200(16, 16));
    assert_string_equal(recipe_word(&near_one.r, K_FLEX), "hybridep");
    assert_string_equal(recipe_word(&far.r, K_FLEX), "deepep");
    arena_destroy(a);
}

static double exchange_calls(const char *words)
{
    costing c;
    lone_op x;
    costing_open(&c, "h100", "qwen3-30b-a3b", words);
    lone_init(&x, OP_EXCHANGE, "dispatch.x", NULL, 0);
    x.o.group = GROUP_EP;
    x.o.dim[DIM_EXCHANGE_W] = c.s.m.hidden;
    x.o.in[0] = lone_buf(&x, "x", 1e6);
    x.o.out[0] = lone_buf(&x, "y", 1e6);
    double calls = lone_cost(&c, &x).eager / c.hw.launch;
    costing_close(&c);
    return calls;
}

/* Five parts of a layer are called one by one: half of them at each of two exchanges. */
static void ep_overlap_takes_host_time(void **state)
{
    (void)state;
#define PAIR "cluster.gpu=H100 cluster.n_gpus=16 model.expert_model_parallel_size=16 "
    double off = exchange_calls(PAIR "model.moe_token_dispatcher_type=alltoall");
    double on = exchange_calls(PAIR "model.moe_token_dispatcher_type=alltoall "
                                    "comm_overlap.overlap_moe_expert_parallel_comm=true");
    near("more calls", on - off, 2.5 * 0.3, 1e-6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_of_one_h200_are_met),
        cmocka_unit_test(one_rank_sorts_for_its_experts),
        cmocka_unit_test(experts_are_gemms_of_their_own),
        cmocka_unit_test(blackwell_has_hybridep_inside_a_node),
        cmocka_unit_test(ep_overlap_takes_host_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* What Megatron's program does otherwise than ours: the head in one, dispatch in one kernel,
 * streams of their own, fused experts; and what that costs beside what ours would. */
#include "predict/costing.h"

#include "predict/price.h"

typedef struct compared {
    price ours, theirs;
} compared;

/* The same program priced as ours and as Megatron's, with launches that take no time. */
static compared compare(const char *model_name, const char *words)
{
    compared out;
    costing c;
    costing_open(&c, "h100", model_name, words);
    c.hw.launch = c.hw.graph_launch = 1e-12;
    assert_true(c.hw.framework == 1);
    price_setup(&out.theirs, &c.s, &c.hw, NULL, c.a);
    c.hw.framework = 0;
    price_setup(&out.ours, &c.s, &c.hw, NULL, c.a);
    costing_close(&c);
    return out;
}

#define QWEN                                                                                       \
    "cluster.gpu=H100 cluster.n_gpus=16 model.seq_length=4096 train.micro_batch_size=1 "           \
    "train.global_batch_size=64 "
#define TP2 "model.tensor_model_parallel_size=2 model.sequence_parallel=true "

static void chunks_of_the_head_cost_what_the_whole_does(void **state)
{
    (void)state;
    compared whole = compare("qwen3-30b-a3b", QWEN "model.expert_model_parallel_size=8");
    compared cut = compare("qwen3-30b-a3b", QWEN TP2 "model.expert_model_parallel_size=8");
    double of_whole = whole.theirs.time[COST_HEAD];
    /* half the vocabulary for as many tokens, and twice as many microbatches a rank */
    near("head of TP2", cut.theirs.time[COST_HEAD], of_whole, 0.05);
    near("head as ours", whole.ours.time[COST_HEAD], of_whole, 1e-9);
    assert_true(cut.ours.time[COST_HEAD] > 1.2 * cut.theirs.time[COST_HEAD]);
}

#define FLEX(backend)                                                                              \
    "model.expert_model_parallel_size=16 model.moe_token_dispatcher_type=flex "                    \
    "model.moe_flex_dispatcher_backend=" backend " "
#define BESIDE "comm_overlap.overlap_moe_expert_parallel_comm=true "

static void compute_does_not_wait_between_two_hops(void **state)
{
    (void)state;
    compared x = compare("qwen3-30b-a3b", QWEN FLEX("deepep") BESIDE);
    assert_true(x.theirs.exposed[COST_EP] < 0.7 * x.ours.exposed[COST_EP]);
    assert_true(x.theirs.step_s < x.ours.step_s);
    assert_true(x.theirs.time[COST_EP] > x.ours.time[COST_EP]); /* rows that stay are copied */
    near("messages", x.theirs.time[COST_EP], x.ours.time[COST_EP], 0.02);
}

/* Beside expert messages TP's have a stream of their own. */
static void messages_of_two_groups_do_not_queue(void **state)
{
    (void)state;
    compared x = compare("qwen3-30b-a3b", QWEN TP2 BESIDE "model.expert_model_parallel_size=16 "
                                                          "model.moe_token_dispatcher_type="
                                                          "alltoall");
    assert_true(x.theirs.exposed[COST_TP] < 0.8 * x.ours.exposed[COST_TP]);
}

static double share_of(const char *chip, const char *words)
{
    costing c;
    costing_open(&c, chip, "qwen3-30b-a3b", words);
    double share = c.c.share[COST_EP];
    assert_true(c.c.share[COST_TP] == c.hw.message_share);
    costing_close(&c);
    return share;
}

static void dispatch_over_nvlink_takes_more_of_the_chip(void **state)
{
    (void)state;
    double rack = share_of("gb200", "cluster.gpu=GB200 cluster.n_gpus=32 "
                                    "model.expert_model_parallel_size=32");
    double nodes = share_of("b200", "cluster.gpu=B200 cluster.n_gpus=32 "
                                    "model.expert_model_parallel_size=32");
    assert_true(rack > nodes && nodes > 0);
}

static op_cost grouped_cost(const char *words, op_kind kind, op_role role)
{
    costing c;
    arena *a = arena_create();
    costing_open(&c, "gb200", "tiny", arena_text(a, "cluster.gpu=GB200 %s", words));
    lone_op x;
    lone_init(&x, kind, "experts", (const int64_t[]){32768, 16, 2048, 2048}, 4);
    x.o.role = role;
    if (kind == OP_ACT) x.o.dim[1] = 2048;
    for (int i = 0; i < 2; i++) x.o.in[i] = lone_buf(&x, "x", 1e8);
    x.o.out[0] = lone_buf(&x, "y", 1e8);
    op_cost cost = lone_cost(&c, &x);
    costing_close(&c);
    arena_destroy(a);
    return cost;
}

/* One kernel makes what the next takes: no pass over memory between them, and no launch for each
 * expert. */
static void the_op_fuser_takes_passes_and_launches_away(void **state)
{
    (void)state;
    const char *plain = "mixed_precision=mxfp8",
               *fused = "mixed_precision=mxfp8 model.use_transformer_engine_op_fuser=true";
    assert_true(grouped_cost(plain, OP_GROUPED, ROLE_EXPERTS_FC2).quantise > 0);
    assert_true(grouped_cost(fused, OP_GROUPED, ROLE_EXPERTS_FC2).quantise == 0);
    assert_true(grouped_cost(fused, OP_GROUPED, ROLE_EXPERTS_FC1).quantise > 0);
    assert_true(grouped_cost(fused, OP_GROUPED_D, ROLE_EXPERTS_FC1).quantise == 0);
    assert_true(grouped_cost(fused, OP_GROUPED_D, ROLE_EXPERTS_FC2).quantise > 0);
    assert_true(grouped_cost(fused, OP_ACT, ROLE_EXPERTS).seconds <
                0.1 * grouped_cost(plain, OP_ACT, ROLE_EXPERTS).seconds);
    assert_true(grouped_cost(fused, OP_GROUPED, ROLE_EXPERTS_FC1).host <
                0.5 * grouped_cost(plain, OP_GROUPED, ROLE_EXPERTS_FC1).host);
}

static void narrow_experts_take_more_launches(void **state)
{
    (void)state;
    double wide = grouped_cost("mixed_precision=bf16_mixed", OP_GROUPED, ROLE_EXPERTS_FC1).host;
    double narrow = grouped_cost("mixed_precision=mxfp8", OP_GROUPED, ROLE_EXPERTS_FC1).host;
    assert_true(narrow > 1.1 * wide);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_of_the_head_cost_what_the_whole_does),
        cmocka_unit_test(compute_does_not_wait_between_two_hops),
        cmocka_unit_test(messages_of_two_groups_do_not_queue),
        cmocka_unit_test(dispatch_over_nvlink_takes_more_of_the_chip),
        cmocka_unit_test(the_op_fuser_takes_passes_and_launches_away),
        cmocka_unit_test(narrow_experts_take_more_launches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

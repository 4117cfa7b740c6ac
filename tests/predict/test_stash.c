/* What a graph of the whole iteration and a dispatcher's kernels copy on the device: pages of what
 * experts keep, rows that stay with their rank, and the routing map of all ranks. */
#include "predict/costing.h"

#include <stdio.h>

#include "predict/price.h"

#define JOB                                                                                        \
    "cluster.gpu=GB300 cluster.n_gpus=8 model.seq_length=4096 train.micro_batch_size=4 "           \
    "train.global_batch_size=512 model.moe_router_force_load_balancing=true "                      \
    "mixed_precision=mxfp8 model.moe_token_dispatcher_type=flex "                                  \
    "model.moe_flex_dispatcher_backend=hybridep "

#define WHOLE                                                                                      \
    "model.expert_model_parallel_size=8 model.cuda_graph_impl=full_iteration "                     \
    "model.use_transformer_engine_op_fuser=true "

/* Seconds of a layer's operations of a kind (or of its gradient), whichever way. */
static double seconds_of(const char *words, op_kind kind, int phase)
{
    costing c;
    double seconds = 0;
    costing_open(&c, "gb300", "qwen3-30b-a3b", words);
    program *p = ARENA_NEW(c.a, program);
    program_build(p, &c.s, 0, c.a);
    for (int i = 0; i < p->n_segments && !(seconds > 0); i++) {
        const segment *seg = p->segments[i];
        for (int k = 0; seg->kind == SEGMENT_LAYER && k < seg->n_ops[phase]; k++)
            if (seg->ops[phase][k].kind == kind && seg->ops[phase][k].role != ROLE_COUNTS)
                seconds += cost_of(&c.c, seg, &seg->ops[phase][k]).seconds;
    }
    costing_close(&c);
    return seconds;
}

static double stash_of(const char *words, int phase)
{
    const char *on = "model.moe_paged_stash=true model.moe_expert_rank_capacity_factor=1.5";
    op_kind kind = phase ? OP_ACT_D : OP_ACT;
    char with[900], without[900];
    snprintf(with, sizeof with, "%s%s%s %s", JOB, WHOLE, words, on);
    snprintf(without, sizeof without, "%s%s%s", JOB, WHOLE, words);
    return seconds_of(with, kind, phase) - seconds_of(without, kind, phase);
}

/* 16,384 tokens of 8 rows: 1,536 numbers of 2 bytes, and 768 and 2,048 of one with a scale for 32,
 * read and written at 88 % of 8 TB/s; 0.3 of that (device.near_share) is what compute loses. */
static void pages_are_written_and_read(void **state)
{
    (void)state;
    double rows = 16384.0 * 8, row = 1536 * 2 + (768 + 2048) * (1 + 1.0 / 32);
    double wanted = 0.3 * 2 * rows * row / (0.88 * 8e12);
    near("forward", stash_of("", SEG_FORWARD), wanted, 0.02);
    near("backward", stash_of("", SEG_BACKWARD), wanted, 0.02);
}

static void what_is_made_again_is_not_stashed(void **state)
{
    (void)state;
    const char *act = "model.recompute_granularity=selective model.recompute_modules=[moe_act]";
    const char *moe = "model.recompute_granularity=selective model.recompute_modules=[moe]";
    double rows = 16384.0 * 8, row = 1536 * 2 + 2048 * (1 + 1.0 / 32);
    near("without the second input", stash_of(act, SEG_FORWARD),
         0.3 * 2 * rows * row / (0.88 * 8e12), 0.02);
    assert_true(stash_of(moe, SEG_FORWARD) == 0);
}

/* Microseconds of one way of a layer's dispatch. */
static double dispatch_us(int ep, const char *multiprocessors)
{
    char words[900];
    snprintf(words, sizeof words, "%smodel.cuda_graph_impl=none %s%d %s%s", JOB,
             "model.expert_model_parallel_size=", ep,
             "model.moe_flex_dispatcher_num_sms=", multiprocessors);
    costing c;
    lone_op x;
    costing_open(&c, "gb300", "qwen3-30b-a3b", words);
    c.hw.dispatch_start = 0;
    lone_init(&x, OP_EXCHANGE, "dispatch.x", (const int64_t[]){1 << 20, 2048}, 2);
    x.o.group = GROUP_TP_EP;
    x.o.role = ROLE_HOP2;
    x.o.in[0] = lone_buf(&x, "x", 1e9);
    x.o.in[1] = lone_buf(&x, "table", 64);
    double us = lone_cost(&c, &x).seconds * 1e6;
    costing_close(&c);
    return us;
}

/* Rows that a rank receives at EP 2: nearly all tokens have experts on both. The kernel copies
 * its own like the other's, so that EP 8, with 5.3 ranks a token, takes 2.6 times as long and not
 * 4.6 times. */
static void rows_that_stay_are_copied_too(void **state)
{
    (void)state;
    /* 19.1 ns for 14,336 bytes, of which 2.05 are a row's own */
    double row = 2.05e-9 + (19.1e-9 - 2.05e-9) * 2048 * 2 / 14336;
    near("EP 2", dispatch_us(2, "32"), 1e6 * 16384 * 2 * 0.997 * row, 0.05);
    near("EP 8", dispatch_us(8, "32"), 1e6 * 16384 * 5.3 * row, 0.05);
}

static void sixteen_multiprocessors_reach_less(void **state)
{
    (void)state;
    assert_true(dispatch_us(8, "16") > 1.04 * dispatch_us(8, "32"));
    near("the default", dispatch_us(8, "null"), dispatch_us(8, "32"), 1e-9);
    near("of older containers", dispatch_us(8, "null moefold.stack=26.04"), dispatch_us(8, "16"),
         1e-9);
}

/* Microseconds of what a layer's dispatcher gathers before its rows travel. */
static double gathered_us(const char *words)
{
    costing c;
    lone_op x;
    costing_open(&c, "gb300", "qwen3-30b-a3b", words);
    lone_init(&x, OP_ALL_GATHER, "dispatch.counts", (const int64_t[]){9}, 1);
    x.o.type = DTYPE_I32;
    x.o.group = GROUP_TP_EP;
    x.o.role = ROLE_COUNTS;
    double us = lone_cost(&c, &x).seconds * 1e6;
    costing_close(&c);
    return us;
}

/* 16,384 tokens of 128 experts: 2 MiB of each of eight ranks. Seven of them arrive at the pace of
 * 14 MiB over NVLink (0.48 of 900 GB/s), and all eight are read (0.68 of 8 TB/s). */
static void hybridep_gathers_the_routing_map(void **state)
{
    (void)state;
    const char *eight = JOB "model.expert_model_parallel_size=8";
    double counts = gathered_us(JOB "model.expert_model_parallel_size=8 "
                                    "model.moe_flex_dispatcher_backend=deepep");
    double map = gathered_us(eight), mib = 1 << 20;
    double wanted = 14 * mib / (0.48 * 900e9) + 16 * mib / (0.68 * 8e12);
    near("more than counts", map - counts, 1e6 * wanted, 0.05);
    assert_true(counts < map / 2);
    assert_true(gathered_us(JOB "model.expert_model_parallel_size=2") < map / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_are_written_and_read),
        cmocka_unit_test(what_is_made_again_is_not_stashed),
        cmocka_unit_test(rows_that_stay_are_copied_too),
        cmocka_unit_test(hybridep_gathers_the_routing_map),
        cmocka_unit_test(sixteen_multiprocessors_reach_less),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

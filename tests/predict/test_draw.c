/* What balanced routing leaves to chance: padding of experts' rows and the fullest rank, beside
 * draws of our own. */
#include "predict/costing.h"

#include "predict/draw.h"

#define JOB                                                                                        \
    "cluster.gpu=GB300 cluster.n_gpus=8 model.seq_length=4096 train.micro_batch_size=4 "           \
    "train.global_batch_size=512 model.moe_router_force_load_balancing=true "                      \
    "mixed_precision=mxfp8 model.moe_token_dispatcher_type=flex "                                  \
    "model.moe_flex_dispatcher_backend=hybridep model.cuda_graph_impl=full_iteration "

#define FUSED "model.use_transformer_engine_op_fuser=true "

enum { EXPERTS = 128, TOPK = 8, DRAWS = 40 };

/* One microbatch: `tokens` choose TOPK different experts each. */
static void draw_counts(int *counts, int tokens, uint64_t *seed)
{
    for (int e = 0; e < EXPERTS; e++) counts[e] = 0;
    for (int t = 0; t < tokens; t++) {
        bool taken[EXPERTS] = {false};
        for (int k = 0; k < TOPK;) {
            *seed = *seed * 6364136223846793005u + 1442695040888963407u;
            int e = (int)(*seed >> 57);
            if (taken[e]) continue;
            taken[e] = true;
            counts[e]++;
            k++;
        }
    }
}

static double drawn_mean(int tokens, int tile)
{
    uint64_t seed = 7;
    int counts[EXPERTS];
    double sum = 0;
    for (int i = 0; i < DRAWS; i++) {
        draw_counts(counts, tokens, &seed);
        for (int e = 0; e < EXPERTS; e++) sum += (counts[e] + tile - 1) / tile * tile;
    }
    return sum / (DRAWS * EXPERTS);
}

/* 40 draws of 128 experts: the mean of a tile more or none is known to 1/140 of a tile. */
static void padded_rows_are_those_of_draws(void **state)
{
    (void)state;
    static const struct {
        int tokens, tile;
    } cases[] = {{32768, 256}, {32768, 128}, {30000, 256}, {34816, 256}, {2048, 256}, {4096, 32}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double mean = (double)cases[i].tokens * TOPK / EXPERTS, tile = cases[i].tile;
        double got = draw_padded(mean, tile), wanted = drawn_mean(cases[i].tokens, cases[i].tile);
        if (fabs(got - wanted) > 0.03 * tile)
            fail_msg("%g rows in tiles of %g: %g, drawn %g", mean, tile, got, wanted);
    }
    assert_true(fabs(draw_padded(2048, 256) - 2176) < 1);
    assert_true(draw_padded(0, 256) == 0);
}

/* The same of the fullest rank of EP `ranks`, over the mean. */
static double drawn_fullest(int tokens, int ranks)
{
    uint64_t seed = 11;
    int counts[EXPERTS];
    double sum = 0;
    for (int i = 0; i < DRAWS; i++) {
        int most = 0;
        draw_counts(counts, tokens, &seed);
        for (int r = 0; r < ranks; r++) {
            int load = 0;
            for (int e = 0; e < EXPERTS / ranks; e++) load += counts[r * (EXPERTS / ranks) + e];
            if (load > most) most = load;
        }
        sum += most;
    }
    return sum / DRAWS / ((double)tokens * TOPK / ranks);
}

static void the_fullest_rank_is_that_of_draws(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 64; ranks *= 2) {
        double rows = 512.0 * TOPK; /* of a rank */
        double got = draw_fullest(ranks, rows, TOPK, EXPERTS);
        near("above the mean", got - 1, drawn_fullest(512 * ranks, ranks) - 1, 0.15);
    }
    assert_true(draw_fullest(1, 4096, TOPK, EXPERTS) == 1);
    assert_true(draw_fullest(8, 4096, 8, 8) == 1);
}

/* Seconds of the first expert GEMM of `rows` rows an expert. */
static double gemm_seconds(const costing *c, int64_t rows)
{
    enum { LOCAL = 64, WIDE = 1536, HIDDEN = 2048 };
    lone_op x;
    lone_init(&x, OP_GROUPED, "experts.fc1", (const int64_t[]){LOCAL * rows, LOCAL, WIDE, HIDDEN},
              4);
    x.o.role = ROLE_EXPERTS_FC1;
    x.o.in[0] = lone_buf(&x, "x", 1);
    x.o.in[1] = lone_buf(&x, "w", 1);
    x.o.out[0] = lone_buf(&x, "y", 1);
    op_cost cost = lone_cost(c, &x);
    return (cost.seconds / c->c.device - cost.quantise - c->hw.least * 3) * c->c.device;
}

/* Every layer waits for it, unless the recipe's routing is more uneven than chance. */
static void experts_wait_for_the_fullest_rank(void **state)
{
    (void)state;
    costing c;
    costing_open(&c, "gb300", "qwen3-30b-a3b", JOB FUSED "model.expert_model_parallel_size=8");
    double drawn = gemm_seconds(&c, 4096);
    assert_true(c.c.fullest > 1.002 && c.c.fullest < 1.01);
    cost_set_skew(&c.c, 1 + (c.c.fullest - 1) / 2);
    assert_true(gemm_seconds(&c, 4096) == drawn);
    cost_set_skew(&c.c, 1.2);
    assert_true(gemm_seconds(&c, 4096) > 1.1 * drawn);
    costing_close(&c);
}

/* 2,048 rows an expert at EP 2, 8,192 at EP 8: half of 256 is 6 % and 1.6 %. */
static void few_rows_are_padded_more(void **state)
{
    (void)state;
    costing two, eight, wide;
    costing_open(&two, "gb300", "qwen3-30b-a3b", JOB FUSED "model.expert_model_parallel_size=2");
    costing_open(&eight, "gb300", "qwen3-30b-a3b", JOB FUSED "model.expert_model_parallel_size=8");
    costing_open(&wide, "gb300", "qwen3-30b-a3b", JOB "model.expert_model_parallel_size=2");
    near("EP 2", two.c.padding, 1 + 128.0 / 2048, 1e-3);
    near("EP 8", eight.c.padding, 1 + 128.0 / 8192, 1e-3);
    near("without the op fuser", wide.c.padding, 1 + 16.0 / 2048, 1e-3);
    costing_close(&two);
    costing_close(&eight);
    costing_close(&wide);
}

/* Half way between two multiples all draws end in the same tile; at a multiple every second one
 * begins the next, so that its time is that of half a tile more. */
static void gemms_compute_what_is_padded(void **state)
{
    (void)state;
    costing c;
    costing_open(&c, "gb300", "qwen3-30b-a3b", JOB FUSED "model.expert_model_parallel_size=2");
    double least = gemm_seconds(&c, 4096), half = gemm_seconds(&c, 4096 + 128);
    near("a multiple and half a tile more", half / least, (4096 + 256.0) / (4096 + 128.0), 0.01);
    costing_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(padded_rows_are_those_of_draws),
        cmocka_unit_test(the_fullest_rank_is_that_of_draws),
        cmocka_unit_test(experts_wait_for_the_fullest_rank),
        cmocka_unit_test(few_rows_are_padded_more),
        cmocka_unit_test(gemms_compute_what_is_padded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

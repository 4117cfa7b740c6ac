/* Prices of messages: against published dispatches, and against sums by hand. */
#include "predict/costing.h"

#include <stdio.h>

/* ---- dispatch: arXiv 2603.07685 table 7. 4,096 tokens of 7,168 numbers in BF16, 256 experts, 8 a
 * token, of 4 of 8 groups; microseconds. */

static double rows_us(const costing *c, comm_group g, op_role hop, bool back, int64_t width)
{
    lone_op x;
    lone_init(&x, OP_EXCHANGE, "dispatch.x", (const int64_t[]){1 << 20, width}, 2);
    x.o.group = g;
    x.o.role = hop;
    x.o.in[0] = lone_buf(&x, "x", 1e9);
    x.o.in[1] = lone_buf(&x, "table", 64);
    if (back) x.bufs[x.o.in[1]] = (buf){.name = "table", .parent = 0, .view_at = 8};
    return lone_cost(c, &x).seconds * 1e6;
}

static double exchange_us(const costing *c, comm_group g, op_role hop, bool back)
{
    return rows_us(c, g, hop, back, 7168);
}

static double dispatch_us(const char *chip, int ep, const char *way, bool back)
{
    costing c;
    arena *a = arena_create();
    bool flex = strcmp(way, "alltoall") != 0;
    const char *words =
        arena_text(a,
                   "cluster.gpu=%s cluster.n_gpus=%d model.expert_model_parallel_size=%d "
                   "model.seq_length=4096 model.moe_router_force_load_balancing=true "
                   "model.moe_token_dispatcher_type=%s %s%s",
                   chip, ep, ep, flex ? "flex" : "alltoall",
                   flex ? "model.moe_flex_dispatcher_backend=" : "", flex ? way : "");
    costing_open(&c, chip, "deepseek-v3", words);
    c.hw.dispatch_start = 0; /* the table has kernels alone */
    double us = flex ? exchange_us(&c, GROUP_TP_EP, ROLE_HOP2, back) +
                           exchange_us(&c, GROUP_TP_EP, ROLE_HOP1, back)
                     : exchange_us(&c, GROUP_EP, ROLE_NONE, back);
    costing_close(&c);
    arena_destroy(a);
    return us;
}

static void dispatch_takes_as_long_as_published(void **state)
{
    (void)state;
    static const struct {
        const char *gpu, *dispatcher;
        double there[4], back[4]; /* EP 8, 16, 32, 64 */
    } table[] = {
        {"H100", "alltoall", {1265, 5774, 8059, 9164}, {1277, 5628, 7815, 8727}},
        {"H100", "hybridep", {661, 1485, 3064, 4626}, {624, 1688, 3088, 4398}},
        {"GB200", "alltoall", {735, 743, 769, 930}, {741, 765, 758, 827}},
        {"GB200", "hybridep", {391, 578, 612, 675}, {353, 527, 646, 744}},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        for (int e = 0; e < 4; e++)
            for (int back = 0; back < 2; back++) {
                double got = dispatch_us(table[i].gpu, 8 << e, table[i].dispatcher, back);
                double wanted = back ? table[i].back[e] : table[i].there[e];
                char what[64];
                snprintf(what, sizeof what, "%s %s EP%d %s", table[i].gpu, table[i].dispatcher,
                         8 << e, back ? "back" : "there");
                near(what, got, wanted, 0.25);
            }
}

/* The hybrid-ep README's rates of dispatch in BF16 (14,336 bytes a row) and in FP8 (7,392 with
 * their scales), kernels alone: GB/s. Half the bytes take more than half of the time. */
static void small_rows_take_longer_than_their_bytes(void **state)
{
    (void)state;
    static const struct {
        const char *gpu, *multiprocessors;
        int ep;
        double narrow, wide;
    } table[] = {
        {"GB200", "16", 8, 620.98, 750.15},  {"GB200", "16", 16, 577.17, 661.93},
        {"B200", "16", 8, 599.27, 734.95},   {"GB200", "32", 8, 713.98, 764.03},
        {"GB200", "32", 16, 650.48, 706.95},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        costing c;
        char words[400];
        snprintf(words, sizeof words,
                 "cluster.gpu=%s cluster.n_gpus=%d model.expert_model_parallel_size=%d "
                 "model.seq_length=4096 model.moe_router_force_load_balancing=true "
                 "model.moe_token_dispatcher_type=flex model.moe_flex_dispatcher_backend=hybridep "
                 "model.moe_flex_dispatcher_num_sms=%s",
                 table[i].gpu, table[i].ep, table[i].ep, table[i].multiprocessors);
        costing_open(&c, table[i].gpu, "deepseek-v3", words);
        c.hw.dispatch_start = 0;
        double narrow = rows_us(&c, GROUP_TP_EP, ROLE_HOP2, false, 7392 / 2);
        double wide = rows_us(&c, GROUP_TP_EP, ROLE_HOP2, false, 14336 / 2);
        near(words, narrow / wide, 7392 / table[i].narrow / (14336 / table[i].wide), 0.07);
        costing_close(&c);
    }
}

/* A sixteenth of the tokens, as TP 16 or a short sequence leave a rank, takes more than a sixteenth
 * of the time: fewer bytes reach less of a link. */
static double part_us(int64_t tokens)
{
    costing c;
    arena *a = arena_create();
    costing_open(
        &c, "H100", "deepseek-v3",
        arena_text(a,
                   "cluster.gpu=H100 cluster.n_gpus=32 model.expert_model_parallel_size=32 "
                   "model.moe_router_force_load_balancing=true model.seq_length=%lld "
                   "model.moe_token_dispatcher_type=alltoall",
                   (long long)tokens));
    double us = exchange_us(&c, GROUP_EP, ROLE_NONE, false);
    costing_close(&c);
    arena_destroy(a);
    return us;
}

static void few_tokens_reach_less_of_a_link(void **state)
{
    (void)state;
    double few = part_us(256) * 16, usual = part_us(4096), many = part_us(16384) / 4;
    assert_true(few > 1.05 * usual && few < 2 * usual);
    near("beyond what was measured", many, usual, 0.01);
}

/* ---- messages */

static double message_us(const costing *c, op_kind kind, comm_group g, double bytes)
{
    lone_op x;
    lone_init(&x, kind, "message", (const int64_t[]){(int64_t)(bytes / 2), 1}, 2);
    x.o.group = g;
    x.o.in[0] = lone_buf(&x, "x", bytes);
    return lone_cost(c, &x).seconds * 1e6;
}

static void the_slowest_level_counts(void **state)
{
    (void)state;
    costing in, out;
    costing_open(&in, "h100", "tiny", "cluster.gpu=H100 cluster.n_gpus=8");
    costing_open(&out, "h100", "tiny", "cluster.gpu=H100 cluster.n_gpus=16");
    /* 1 GB of each of 8: seven cross NVLink at 370 GB/s */
    near("in a node", message_us(&in, OP_ALL_GATHER, GROUP_DP_CP, 1e9), 7e9 / 369e9 * 1e6, 0.02);
    /* of 16 on two nodes: eight enter a node over its eight ports */
    near("across", message_us(&out, OP_ALL_GATHER, GROUP_DP_CP, 1e9),
         fmax(15e9 / 369e9, 1e9 / 45e9) * 1e6, 0.02);
    near("sum", message_us(&in, OP_ALL_REDUCE, GROUP_DP_CP, 8e9),
         2 * message_us(&in, OP_REDUCE_SCATTER, GROUP_DP_CP, 1e9), 1e-6);
    assert_true(message_us(&in, OP_ALL_GATHER, GROUP_DP_CP, 8) >= 3);
    costing_close(&in);
    costing_close(&out);
}

static void a_job_on_racks_has_equal_blocks(void **state)
{
    (void)state;
    costing c;
    costing_open(&c, "gb200", "deepseek-v3",
                 "cluster.gpu=GB200 cluster.n_gpus=256 model.pipeline_model_parallel_size=4 "
                 "model.expert_model_parallel_size=64");
    assert_true(c.c.groups[GROUP_EP].in_domain == 64);
    assert_int_equal(c.c.groups[GROUP_EP].farthest, LINK_IN_DOMAIN);
    assert_int_equal(c.c.groups[GROUP_PP].farthest, LINK_OUTSIDE);
    costing_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dispatch_takes_as_long_as_published),
        cmocka_unit_test(small_rows_take_longer_than_their_bytes),
        cmocka_unit_test(few_tokens_reach_less_of_a_link),
        cmocka_unit_test(the_slowest_level_counts),
        cmocka_unit_test(a_job_on_racks_has_equal_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

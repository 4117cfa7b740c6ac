/* A rank that hangs, dies or fails ends the job, and every rank that can says where it was. */
#include "comm/running.h"

static void a_silent_rank_ends_the_job(void **state)
{
    (void)state;
    assert_int_equal(run_again("silent-thread", "MOEFOLD_TIMEOUT_SECONDS=0.3"), ERR_MACHINE);
    expect_again(
        "moefold: rank 0 of 2: no answer for 0 s in barrier (group world, layer 3 forward);"
        " the job ends");
    if (no_mpi()) skip();
    assert_int_equal(run_again("silent", "MOEFOLD_TIMEOUT_SECONDS=4 " MPIRUN), ERR_MACHINE);
    expect_again("of 4: no answer for 4 s in barrier (group world, layer 3 forward); the job ends");
    expect_again("rank 1 of 4: told to end (SIGTERM) while it computes: layer 3 forward");
}

/* Ranks are stopped by themselves, before or after all messages. */
static void a_rank_that_stops_at_mpis_start_or_end_ends_the_job(void **state)
{
    (void)state;
    if (no_mpi()) skip();
    assert_int_equal(
        run_again("stopped-first", "MOEFOLD_TIMEOUT_SECONDS=3 timeout -k 5 60 " MPIRUN),
        ERR_MACHINE);
    expect_again(" s in MPI_Init; the job ends");
    assert_int_equal(run_again("stopped-last", "MOEFOLD_TIMEOUT_SECONDS=3 timeout -k 5 60 " MPIRUN),
                     ERR_MACHINE);
    expect_again(" s in MPI_Finalize; the job ends");
}

static void a_killed_rank_ends_the_job(void **state)
{
    (void)state;
    if (no_mpi()) skip();
    assert_int_not_equal(run_again("killed", MPIRUN), 0);
    expect_again(" of 4: told to end (SIGTERM) while it waits in barrier (group world, layer 3 "
                 "forward)");
}

static void an_error_of_one_rank_ends_the_job(void **state)
{
    (void)state;
    if (no_mpi()) skip();
    assert_int_equal(run_again("failed", MPIRUN), ERR_MACHINE);
    expect_again("moefold: rank 1 of 4: the disk is full; the job ends");
}

static void what_does_not_match_is_named(void **state)
{
    (void)state;
    assert_int_equal(run_again("other-kind", ""), ERR_MACHINE);
    expect_again("ALL_GATHER qkv of 8");
    expect_again("ALL_REDUCE norm of 8");
    assert_int_equal(run_again("no-send", ""), ERR_MACHINE);
    expect_again("rank 0 of 1: RECV");
}

static void rows_that_do_not_come_are_named(void **state)
{
    (void)state;
    assert_int_equal(run_again("few-rows-thread", ""), ERR_MACHINE);
    expect_again("rank 0 of the group sends 1 row; rank 1 expects 2");
    if (no_mpi()) skip();
    assert_int_equal(run_again("few-rows", MPIRUN), ERR_MACHINE);
    expect_again(
        "rank 0 of the group sends 1 row; rank 1 expects 2 in EXCHANGE dispatch (group world)");
}

static void timeouts_that_are_none_are_refused(void **state)
{
    (void)state;
    assert_int_equal(run_again("silent-thread", "MOEFOLD_TIMEOUT_SECONDS=soon"), 1);
    expect_again("MOEFOLD_TIMEOUT_SECONDS=soon");
}

static void a_sum_in_place_lies_at_its_place(void **state)
{
    (void)state;
    assert_int_equal(run_again("other-place", ""), ERR_MACHINE);
    expect_again("REDUCE_SCATTER gradients: y lies in x, and not at this rank's part");
    assert_int_equal(run_again("hidden-place", ""), ERR_MACHINE);
    expect_again("REDUCE_SCATTER gradients: y lies in x, and the operation does not say so");
}

/* ---- what the processes do */

static void go_silent(comm *c, const setup *s, result *r)
{
    (void)s;
    (void)r;
    comm_where(c, "layer 3", "forward");
    if (comm_rank(c) == 1) sleep_for(20);
    comm_barrier(c, GROUP_WORLD);
}

static void stop_last(comm *c, const setup *s, result *r)
{
    (void)s;
    (void)r;
    comm_barrier(c, GROUP_WORLD);
    if (comm_rank(c) == 1) raise(SIGSTOP);
}

static void get_killed(comm *c, const setup *s, result *r)
{
    (void)s;
    (void)r;
    comm_where(c, "layer 3", "forward");
    comm_barrier(c, GROUP_WORLD);
    if (comm_rank(c) == 1) {
        sleep_for(0.3);
        raise(SIGKILL);
    }
    comm_barrier(c, GROUP_WORLD);
}

static void fail_alone(comm *c, const setup *s, result *r)
{
    (void)s;
    (void)r;
    if (comm_rank(c) == 1) comm_abort(c, ERR_MACHINE, "the disk is full");
    comm_barrier(c, GROUP_WORLD);
}

static void do_another_kind(comm *c, const setup *s, result *r)
{
    (void)s;
    (void)r;
    float x[8] = {0}, y[16] = {0};
    op gather = {.kind = OP_ALL_GATHER,
                 .group = GROUP_WORLD,
                 .name = "qkv",
                 .dim = {8},
                 .stream = STREAM_COMM};
    op reduce = {.kind = OP_ALL_REDUCE,
                 .group = GROUP_WORLD,
                 .name = "norm",
                 .dim = {8},
                 .stream = STREAM_COMM};
    op *o = comm_rank(c) == 0 ? &gather : &reduce;
    comm_wait(c, comm_start(c, o, (void *[]){x}, (void *[]){y}));
}

/* All send two rows to each; group rank 0 has one less for group rank 1. */
static void send_too_little(comm *c, const setup *s, result *r)
{
    (void)s;
    (void)r;
    enum { P_MAX = 4, ROWS = 2, W = 3 };
    int32_t table[4 * P_MAX];
    float x[P_MAX * ROWS * W] = {0}, y[P_MAX * ROWS * W] = {0};
    int64_t n = comm_size(c);
    op o = {.kind = OP_EXCHANGE,
            .group = GROUP_WORLD,
            .name = "dispatch",
            .dim = {n * ROWS, W},
            .stream = STREAM_COMM};
    for (int64_t p = 0; p < n; p++) {
        table[p] = table[2 * n + p] = (int32_t)p * ROWS;
        table[n + p] = table[3 * n + p] = ROWS;
    }
    if (comm_rank(c) == 0) table[n + 1] = ROWS - 1;
    comm_wait(c, comm_start(c, &o, (void *[]){x, table}, (void *[]){y}));
}

/* Every rank wants its sum one place too far, or does not say that it lies in x. */
static void sum_at(comm *c, int64_t step, int left)
{
    enum { N = 4, P = 2 };
    float x[P * N] = {0};
    op o = {.kind = OP_REDUCE_SCATTER,
            .group = GROUP_WORLD,
            .name = "gradients",
            .dim = {N},
            .stream = STREAM_COMM};
    o.out[OUT_REDUCE_SCATTER_left] = left;
    float *y = x + (comm_rank(c) + step) % P * N;
    comm_wait(c, comm_start(c, &o, (void *[]){x}, (void *[]){y, x}));
}

static void sum_at_another_place(comm *c, const setup *s, result *r)
{
    (void)s;
    (void)r;
    sum_at(c, 1, 1);
}

static void sum_without_saying(comm *c, const setup *s, result *r)
{
    (void)s;
    (void)r;
    sum_at(c, 0, -1);
}

static void await_nobody(comm *c, const setup *s, result *r)
{
    (void)s;
    (void)r;
    float y;
    op o = {.kind = OP_RECV, .group = GROUP_WORLD, .dim = {1, 0, 0}, .stream = STREAM_COMM};
    comm_wait(c, comm_start(c, &o, NULL, (void *[]){&y}));
}

static void mode_of_threads(void **state)
{
    (void)state;
    const char *mode = getenv("MOEFOLD_TEST_MODE");
    if (text_equal(mode, "silent-thread")) on_threads(2, "cluster.n_gpus=2", go_silent);
    if (text_equal(mode, "other-kind")) on_threads(2, "cluster.n_gpus=2", do_another_kind);
    if (text_equal(mode, "few-rows-thread")) on_threads(2, "cluster.n_gpus=2", send_too_little);
    if (text_equal(mode, "other-place")) on_threads(2, "cluster.n_gpus=2", sum_at_another_place);
    if (text_equal(mode, "hidden-place")) on_threads(2, "cluster.n_gpus=2", sum_without_saying);
    if (text_equal(mode, "no-send")) on_threads(1, "", await_nobody);
}

static int run_mode(const char *mode)
{
    const struct CMUnitTest of_threads[] = {cmocka_unit_test(mode_of_threads)};
    if (text_equal(mode, "silent")) return run_mpi(LAYOUT_OF_4, go_silent);
    if (text_equal(mode, "stopped-first") && text_equal(getenv("OMPI_COMM_WORLD_RANK"), "1"))
        raise(SIGSTOP);
    if (text_equal(mode, "stopped-first")) return run_mpi(LAYOUT_OF_4, stop_last);
    if (text_equal(mode, "stopped-last")) return run_mpi(LAYOUT_OF_4, stop_last);
    if (text_equal(mode, "killed")) return run_mpi(LAYOUT_OF_4, get_killed);
    if (text_equal(mode, "few-rows")) return run_mpi(LAYOUT_OF_4, send_too_little);
    if (text_equal(mode, "failed")) return run_mpi(LAYOUT_OF_4, fail_alone);
    return cmocka_run_group_tests(of_threads, NULL, NULL);
}

int main(void)
{
    const char *mode = getenv("MOEFOLD_TEST_MODE");
    if (mode) return run_mode(mode);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_silent_rank_ends_the_job),
        cmocka_unit_test(a_rank_that_stops_at_mpis_start_or_end_ends_the_job),
        cmocka_unit_test(a_killed_rank_ends_the_job),
        cmocka_unit_test(an_error_of_one_rank_ends_the_job),
        cmocka_unit_test(what_does_not_match_is_named),
        cmocka_unit_test(rows_that_do_not_come_are_named),
        cmocka_unit_test(a_sum_in_place_lies_at_its_place),
        cmocka_unit_test(timeouts_that_are_none_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

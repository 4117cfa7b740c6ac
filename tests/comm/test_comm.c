/* The same properties on every backend. */
#include "comm/running.h"

#define DELAYED "moefold.comm_delay=node=20ms+1MB/s_across=1us"

/* A message takes its time; beside other work it costs none; two take twice the time. */
static void check_delay(comm *c, const setup *s, result *r)
{
    (void)s;
    enum { N = 2500 }; /* 10 KB to each of the others: 10 ms at 1 MB/s, and 20 ms latency */
    int64_t P = comm_size(c);
    double alone = 0.020 + 0.010 * (double)(P - 1), pair = 2 * alone;
    float *x = floats(N), *y = floats(2 * N * P);
    op o = {.kind = OP_ALL_GATHER, .group = GROUP_WORLD, .stream = STREAM_COMM, .dim = {N}};
    void *in[] = {x}, *first[] = {y}, *second[] = {y + N * P};
    comm_barrier(c, GROUP_WORLD);
    double from = seconds_now();
    comm_wait(c, comm_start(c, &o, in, first));
    double took = seconds_now() - from;
    EXPECT(r, took >= alone, "a message took %g s instead of %g", took, alone);
    comm_barrier(c, GROUP_WORLD);
    from = seconds_now();
    int a = comm_start(c, &o, in, first), b = comm_start(c, &o, in, second);
    comm_wait(c, a);
    comm_wait(c, b);
    took = seconds_now() - from;
    EXPECT(r, took >= pair, "two messages took %g s instead of %g", took, pair);
    double least = 1; /* others use this machine: one try of five has to be quiet */
    for (int i = 0; i < 5; i++) {
        comm_barrier(c, GROUP_WORLD);
        comm_statistics_clear(c);
        a = comm_start(c, &o, in, first);
        for (int k = 0; k < 8; k++) {
            comm_progress(c);
            sleep_for(alone / 4); /* the work */
        }
        comm_wait(c, a);
        double exposed = comm_statistics(c)->exposed[STREAM_COMM];
        if (exposed < least) least = exposed;
    }
    EXPECT(r, least < alone / 4, "%g s of %g were not hidden", least, alone);
    free(x);
    free(y);
}

/* The time of a receive counts from its send, not from when somebody began to wait for it. The send
 * carries its own time: clocks of ranks are one clock, but ranks do not wake together. */
static void check_late_send(comm *c, const setup *s, result *r)
{
    (void)s;
    double x, y = 0;
    op send = {.kind = OP_SEND, .group = GROUP_WORLD, .dim = {2, 1, 0}};
    op recv = {.kind = OP_RECV, .group = GROUP_WORLD, .dim = {2, -1, 0}};
    send.stream = STREAM_SEND_FORWARD;
    recv.stream = STREAM_RECV_FORWARD;
    comm_barrier(c, GROUP_WORLD);
    int b = comm_start(c, &recv, NULL, (void *[]){&y});
    sleep_for(0.03);
    x = seconds_now();
    int a = comm_start(c, &send, (void *[]){&x}, NULL);
    comm_wait(c, b);
    double took = seconds_now() - y;
    comm_wait(c, a);
    EXPECT(r, y > 0 && took >= 0.020, "a receive took %g s after its send", took);
}

static void check_delays(comm *c, const setup *s, result *r)
{
    check_delay(c, s, r);
    check_late_send(c, s, r);
}

static void one_rank_talks_to_itself(void **state)
{
    (void)state;
    arena *a = arena_create();
    rank_job j = {.s = ARENA_NEW(a, setup), .check = check_all};
    error err = {{0}};
    assert_null(setup_of((setup *)j.s, a, ""));
    assert_int_equal(comm_open_self(&j.c, &err), OK);
    run_rank(&j);
    comm_close(j.c);
    if (j.r.text[0]) fail_msg("%s", j.r.text);
    arena_destroy(a);
}

static void threads_exchange_what_was_meant(void **state)
{
    (void)state;
    on_threads(2, "cluster.n_gpus=2 model.tensor_model_parallel_size=2", check_all);
    on_threads(3, "cluster.n_gpus=3 model.context_parallel_size=3 cluster.gpus_per_node=2",
               check_all);
    on_threads(4,
               "cluster.n_gpus=4 model.tensor_model_parallel_size=2 "
               "model.pipeline_model_parallel_size=2 model.expert_model_parallel_size=2",
               check_all);
    on_threads(7, "cluster.n_gpus=7", check_all);
    on_threads(8,
               "cluster.n_gpus=8 model.context_parallel_size=4 "
               "model.hierarchical_context_parallel_sizes=[2,2] "
               "model.expert_model_parallel_size=4 model.pipeline_model_parallel_size=2 "
               "cluster.gpus_per_node=2 cluster.nvlink_domain=4",
               check_all);
}

static void an_emulated_link_takes_its_time(void **state)
{
    (void)state;
    on_threads(2, "cluster.n_gpus=2 " DELAYED, check_delays);
    on_threads(3, "cluster.n_gpus=3 model.context_parallel_size=3 " DELAYED, check_all);
}

static void another_number_of_ranks_is_refused(void **state)
{
    (void)state;
    arena *a = arena_create();
    setup *s = ARENA_NEW(a, setup);
    comm *c;
    error err = {{0}};
    assert_null(setup_of(s, a, "cluster.n_gpus=2"));
    assert_int_equal(comm_open_self(&c, &err), OK);
    assert_int_equal(comm_groups(c, s, &err), ERR_RULE);
    assert_non_null(strstr(err.text, "cluster.n_gpus=2"));
    comm_close(c);
    assert_null(setup_of(s, a, "moefold.comm_delay=5parsecs"));
    assert_int_equal(comm_open_self(&c, &err), OK);
    assert_int_equal(comm_groups(c, s, &err), ERR_INPUT);
    assert_non_null(strstr(err.text, "5parsecs"));
    comm_close(c);
    arena_destroy(a);
}

static void a_started_process_knows(void **state)
{
    (void)state;
    static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE",     "PMIX_RANK",
                                        "SLURM_STEP_ID",        "SLURM_NTASKS", "SLURM_PROCID"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) unsetenv(names[i]);
    assert_false(comm_launched());
    setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
    assert_true(comm_launched());
    setenv("OMPI_COMM_WORLD_SIZE", "1", 1);
    assert_false(comm_launched());
    unsetenv("OMPI_COMM_WORLD_SIZE");
    setenv("SLURM_NTASKS", "8", 1);
    setenv("SLURM_PROCID", "0", 1);
    assert_false(comm_launched()); /* the shell of a batch script */
    setenv("SLURM_STEP_ID", "0", 1);
    assert_true(comm_launched());
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) unsetenv(names[i]);
}

static void mpi_exchanges_what_was_meant(void **state)
{
    (void)state;
    if (no_mpi()) skip();
    if (run_again("checks", MPIRUN)) fail_msg("%s", again);
    for (int i = 0; i < 4; i++) {
        char line[64];
        snprintf(line, sizeof line, "rank %d: all is well", i);
        expect_again(line);
    }
}

static void mpi_cuts_what_is_too_large(void **state)
{
    (void)state;
    if (no_mpi()) skip();
    if (run_again("checks", "MOEFOLD_MPI_PIECE=50 " MPIRUN)) fail_msg("%s", again);
    expect_again("rank 3: all is well");
}

static void check_with_delay_too(comm *c, const setup *s, result *r)
{
    check_all(c, s, r);
    check_delays(c, s, r);
}

static int run_mode(void)
{
    if (getenv("MOEFOLD_MPI_PIECE")) return run_mpi(LAYOUT_OF_4, check_all);
    return run_mpi(LAYOUT_OF_4 DELAYED, check_with_delay_too);
}

int main(void)
{
    if (getenv("MOEFOLD_TEST_MODE")) return run_mode();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_rank_talks_to_itself),
        cmocka_unit_test(threads_exchange_what_was_meant),
        cmocka_unit_test(an_emulated_link_takes_its_time),
        cmocka_unit_test(another_number_of_ranks_is_refused),
        cmocka_unit_test(a_started_process_knows),
        cmocka_unit_test(mpi_exchanges_what_was_meant),
        cmocka_unit_test(mpi_cuts_what_is_too_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

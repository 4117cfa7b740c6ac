/* A stream begins a message when the one before it is complete; streams, and the control plane,
 * know nothing of each other. */
#include "comm/gathering.h"

/* Ranks 0 and 1, a TP group, start a message of the world, and behind it one of their own, which
 * lacks nothing but its turn. The others come to the first message after a call of the control
 * plane. TP has a second stream, on which rank 1 starts before and rank 0 after. */
static void check_order(comm *c, const setup *s, result *r)
{
    (void)s;
    gathered world, behind, beside;
    bool early = comm_rank(c) < 2;
    for (int round = 0; round < 3; round++) {
        float v = (float)round;
        if (early) {
            if (comm_rank(c) == 1) start_gather(c, GROUP_TP, STREAM_DP, 10 + v, &beside);
            start_gather(c, GROUP_WORLD, STREAM_COMM, v, &world);
            start_gather(c, GROUP_TP, STREAM_COMM, 20 + v, &behind);
            if (comm_rank(c) == 0) start_gather(c, GROUP_TP, STREAM_DP, 10 + v, &beside);
            end(c, &beside, 2, 10 + v, r);
            EXPECT(r, !completes(c, &world), "the others have not started it");
            EXPECT(r, !completes(c, &behind), "it began before the one before it was complete");
        }
        comm_barrier(c, GROUP_WORLD);
        if (!early) {
            start_gather(c, GROUP_WORLD, STREAM_COMM, v, &world);
            start_gather(c, GROUP_TP, STREAM_COMM, 20 + v, &behind);
        }
        end(c, &behind, 2, 20 + v, r);
        EXPECT(r, comm_test(c, world.request), "the one before is not complete");
        end(c, &world, 4, v, r);
    }
}

/* Ranks wait for the last of a stream, the first of another; every rank in another order. */
static void check_long_queues(comm *c, const setup *s, result *r)
{
    (void)s;
    enum { LONG = 40 };
    static _Thread_local gathered list[2][LONG];
    for (int i = 0; i < LONG; i++)
        for (int k = 0; k < 2; k++) {
            int stream = (k + (int)comm_rank(c)) % 2;
            start_gather(c, i % 3 ? GROUP_WORLD : GROUP_TP, stream ? STREAM_DP : STREAM_COMM,
                         (float)(100 * stream + i), &list[stream][i]);
        }
    for (int i = 0; i < LONG; i++)
        for (int k = 0; k < 2; k++) {
            int stream = (k + (int)comm_rank(c)) % 2, at = stream ? LONG - 1 - i : i;
            end(c, &list[stream][at], at % 3 ? 4 : 2, (float)(100 * stream + at), r);
        }
}

static void check_both(comm *c, const setup *s, result *r)
{
    check_order(c, s, r);
    check_long_queues(c, s, r);
}

static void threads_keep_the_order_of_streams(void **state)
{
    (void)state;
    on_threads(4, LAYOUT_OF_4, check_both);
    on_threads(4, LAYOUT_OF_4 "moefold.comm_delay=1us+1GB/s", check_both);
}

static void mpi_keeps_the_order_of_streams(void **state)
{
    (void)state;
    if (no_mpi()) skip();
    if (run_again("order", MPIRUN)) fail_msg("%s", again);
    for (int i = 0; i < 4; i++) {
        char line[64];
        snprintf(line, sizeof line, "rank %d: all is well", i);
        expect_again(line);
    }
}

static void what_is_not_open_is_named(void **state)
{
    (void)state;
    assert_int_equal(run_again("not-open", ""), ERR_MACHINE);
    expect_again("rank 0 of 1: ALL_GATHER test: no communicator of group dp-cp is open for stream "
                 "replicas");
}

/* ---- what the processes do */

static void use_what_is_not_open(comm *c, const setup *s, result *r)
{
    (void)s;
    (void)r;
    gathered m;
    start_gather(c, GROUP_DP_CP, STREAM_DP, 1, &m);
}

static void mode_of_threads(void **state)
{
    (void)state;
    on_threads(1, "", use_what_is_not_open);
}

int main(void)
{
    const char *mode = getenv("MOEFOLD_TEST_MODE");
    const struct CMUnitTest of_threads[] = {cmocka_unit_test(mode_of_threads)};
    if (mode && text_equal(mode, "order")) return run_mpi(LAYOUT_OF_4, check_both);
    if (mode) return cmocka_run_group_tests(of_threads, NULL, NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_keep_the_order_of_streams),
        cmocka_unit_test(mpi_keeps_the_order_of_streams),
        cmocka_unit_test(what_is_not_open_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

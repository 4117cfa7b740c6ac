/* A stream waits for a message of another without the host: what is behind the wait begins when
 * that message is complete, what is before it is not held up. */
#include "comm/gathering.h"

/* Ranks 0 and 1, a TP group: the second message on COMM, which lacks nothing, waits for one of the
 * world on DP that the others start later. */
static void check_hold(comm *c, result *r)
{
    gathered world, before, behind;
    bool early = comm_rank(c) < 2;
    for (int round = 0; round < 3; round++) {
        float v = (float)round;
        if (early) {
            start_gather(c, GROUP_WORLD, STREAM_DP, v, &world);
            start_gather(c, GROUP_TP, STREAM_COMM, 10 + v, &before);
            comm_stream_wait(c, STREAM_COMM, world.request);
            start_gather(c, GROUP_TP, STREAM_COMM, 20 + v, &behind);
            EXPECT(r, !completes(c, &behind), "it began before what its stream waits for");
            end(c, &before, 2, 10 + v, r);
        }
        comm_barrier(c, GROUP_WORLD);
        if (!early) {
            start_gather(c, GROUP_WORLD, STREAM_DP, v, &world);
            start_gather(c, GROUP_TP, STREAM_COMM, 10 + v, &before);
            start_gather(c, GROUP_TP, STREAM_COMM, 20 + v, &behind);
            end(c, &before, 2, 10 + v, r);
        }
        if (round == 0) end(c, &world, 4, v, r); /* ended before what waits for it, or after */
        end(c, &behind, 2, 20 + v, r);
        if (round) EXPECT(r, comm_test(c, world.request), "what it waited for is not complete");
        if (round) end(c, &world, 4, v, r);
    }
}

/* A message that has ended, and one of the stream itself, hold up nothing. */
static void check_nothing_to_wait_for(comm *c, result *r)
{
    gathered one, two, three;
    int members_n = comm_size(c) > 1 ? 2 : 1;
    start_gather(c, GROUP_TP, STREAM_DP, 1, &one);
    start_gather(c, GROUP_TP, STREAM_COMM, 2, &two);
    comm_stream_wait(c, STREAM_COMM, two.request);
    comm_stream_wait(c, STREAM_COMM, one.request);
    comm_wait(c, one.request);
    start_gather(c, GROUP_TP, STREAM_COMM, 3, &three);
    end(c, &three, members_n, 3, r);
    end(c, &two, members_n, 2, r);
}

/* Sums in place, one after another on three streams in turn: any two that overlap, or change
 * places, give another number. The host waits for the last one alone; the rest is complete then. */
static void check_chain(comm *c, result *r)
{
    enum { LONG = 12, STREAMS = 3 };
    static const op_stream streams[STREAMS] = {STREAM_COMM, STREAM_DP, STREAM_SEND_FORWARD};
    int64_t members_n = comm_size(c) > 1 ? comm_size(c) : 1;
    double y[N], expected = 1;
    int requests[LONG];
    for (int i = 0; i < N; i++) y[i] = 1;
    for (int k = 0; k < LONG; k++) {
        op o = {.kind = OP_ALL_REDUCE,
                .group = GROUP_WORLD,
                .stream = streams[(k + k / 5) % STREAMS],
                .name = "chain",
                .type = DTYPE_F64,
                .dim = {N}};
        if (k) comm_stream_wait(c, o.stream, requests[k - 1]);
        requests[k] = comm_start(c, &o, (void *[]){NULL}, (void *[]){y});
        expected *= (double)members_n;
    }
    comm_wait(c, requests[LONG - 1]);
    for (int i = 0; i < N; i++)
        EXPECT(r, y[i] == expected, "element %d is %g, not %g", i, y[i], expected);
    for (int k = 0; k + 1 < LONG; k++) {
        EXPECT(r, comm_test(c, requests[k]), "message %d is not complete", k);
        comm_wait(c, requests[k]);
    }
}

/* Every rank starts two chains in another order: only progress in all of them comes to the end. */
static void check_two_chains(comm *c, result *r)
{
    static const op_stream streams[2][2] = {{STREAM_COMM, STREAM_DP},
                                            {STREAM_SEND_FORWARD, STREAM_SEND_BACKWARD}};
    gathered list[2][6];
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < 2; k++) {
            int chain = (k + (int)comm_rank(c)) % 2;
            op_stream s = streams[chain][i % 2];
            comm_group g = chain ? GROUP_WORLD : GROUP_TP;
            if (i) comm_stream_wait(c, s, list[chain][i - 1].request);
            start_gather(c, g, s, (float)(10 * chain + i), &list[chain][i]);
        }
    for (int i = 5; i >= 0; i--)
        for (int k = 0; k < 2; k++) {
            int chain = (k + (int)comm_rank(c)) % 2;
            end(c, &list[chain][i], chain ? 4 : 2, (float)(10 * chain + i), r);
        }
}

/* The table of an exchange comes by the message that its stream waits for. */
static void check_table(comm *c, result *r)
{
    int32_t half[4] = {0, 1, 1, 1}, table[8];
    float x[2] = {(float)comm_rank(c), 100 + (float)comm_rank(c)}, y[2] = {-1, -1};
    memset(table, 127, sizeof table);
    op counts = {.kind = OP_ALL_GATHER,
                 .group = GROUP_TP,
                 .stream = STREAM_DP,
                 .name = "counts",
                 .type = DTYPE_I32,
                 .dim = {4}};
    op rows = {.kind = OP_EXCHANGE, .group = GROUP_TP, .stream = STREAM_COMM, .name = "rows"};
    rows.dim[DIM_EXCHANGE_ROOM] = 2;
    rows.dim[DIM_EXCHANGE_W] = 1;
    int first = comm_start(c, &counts, (void *[]){half}, (void *[]){table});
    comm_stream_wait(c, STREAM_COMM, first);
    int second = comm_start(c, &rows, (void *[]){x, table}, (void *[]){y});
    comm_wait(c, second);
    comm_wait(c, first);
    float pair = (float)(comm_rank(c) / 2 * 2), mine = comm_rank(c) % 2 ? 100 : 0;
    for (int i = 0; i < 2; i++)
        EXPECT(r, y[i] == mine + pair + (float)i, "row %d is %g", i, (double)y[i]);
}

/* On an emulated link of 30 ms a message begins when the one it waits for is complete there. */
static void check_time(comm *c, const setup *s, result *r)
{
    (void)s;
    gathered one, two;
    comm_barrier(c, GROUP_WORLD);
    double start = seconds_now();
    start_gather(c, GROUP_TP, STREAM_DP, 1, &one);
    comm_stream_wait(c, STREAM_COMM, one.request);
    start_gather(c, GROUP_TP, STREAM_COMM, 2, &two);
    comm_wait(c, one.request);
    end(c, &two, 2, 2, r);
    double took = seconds_now() - start;
    EXPECT(r, took >= 0.06, "two messages of 30 ms, one after the other, took %g s", took);
}

/* Ranks 0 and 1 wait for either of two: one that the others start later, and one that the emulated
 * link of 20 ms holds. Nobody wakes them for the second; a look every 100 ms would be late. The
 * least of five: other work of the machine only adds. */
static void check_either(comm *c, const setup *s, result *r)
{
    (void)s;
    gathered world, near;
    bool early = comm_rank(c) < 2;
    double least = 1;
    for (int round = 0; round < 5; round++) {
        if (early) {
            start_gather(c, GROUP_WORLD, STREAM_DP, 1, &world);
            start_gather(c, GROUP_TP, STREAM_COMM, 2, &near);
            double start = seconds_now();
            int which = comm_wait_any(c, (int[]){world.request, near.request}, 2);
            double took = seconds_now() - start;
            EXPECT(r, which == 1, "what nobody else started is complete");
            end(c, &near, 2, 2, r);
            if (took < least) least = took;
        }
        comm_barrier(c, GROUP_WORLD);
        if (!early) start_gather(c, GROUP_WORLD, STREAM_DP, 1, &world);
        end(c, &world, 4, 1, r);
    }
    EXPECT(r, !early || least < 0.08, "a message of 20 ms was seen after %g s", least);
}

static void check_waits(comm *c, const setup *s, result *r)
{
    (void)s;
    check_nothing_to_wait_for(c, r);
    check_chain(c, r);
    if (comm_size(c) == 1) return;
    check_hold(c, r);
    check_two_chains(c, r);
    check_table(c, r);
}

static void a_rank_alone_waits_for_nothing(void **state)
{
    (void)state;
    on_threads(1, "", check_waits);
}

static void threads_wait_for_other_streams(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++) on_threads(4, LAYOUT_OF_4, check_waits);
    on_threads(4, LAYOUT_OF_4 "moefold.comm_delay=1us+1GB/s", check_waits);
    on_threads(4, LAYOUT_OF_4 "moefold.comm_delay=30ms", check_time);
    on_threads(4, LAYOUT_OF_4 "moefold.comm_delay=20ms", check_either);
}

static void mpi_waits_for_other_streams(void **state)
{
    (void)state;
    if (no_mpi()) skip();
    if (run_again("wait", MPIRUN)) fail_msg("%s", again);
    for (int i = 0; i < 4; i++) {
        char line[64];
        snprintf(line, sizeof line, "rank %d: all is well", i);
        expect_again(line);
    }
}

int main(void)
{
    const char *mode = getenv("MOEFOLD_TEST_MODE");
    if (mode) return run_mpi(LAYOUT_OF_4, check_waits);
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_rank_alone_waits_for_nothing),
                                       cmocka_unit_test(threads_wait_for_other_streams),
                                       cmocka_unit_test(mpi_waits_for_other_streams)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

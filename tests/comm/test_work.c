/* Long work of the host: it may take longer than a message, and whoever never ends it is named. */
#include "comm/running.h"

#define QUICK "MOEFOLD_TIMEOUT_SECONDS=0.4 "

/* Rank 1 is at it four times as long as a message may take; rank 0 waits for it. */
static void slow_work_ends_no_job(void **state)
{
    (void)state;
    static const char *const shared[] = {"start", "build", "load", "save"};
    for (size_t i = 0; i < sizeof shared / sizeof shared[0]; i++) {
        char before[160];
        snprintf(before, sizeof before, QUICK "TEST_WORK=%s MOEFOLD_SLOW=%s:1:1.6", shared[i],
                 shared[i]);
        if (run_again("work", before)) fail_msg("%s: %s", shared[i], again);
    }
}

static void whoever_never_ends_it_is_named(void **state)
{
    (void)state;
    assert_int_equal(run_again("work", QUICK "MOEFOLD_HOST_TIMEOUT_SECONDS=1 TEST_WORK=save "
                                             "MOEFOLD_SLOW=save:1:30"),
                     ERR_MACHINE);
    expect_again("rank 1 of 2: has been saving a checkpoint for 1 s "
                 "(moefold.host_timeout_minutes is the limit); the job ends");
    assert_int_equal(run_again("work", QUICK "TEST_WORK=read MOEFOLD_SLOW=read:1:30"), ERR_MACHINE);
    expect_again("rank 1 of 2: has been reading data for 0 s "
                 "(dist.distributed_timeout_minutes is the limit); the job ends");
}

/* The clock of a rank's own work starts anew after each message: rank 0, which waits for rank 1
 * again and again, is not named for what rank 1 does. */
static void waiting_is_not_ones_own_work(void **state)
{
    (void)state;
    if (run_again("turns", QUICK "MOEFOLD_HOST_TIMEOUT_SECONDS=1")) fail_msg("%s", again);
}

/* A rank that is stopped cannot speak for itself: those that wait do. */
static void a_rank_that_cannot_speak_is_not_waited_for_for_ever(void **state)
{
    (void)state;
    if (no_mpi()) skip();
    assert_int_equal(run_again("stopped", "MOEFOLD_TIMEOUT_SECONDS=5 "
                                          "MOEFOLD_HOST_TIMEOUT_SECONDS=1 timeout -k 5 60 " MPIRUN),
                     ERR_MACHINE);
    expect_again("of 4: no answer for 6 s in barrier (group world, saving a checkpoint); ");
}

static void afterwards_messages_have_their_timeout(void **state)
{
    (void)state;
    assert_int_equal(run_again("after", QUICK), ERR_MACHINE);
    expect_again("rank 0 of 2: no answer for 0 s in barrier (group world, training step); ");
}

static void values_that_are_none_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"save",      "save:1",    "sleep:1:2", "save:1:soon",
                                      "save:1:2x", "save:-1:2", "",          ":1:2"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char before[160];
        snprintf(before, sizeof before, "TEST_WORK=save MOEFOLD_SLOW=%s", bad[i]);
        if (run_again("work", before) != 1) fail_msg("'%s' passed", bad[i]);
        expect_again("in the environment is not WORK:RANK:SECONDS");
    }
    assert_int_equal(run_again("work", "TEST_WORK=save MOEFOLD_HOST_TIMEOUT_SECONDS=0"), 1);
    expect_again("unset it to use moefold.host_timeout_minutes");
}

/* ---- what the processes do */

static comm_work asked_for(void)
{
    static const char *const names[] = {"", "start", "build", "load", "save", "read", "write"};
    const char *word = getenv("TEST_WORK");
    for (int i = 1; i < WORK_COUNT; i++)
        if (word && text_equal(word, names[i])) return (comm_work)i;
    return WORK_NONE;
}

static void work_once(comm *c, const setup *s, result *r)
{
    (void)s;
    comm_barrier(c, GROUP_WORLD);
    comm_work before = comm_work_begin(c, asked_for());
    EXPECT(r, before == WORK_NONE, "was at %d", before);
    comm_barrier(c, GROUP_WORLD);
    comm_work_end(c, before);
    comm_barrier(c, GROUP_WORLD);
}

/* Four times 0.7 s of a limit of 1 s. */
static void work_in_turns(comm *c, const setup *s, result *r)
{
    (void)s;
    (void)r;
    comm_work before = comm_work_begin(c, WORK_SAVE);
    for (int i = 0; i < 4; i++) {
        if (comm_rank(c) == 1) sleep_for(0.7);
        comm_barrier(c, GROUP_WORLD);
    }
    comm_work_end(c, before);
}

static void stop_in_it(comm *c, const setup *s, result *r)
{
    (void)s;
    (void)r;
    comm_work before = comm_work_begin(c, WORK_SAVE);
    if (comm_rank(c) == 1) raise(SIGSTOP);
    comm_barrier(c, GROUP_WORLD);
    comm_work_end(c, before);
}

static void be_silent_after_it(comm *c, const setup *s, result *r)
{
    (void)s;
    (void)r;
    comm_where(c, "training step", NULL);
    comm_work_end(c, comm_work_begin(c, WORK_SAVE));
    if (comm_rank(c) == 1) sleep_for(20);
    comm_barrier(c, GROUP_WORLD);
}

static void mode_of_threads(void **state)
{
    (void)state;
    const char *mode = getenv("MOEFOLD_TEST_MODE");
    if (text_equal(mode, "work")) on_threads(2, "cluster.n_gpus=2", work_once);
    if (text_equal(mode, "turns")) on_threads(2, "cluster.n_gpus=2", work_in_turns);
    if (text_equal(mode, "after")) on_threads(2, "cluster.n_gpus=2", be_silent_after_it);
}

int main(void)
{
    const char *mode = getenv("MOEFOLD_TEST_MODE");
    const struct CMUnitTest of_threads[] = {cmocka_unit_test(mode_of_threads)};
    if (mode && text_equal(mode, "stopped")) return run_mpi(LAYOUT_OF_4, stop_in_it);
    if (mode) return cmocka_run_group_tests(of_threads, NULL, NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slow_work_ends_no_job),
        cmocka_unit_test(whoever_never_ends_it_is_named),
        cmocka_unit_test(waiting_is_not_ones_own_work),
        cmocka_unit_test(a_rank_that_cannot_speak_is_not_waited_for_for_ever),
        cmocka_unit_test(afterwards_messages_have_their_timeout),
        cmocka_unit_test(values_that_are_none_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_checkpoint_crash.c - names, their order, and that a full disk or a kill at any moment
 * leaves a whole checkpoint. */
#include "checkpoint_testing.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

/* ---- names and order */

static void only_the_newest_are_kept(void **state)
{
    (void)state;
    run a;
    run_init(&a, NULL, tiny);
    int64_t n;
    assert_int_equal(checkpoint_latest(a.folder, &n, &a.x.err), OK);
    assert_int_equal(n, -1);
    for (int64_t i = 10; i <= 50; i += 10) save(&a, i, 0);
    save(&a, 60, 3);
    for (int64_t i = 10; i <= 60; i += 10)
        assert_int_equal(file_exists(inside(&a, i, "metadata.json")), i >= 40);
    save(&a, 45, 1); /* an older run goes on: what it did not write stays */
    assert_true(file_exists(inside(&a, 60, "metadata.json")));
    assert_false(file_exists(inside(&a, 40, "metadata.json")));
    assert_int_equal(checkpoint_latest(a.folder, &n, &a.x.err), OK);
    assert_int_equal(n, 45);
    assert_int_equal(checkpoint_previous(a.folder, 60, &n, &a.x.err), OK);
    assert_int_equal(n, 50);
    assert_int_equal(checkpoint_previous(a.folder, 45, &n, &a.x.err), OK);
    assert_int_equal(n, -1);
    run_release(&a);
}

static void put_latest(run *r, const char *text)
{
    put_file(arena_text(r->x.a, "%s/latest_checkpointed_iteration.txt", r->folder), text,
             strlen(text));
}

static void the_text_file_decides_and_is_read_with_care(void **state)
{
    (void)state;
    static const char *const bad[] = {"", "release", "-1", "1x", "99999999999999999999", "1 2"};
    run a;
    int64_t n;
    run_init(&a, NULL, tiny);
    save(&a, 1, 0);
    save(&a, 2, 0);
    put_latest(&a, "1\n");
    assert_int_equal(checkpoint_latest(a.folder, &n, &a.x.err), OK);
    assert_int_equal(n, 1);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        put_latest(&a, bad[i]);
        assert_int_equal(checkpoint_latest(a.folder, &n, &a.x.err), ERR_INPUT);
        assert_has(a.x.err.text, "latest_checkpointed_iteration.txt");
    }
    remove(arena_text(a.x.a, "%s/latest_checkpointed_iteration.txt", a.folder));
    assert_int_equal(checkpoint_latest(a.folder, &n, &a.x.err), OK);
    assert_int_equal(n, 2);
    assert_int_equal(checkpoint_load(&a.c, a.folder, 3, &a.x.err), ERR_INPUT);
    assert_has(a.x.err.text, "iter_0000003");
    run_release(&a);
}

static void a_crash_between_two_renames_loses_nothing(void **state)
{
    (void)state;
    run a, b;
    run_init(&a, NULL, tiny);
    run_init(&b, NULL, tiny);
    fill(&a, 10);
    save(&a, 5, 0);
    const char *aside = left_beside(&a, "iter_0000005", "old"); /* of a process that ended */
    const char *half = left_beside(&a, "iter_0000006", "tmp");
    assert_int_equal(rename(arena_text(a.x.a, "%s/iter_0000005", a.folder), aside), 0);
    assert_int_equal(mkdir(half, 0777), 0);
    put_file(arena_text(a.x.a, "%s/" WEIGHTS, half), "x", 1);
    assert_int_equal(checkpoint_load(&b.c, a.folder, 5, &b.x.err), OK);
    same_runs(&a, &b);
    save(&a, 7, 0);
    assert_true(file_exists(inside(&a, 5, "metadata.json"))); /* put back */
    assert_false(file_exists(aside));
    assert_false(file_exists(half));
    run_release(&a);
    run_release(&b);
}

static void a_full_disk_leaves_the_last_one_whole(void **state)
{
    (void)state;
    run a, b;
    struct rlimit old, tight;
    run_init(&a, GOLDEN "mixtral-tiny", NULL);
    run_init(&b, GOLDEN "mixtral-tiny", NULL);
    fill(&a, 11);
    save(&a, 1, 0);
    getrlimit(RLIMIT_FSIZE, &old);
    signal(SIGXFSZ, SIG_IGN);
    for (rlim_t room = 0; room < 1200000; room += 200001) {
        tight = (struct rlimit){room, old.rlim_max};
        for (int64_t iteration = 1; iteration < 3; iteration++) { /* in its place, and a new one */
            a.c.state.iteration = iteration;
            setrlimit(RLIMIT_FSIZE, &tight);
            status s = checkpoint_save(&a.c, a.folder, 1, &a.x.err);
            setrlimit(RLIMIT_FSIZE, &old);
            assert_int_equal(s, room > 1100000 ? OK : ERR_MACHINE);
        }
        if (room > 1100000) break;
        a.c.state.iteration = 1;
        assert_int_equal(checkpoint_load(&b.c, a.folder, 1, &b.x.err), OK);
        same_runs(&a, &b);
        assert_false(file_exists(arena_text(a.x.a, "%s/iter_0000002", a.folder)));
    }
    run_release(&a);
    run_release(&b);
}

/* ---- kill -9 */

_Noreturn static void save_forever(run *r, int64_t from)
{
    for (int64_t i = from;; i++) {
        fill(r, (uint64_t)i);
        r->c.state.iteration = i;
        if (checkpoint_save(&r->c, r->folder, 2, &r->x.err)) _exit(1);
    }
}

static void killed_at_any_moment_a_whole_one_is_left(void **state)
{
    (void)state;
    run a, b;
    uint64_t seed = 12;
    int interrupted = 0;
    int64_t latest = 1;
    run_init(&a, GOLDEN "mixtral-tiny", NULL);
    run_init(&b, GOLDEN "mixtral-tiny", NULL);
    fill(&a, 1);
    save(&a, 1, 0);
    for (int round = 0; round < 50; round++) {
        pid_t pid = fork();
        if (pid == 0) save_forever(&a, latest + round % 2); /* half of them in its place */
        struct timespec pause = {0, 1000 * (long)draw_below(&seed, 60000)};
        nanosleep(&pause, NULL);
        kill(pid, SIGKILL);
        int ended;
        assert_true(waitpid(pid, &ended, 0) == pid);
        assert_true(WIFSIGNALED(ended));
        interrupted += count_names(a.folder, ".tmp-") > 0;
        assert_int_equal(checkpoint_latest(a.folder, &latest, &b.x.err), OK);
        if (checkpoint_load(&b.c, a.folder, latest, &b.x.err)) fail_msg("%s", b.x.err.text);
        assert_int_equal(b.c.state.iteration, latest);
        fill(&a, (uint64_t)latest);
        a.c.state = b.c.state;
        same_runs(&a, &b);
    }
    assert_true(interrupted > 0);
    run_release(&a);
    run_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_newest_are_kept),
        cmocka_unit_test(the_text_file_decides_and_is_read_with_care),
        cmocka_unit_test(a_crash_between_two_renames_loses_nothing),
        cmocka_unit_test(a_full_disk_leaves_the_last_one_whole),
        cmocka_unit_test(killed_at_any_moment_a_whole_one_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

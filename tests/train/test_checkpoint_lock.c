/* test_checkpoint_lock.c - one job at a time in a folder: on one machine, on several, and where the
 * file system has no locks, or only its own machine's.
 *
 * Hosts and the system's locks are this test's: it has its own gethostname and fcntl. */
#define _GNU_SOURCE
#include "checkpoint_testing.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/clock.h"
#include "train/checkpoint/lock.h"

/* ---- the system of this test */

static const char *host = "node-a"; /* of the next call */
static int lock_fails;              /* errno; 0: locks work */
static bool lock_is_local;          /* every lock is given, as if no other machine's were seen */

int gethostname(char *name, size_t n)
{
    snprintf(name, n, "%s", host);
    return 0;
}

int fcntl(int fd, int command, ...)
{
    va_list more;
    va_start(more, command);
    void *with = va_arg(more, void *);
    va_end(more);
    if (command == F_OFD_SETLK && lock_fails) {
        errno = lock_fails;
        return -1;
    }
    if (command == F_OFD_SETLK && lock_is_local) return 0;
    return (int)syscall(SYS_fcntl, fd, command, with);
}

/* ---- one folder, and what was said about it */

typedef struct place {
    arena *a;
    const char *folder, *path;
    char said[4096];
    error err;
} place;

static void hear(void *with, const char *text)
{
    place *p = with;
    size_t n = strlen(p->said);
    snprintf(p->said + n, sizeof p->said - n, "%s\n", text);
}

static void place_init(place *p)
{
    *p = (place){.a = arena_create()};
    p->folder = scratch_make(p->a);
    p->path = arena_text(p->a, "%s/moefold.lock", p->folder);
    host = "node-a";
    lock_fails = 0;
    lock_is_local = false;
}

static void place_release(place *p)
{
    scratch_remove(p->folder);
    arena_destroy(p->a);
}

/* The times of the program, a hundred times shorter; a beat that waits for the processor longer
 * than the silence would make these tests fail, so the silence is longer than that. */
static checkpoint_lock *take(place *p, status expected)
{
    lock_options o = {.beat = 0.05, .silence = 1.5, .settle = 0.05, .say = hear, .with = p};
    checkpoint_lock *l = NULL;
    *p->said = 0;
    status s = checkpoint_lock_take(&l, p->folder, &o, &p->err);
    if (s != expected) fail_msg("%d: %s", (int)s, p->err.text);
    return l;
}

static void wait_a_little(void)
{
    nanosleep(&(struct timespec){0, 200000000}, NULL);
}

static lock_record there(place *p)
{
    lock_record r;
    assert_int_equal(record_read(&r, p->path), 0);
    return r;
}

/* A job on `other` that takes the folder and is killed; who it was is told by the file. */
static void crash_on(place *p, const char *other)
{
    pid_t pid = fork();
    if (pid == 0) {
        host = other;
        (void)take(p, OK);
        _exit(0);
    }
    assert_true(waitpid(pid, NULL, 0) == pid);
}

/* ---- with locks */

static void the_second_is_refused_by_the_name_of_the_first(void **state)
{
    (void)state;
    place p;
    place_init(&p);
    checkpoint_lock *l = take(&p, OK);
    assert_int_equal(checkpoint_lock_held(l), HELD_LOCK);
    host = "node-b";
    (void)take(&p, ERR_MACHINE);
    assert_has(p.err.text, arena_text(p.a, "process %d on node-a, since 20", (int)getpid()));
    assert_has(p.err.text, "repair:");
    checkpoint_lock_release(l);
    assert_string_equal(there(&p).text, "not held");
    checkpoint_lock_release(take(&p, OK)); /* what was given back is taken at once */
    assert_string_equal(p.said, "");
    place_release(&p);
}

static void a_crash_on_this_machine_holds_nobody_up(void **state)
{
    (void)state;
    place p;
    place_init(&p);
    crash_on(&p, "node-a");
    assert_true(there(&p).named);
    checkpoint_lock_release(take(&p, OK));
    assert_string_equal(p.said, "");
    place_release(&p);
}

static void locks_of_one_machine_only_are_found_out(void **state)
{
    (void)state;
    place p;
    place_init(&p);
    lock_is_local = true;
    checkpoint_lock *l = take(&p, OK);
    host = "node-b";
    (void)take(&p, ERR_MACHINE);
    assert_has(p.err.text, "on node-a, since");
    assert_has(p.said, "waiting up to");
    checkpoint_lock_release(l);
    place_release(&p);
}

static void a_crash_elsewhere_costs_the_time_of_a_look(void **state)
{
    (void)state;
    for (int locks = 0; locks < 2; locks++) {
        place p;
        place_init(&p);
        lock_fails = locks ? 0 : ENOLCK;
        crash_on(&p, "node-b");
        double start = clock_seconds();
        checkpoint_lock *l = take(&p, OK);
        assert_true(clock_seconds() - start >= 1.5);
        assert_has(p.said, "was not released by the job that held it (process ");
        assert_has(p.said, "on node-b");
        assert_has(p.said, "taking the folder over");
        checkpoint_lock_release(l);
        place_release(&p);
    }
}

/* ---- without locks */

static void without_locks_the_file_keeps_others_out(void **state)
{
    (void)state;
    static const int reasons[] = {ENOLCK, EOPNOTSUPP, ENOSYS, EINVAL};
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
        place p;
        place_init(&p);
        lock_fails = reasons[i];
        checkpoint_lock *l = take(&p, OK);
        assert_int_equal(checkpoint_lock_held(l), HELD_FILE);
        assert_has(p.said, strerror(reasons[i]));
        assert_has(p.said, "docs/CHECKPOINTS.md");
        for (int other = 0; other < 2; other++) {
            host = other ? "node-b" : "node-a";
            (void)take(&p, ERR_MACHINE);
            assert_has(p.err.text, arena_text(p.a, "process %d on node-a", (int)getpid()));
        }
        host = "node-a";
        checkpoint_lock_release(l);
        checkpoint_lock_release(take(&p, OK));
        place_release(&p);
    }
}

static void without_locks_a_crash_here_holds_nobody_up(void **state)
{
    (void)state;
    place p;
    place_init(&p);
    lock_fails = ENOLCK;
    crash_on(&p, "node-a");
    checkpoint_lock_release(take(&p, OK));
    assert_null(strstr(p.said, "waiting up to"));
    place_release(&p);
}

/* All of them find the file free at about the same moment. */
static void without_locks_one_of_many_has_it(void **state)
{
    (void)state;
    enum { N = 8 };
    place p;
    place_init(&p);
    lock_fails = ENOLCK;
    checkpoint_lock_release(take(&p, OK));
    int children[N], winners = 0;
    double at = clock_seconds() + 0.2;
    for (int i = 0; i < N; i++)
        if ((children[i] = fork()) == 0) {
            lock_options o = {.beat = 0.05, .silence = 2, .settle = 1};
            checkpoint_lock *l;
            while (clock_seconds() < at) continue;
            if (checkpoint_lock_take(&l, p.folder, &o, &p.err)) _exit(1);
            nanosleep(&(struct timespec){3, 0}, NULL);
            _exit(checkpoint_lock_check(l, &p.err) ? 2 : 0);
        }
    for (int i = 0; i < N; i++) {
        int ended;
        assert_true(waitpid(children[i], &ended, 0) == children[i]);
        assert_true(WIFEXITED(ended) && WEXITSTATUS(ended) < 2);
        winners += WEXITSTATUS(ended) == 0;
    }
    assert_int_equal(winners, 1);
    place_release(&p);
}

/* ---- who holds it notices */

static void who_was_taken_for_dead_writes_nothing_more(void **state)
{
    (void)state;
    place p;
    place_init(&p);
    lock_fails = ENOLCK;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        host = "node-b";
        checkpoint_lock *l = take(&p, OK);
        raise(SIGSTOP); /* a machine that is cut off, and comes back */
        status s = checkpoint_lock_check(l, &p.err);
        _exit(write(ends[1], p.err.text, strlen(p.err.text) + 1) < 0 ? 9 : (int)s);
    }
    int ended;
    assert_true(waitpid(pid, &ended, WUNTRACED) == pid && WIFSTOPPED(ended));
    checkpoint_lock *l = take(&p, OK);
    assert_int_equal(checkpoint_lock_check(l, &p.err), OK);
    kill(pid, SIGCONT);
    assert_true(waitpid(pid, &ended, 0) == pid && WIFEXITED(ended));
    char text[512] = "";
    assert_true(read(ends[0], text, sizeof text - 1) > 0);
    assert_int_equal(WEXITSTATUS(ended), ERR_MACHINE);
    assert_has(text,
               arena_text(p.a, "taken over by another job (process %d on node-a", (int)getpid()));
    wait_a_little();
    assert_int_equal(checkpoint_lock_check(l, &p.err), OK); /* its beats did not disturb */
    checkpoint_lock_release(l);
    close(ends[0]);
    close(ends[1]);
    place_release(&p);
}

static void a_save_without_the_folder_moves_nothing(void **state)
{
    (void)state;
    run a;
    run_init(&a, NULL, tiny);
    lock_fails = 0;
    host = "node-a";
    save(&a, 1, 0);
    int64_t n;
    checkpoint_lock *l;
    assert_int_equal(checkpoint_lock_take(&l, a.folder, NULL, &a.x.err), OK);
    a.c.lock = l;
    save(&a, 2, 1); /* holds it */
    char text[RECORD_BYTES];
    owner other = {.host = "node-b", .machine = "00000000", .pid = 7, .held = HELD_LOCK};
    checkpoint_saving *v;
    a.c.state.iteration = 3;
    assert_int_equal(checkpoint_save_start(&v, &a.c, a.folder, 1, &a.x.err), OK);
    record_print(text, &other, "0123456789abcdef", "2026-01-01 00:00:00", 3);
    assert_int_equal(record_write(arena_text(a.x.a, "%s/moefold.lock", a.folder), text), 0);
    assert_int_equal(checkpoint_save_finish(v, &a.x.err), ERR_MACHINE);
    assert_has(a.x.err.text, "taken over by another job (process 7 on node-b");
    assert_int_equal(checkpoint_save(&a.c, a.folder, 1, &a.x.err), ERR_MACHINE);
    assert_int_equal(checkpoint_latest(a.folder, &n, &a.x.err), OK);
    assert_int_equal(n, 2);
    assert_true(file_exists(inside(&a, 2, "metadata.json")));
    assert_false(file_exists(inside(&a, 3, "metadata.json")));
    checkpoint_lock_release(l);
    a.c.lock = NULL;
    run_release(&a);
}

static void a_file_that_was_removed_or_cut_is_made_again(void **state)
{
    (void)state;
    for (int n = 0; n < 4; n++) {
        place p;
        place_init(&p);
        lock_fails = n < 2 ? 0 : ENOLCK;
        checkpoint_lock *l = take(&p, OK);
        if (n % 2)
            assert_int_equal(remove(p.path), 0);
        else
            assert_int_equal(truncate(p.path, 10), 0);
        assert_int_equal(checkpoint_lock_check(l, &p.err), OK);
        (void)take(&p, ERR_MACHINE);
        assert_int_equal(checkpoint_lock_check(l, &p.err), OK);
        checkpoint_lock_release(l);
        place_release(&p);
    }
}

static void a_link_is_not_followed(void **state)
{
    (void)state;
    place p;
    size_t n;
    place_init(&p);
    const char *victim = arena_text(p.a, "%s/victim", p.folder);
    put_file(victim, "mine", 4);
    assert_int_equal(symlink("victim", p.path), 0);
    (void)take(&p, ERR_MACHINE);
    assert_has(p.err.text, "moefold.lock: cannot be created");
    assert_string_equal(get_file(p.a, victim, &n), "mine");
    place_release(&p);
}

/* What people and crashes leave there is read with care. */
static void any_text_in_the_file_ends_in_an_answer(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "\n",
        "process 12 on node-a, since 2026-01-01 00:00:00\n", /* as an earlier program wrote it */
        "process 99999999999999999999 on x, since y; machine z token 0 lock beat 1",
        "process 12 on , since; machine token",
        "process -4 on node-a, since x; machine 12345678 token 0123456789abcdef lock beat 1",
    };
    place p;
    place_init(&p);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        put_file(p.path, texts[i], strlen(texts[i]));
        assert_false(there(&p).named);
        checkpoint_lock *l = take(&p, OK);
        assert_true(there(&p).named);
        checkpoint_lock_release(l);
    }
    place_release(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_second_is_refused_by_the_name_of_the_first),
        cmocka_unit_test(a_crash_on_this_machine_holds_nobody_up),
        cmocka_unit_test(locks_of_one_machine_only_are_found_out),
        cmocka_unit_test(a_crash_elsewhere_costs_the_time_of_a_look),
        cmocka_unit_test(without_locks_the_file_keeps_others_out),
        cmocka_unit_test(without_locks_a_crash_here_holds_nobody_up),
        cmocka_unit_test(without_locks_one_of_many_has_it),
        cmocka_unit_test(who_was_taken_for_dead_writes_nothing_more),
        cmocka_unit_test(a_save_without_the_folder_moves_nothing),
        cmocka_unit_test(a_file_that_was_removed_or_cut_is_made_again),
        cmocka_unit_test(a_link_is_not_followed),
        cmocka_unit_test(any_text_in_the_file_ends_in_an_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

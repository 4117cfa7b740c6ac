/* test_checkpoint_left.c - what jobs leave behind: named for its owner, removed where it is certain
 * that nobody completes it, and nothing gets the name of a checkpoint that was not looked at. */
#include "checkpoint_testing.h"

#include <fcntl.h>
#include <sched.h>

#include "train/checkpoint/folder.h"
#include "train/checkpoint/disk.h"

/* ---- names */

static void names_carry_host_process_and_a_new_token(void **state)
{
    (void)state;
    arena *a = arena_create();
    const char *x = owner_beside(a, "f/iter_0000001/", "tmp", HELD_LOCK);
    const char *y = owner_beside(a, "f/iter_0000001", "tmp", HELD_LOCK);
    owner o, self = owner_self(HELD_LOCK);
    assert_string_not_equal(x, y);
    assert_true(text_starts(x, "f/iter_0000001.tmp-"));
    assert_true(owner_parse(&o, x + strlen("f/iter_0000001.tmp-")));
    assert_memory_equal(&o, &self, sizeof o);
    assert_int_equal(o.pid, getpid());
    assert_true(owner_same_machine(&o, &self));
    assert_false(owner_is_gone(&o));
    arena_destroy(a);
}

static void tails_are_read_with_care(void **state)
{
    (void)state;
    static const struct {
        const char *tail, *host; /* NULL: refused */
    } rows[] = {
        {"a-5-1a2b3c4d-lock-0123456789abcdef", "a"},
        {"a-b.c-d-5-1a2b3c4d-file-0123456789abcdef", "a-b.c-d"},
        {"a-5-unknown-alone-0123456789abcdef", "a"},
        {"123", NULL},
        {"", NULL},
        {"a-5-1a2b3c4d-lock-0123456789abcde", NULL},
        {"a-5-1a2b3c4d-other-0123456789abcdef", NULL},
        {"a-0-1a2b3c4d-lock-0123456789abcdef", NULL},
        {"a--5-1a2b3c4d-lock-0123456789abcdef", "a-"},
        {"-5-1a2b3c4d-lock-0123456789abcdef", NULL},
        {"a-5x-1a2b3c4d-lock-0123456789abcdef", NULL},
        {"a-99999999999-1a2b3c4d-lock-0123456789abcdef", NULL},
        {"a-5-1a2b3c4d5e-lock-0123456789abcdef", NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        owner o;
        bool read = owner_parse(&o, rows[i].tail);
        if (read != (rows[i].host != NULL)) fail_msg("%s", rows[i].tail);
        if (read) assert_string_equal(o.host, rows[i].host);
    }
}

/* ---- leftovers */

/* FOLDER/iter_000000N.KIND-HOST-PID-MACHINE-HELD-TOKEN with a file in it. */
static const char *leave(run *r, int n, const char *kind, const char *of)
{
    const char *path =
        arena_text(r->x.a, "%s/iter_%07d.%s-%s-0123456789abcdef", r->folder, n, kind, of);
    assert_int_equal(mkdir(path, 0777), 0);
    put_file(arena_text(r->x.a, "%s/x", path), "x", 1);
    return path;
}

static void only_what_is_certainly_nobodys_is_removed(void **state)
{
    (void)state;
    owner self = owner_self(HELD_ALONE);
    char here[128];
    snprintf(here, sizeof here, "%s-%d-%s", self.host, (int)getpid(), self.machine);
    const struct {
        const char *of;
        bool held_lock, file, alone; /* does it stay, by how we hold the folder? */
    } rows[] = {
        {"elsewhere-1-12345678-lock", false, true, true},
        {"elsewhere-1-12345678-file", true, true, true},
        {"elsewhere-1-12345678-alone", true, true, true},
    };
    run a;
    run_init(&a, NULL, tiny);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int held = 0; held < HELD_COUNT; held++) {
            bool stays[] = {rows[i].alone, rows[i].file, rows[i].held_lock};
            const char *path = leave(&a, 7, "tmp", rows[i].of);
            int kept = -1;
            checkpoint_clean(a.folder, (owner_held)held, &kept);
            assert_int_equal(file_exists(path), stays[held]);
            assert_int_equal(kept, stays[held]);
            disk_remove(path);
            assert_int_equal(count_names(a.folder, "iter_"), 0);
            assert_int_equal(count_names(a.folder, "removed"), 0);
        }
    /* a process of this machine that lives, by whatever it held; and one that is gone */
    const char *lives = leave(&a, 7, "tmp", arena_text(a.x.a, "%s-alone", here));
    const char *gone = left_beside(&a, "iter_0000008", "tmp");
    const char *text = left_beside(&a, "latest_checkpointed_iteration.txt", "tmp");
    const char *probe = left_beside(&a, "probe-3", "tmp");
    assert_int_equal(mkdir(gone, 0777), 0);
    put_file(text, "8", 1);
    put_file(probe, "x", 1);
    checkpoint_clean(a.folder, HELD_ALONE, NULL);
    assert_true(file_exists(lives));
    assert_false(file_exists(gone) || file_exists(text) || file_exists(probe));
    run_release(&a);
}

static void names_of_others_stay(void **state)
{
    (void)state;
    static const char *const names[] = {"iter_0000007.tmp-1", "iter_0000007.old-99999999",
                                        "mine.tmp-a-1-12345678-lock-0123456789abcdef",
                                        "iter_0000007.bak"};
    run a;
    run_init(&a, NULL, tiny);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(mkdir(arena_text(a.x.a, "%s/%s", a.folder, names[i]), 0777), 0);
    save(&a, 1, 1);
    for (size_t i = 0; i < 4; i++)
        assert_true(file_exists(arena_text(a.x.a, "%s/%s", a.folder, names[i])));
    run_release(&a);
}

/* Of a job on another machine that held the lock which we hold now. */
static void what_stood_aside_elsewhere_is_put_back(void **state)
{
    (void)state;
    run a, b;
    run_init(&a, NULL, tiny);
    run_init(&b, NULL, tiny);
    fill(&a, 3);
    save(&a, 5, 0);
    const char *aside = arena_text(
        a.x.a, "%s/iter_0000005.old-elsewhere-1-12345678-lock-0123456789abcdef", a.folder);
    assert_int_equal(rename(arena_text(a.x.a, "%s/iter_0000005", a.folder), aside), 0);
    assert_int_equal(checkpoint_load(&b.c, a.folder, 5, &b.x.err), OK); /* found there, too */
    same_runs(&a, &b);
    save(&a, 6, 0);
    assert_true(file_exists(inside(&a, 5, "metadata.json")));
    assert_false(file_exists(aside));
    run_release(&a);
    run_release(&b);
}

/* ---- nothing is written where somebody has put something */

static void no_file_is_written_over(void **state)
{
    (void)state;
    run a;
    size_t n;
    run_init(&a, NULL, tiny);
    const char *victim = arena_text(a.x.a, "%s/victim", a.folder);
    const char *link = arena_text(a.x.a, "%s/link", a.folder);
    put_file(victim, "mine", 4);
    assert_int_equal(symlink("victim", link), 0);
    assert_int_equal(disk_create(link, "x", 1, &a.x.err), ERR_MACHINE);
    assert_int_equal(disk_create(victim, "x", 1, &a.x.err), ERR_MACHINE);
    assert_int_equal(disk_make_new_folder(link, &a.x.err), ERR_MACHINE);
    assert_int_equal(disk_make_new_folder(a.folder, &a.x.err), ERR_MACHINE);
    assert_string_equal(get_file(a.x.a, victim, &n), "mine");
    run_release(&a);
}

/* ---- the last look */

/* The folder on its way, whatever its token is. */
static const char *on_its_way(run *r, const char *name)
{
    DIR *d = opendir(r->folder);
    const char *path = NULL;
    for (const struct dirent *e; (e = readdir(d));)
        if (strstr(e->d_name, ".tmp-"))
            path = arena_text(r->x.a, "%s/%s/%s", r->folder, e->d_name, name);
    closedir(d);
    assert_non_null(path);
    return path;
}

static void cut_one(const char *path)
{
    assert_int_equal(truncate(path, 100), 0);
}

static void change_header(const char *path)
{
    int fd = open(path, O_RDWR);
    char c = 0;
    assert_true(fd >= 0 && pread(fd, &c, 1, 40) == 1);
    c ^= 1;
    assert_true(pwrite(fd, &c, 1, 40) == 1);
    close(fd);
}

static void remove_one(const char *path)
{
    assert_int_equal(remove(path), 0);
}

static void every_file_is_looked_at_before_the_name_is_given(void **state)
{
    (void)state;
    static void (*const harms[])(const char *) = {cut_one, change_header, remove_one};
    static const char *const names[] = {WEIGHTS, "exp_avg-00000-of-00001.safetensors",
                                        "exp_avg_sq-00000-of-00001.safetensors"};
    run a, b;
    run_init(&a, NULL, tiny);
    run_init(&b, NULL, tiny);
    fill(&a, 4);
    save(&a, 1, 0);
    for (int i = 0; i < 9; i++) {
        checkpoint_saving *v;
        int64_t n;
        a.c.state.iteration = i % 2 + 1; /* in its place, and a new one */
        assert_int_equal(checkpoint_save_start(&v, &a.c, a.folder, 1, &a.x.err), OK);
        while (!checkpoint_save_done(v)) sched_yield();
        harms[i % 3](on_its_way(&a, names[i / 3]));
        assert_int_equal(checkpoint_save_finish(v, &a.x.err), ERR_MACHINE);
        assert_has(a.x.err.text, names[i / 3]);
        assert_has(a.x.err.text, "the one before it is kept");
        assert_int_equal(checkpoint_latest(a.folder, &n, &a.x.err), OK);
        assert_int_equal(n, 1);
        a.c.state.iteration = 1;
        assert_int_equal(checkpoint_load(&b.c, a.folder, 1, &b.x.err), OK);
        same_runs(&a, &b);
        assert_int_equal(count_names(a.folder, ".tmp-") + count_names(a.folder, ".old-"), 0);
    }
    run_release(&a);
    run_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_carry_host_process_and_a_new_token),
        cmocka_unit_test(tails_are_read_with_care),
        cmocka_unit_test(only_what_is_certainly_nobodys_is_removed),
        cmocka_unit_test(names_of_others_stay),
        cmocka_unit_test(what_stood_aside_elsewhere_is_put_back),
        cmocka_unit_test(no_file_is_written_over),
        cmocka_unit_test(every_file_is_looked_at_before_the_name_is_given),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

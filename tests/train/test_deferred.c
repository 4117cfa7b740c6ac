/* test_deferred.c - a device that does everything late, in any order that the waits allow, leaves
 * the same bits; and where waits are ignored it does not.
 *
 * `make test` runs twelve of the guard's layouts with two seeds, MOEFOLD_LAYOUTS=all all of them
 * with ten. */
#include "guard/guard_testing.h"

#include <sys/wait.h>

#include "guard/layouts_testing.h"

enum { STEPS = 2 };

static const int chosen[] = {2, 3, 4, 5, 8, 9, 11, 13, 14, 15, 19, 20};

/* NULL: a rank failed, and `why` says how. */
static guard_state *train(int which, const char *name, const char *folder, const char **why,
                          arena *a)
{
    guard_run g = {.model = guard_layouts[which].model, .device = name};
    g.words = arena_text(a, GUARD_COMMON "%s train.train_iters=%d checkpoint.save=%s",
                         guard_layouts[which].words, STEPS, folder);
    guard_train(&g);
    free(g.said);
    for (int r = 0; r < GUARD_RANKS_MAX; r++)
        if (g.s[r]) {
            *why = arena_copy(a, g.err[r].text, strlen(g.err[r].text));
            return NULL;
        }
    return guard_read(folder, STEPS);
}

static guard_state *state_after(int which, const char *name, arena *a)
{
    const char *folder = guard_folder(a), *why = "";
    guard_state *s = train(which, name, folder, &why, a);
    guard_remove(folder);
    if (!s) fail_msg("%s: %s", guard_layouts[which].name, why);
    return s;
}

/* What the CPU leaves, once for each layout. */
static const guard_state *right_after(int which, arena *a)
{
    static guard_state *kept[N_GUARD_LAYOUTS];
    if (!kept[which]) kept[which] = state_after(which, "cpu", a);
    return kept[which];
}

static void compare(int which, int seeds)
{
    arena *a = arena_create();
    const guard_state *right = right_after(which, a);
    for (int seed = 1; seed <= seeds; seed++) {
        const char *name = arena_text(a, "deferred:%d", seed);
        guard_state *s = state_after(which, name, a);
        guard_same(right, s, arena_text(a, "%s on %s", guard_layouts[which].name, name));
        free(s);
    }
    arena_destroy(a);
}

static void late_and_in_any_order_is_the_same(void **state)
{
    (void)state;
    const char *asked = getenv("MOEFOLD_LAYOUTS");
    if (asked && strcmp(asked, "all") == 0)
        for (int i = 0; i < N_GUARD_LAYOUTS; i++) compare(i, 10);
    else
        for (size_t i = 0; i < sizeof chosen / sizeof chosen[0]; i++) compare(chosen[i], 2);
}

/* ---- faults */

/* Ignored waits may end a job in any way: in a process of its own. */
static void run_deaf(int which, const char *name, const char *folder, const guard_state *right)
{
    arena *a = arena_create();
    const char *why;
    setenv("MOEFOLD_TIMEOUT_SECONDS", "10", 1);
    guard_state *s = train(which, name, folder, &why, a);
    bool same = s != NULL;
    for (int k = 0; same && k < GUARD_KINDS; k++) same = s->total[k] == right->total[k];
    _exit(same ? 0 : 1);
}

static bool is_noticed(int which, op_stream deaf, int seed)
{
    arena *a = arena_create();
    const guard_state *right = right_after(which, a);
    const char *folder = guard_folder(a);
    int result = 0;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0)
        run_deaf(which, arena_text(a, "deferred:%d,deaf=%d", seed, (int)deaf), folder, right);
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &result, 0), child);
    guard_remove(folder);
    arena_destroy(a);
    return !WIFEXITED(result) || WEXITSTATUS(result) != 0;
}

/* One layout for each stream, in which that stream waits for others. */
static void ignored_waits_are_noticed(void **state)
{
    (void)state;
    static const struct {
        int layout;
        op_stream deaf;
    } faults[] = {
        {19, STREAM_COMPUTE},     {19, STREAM_COMM},      {5, STREAM_SEND_FORWARD},
        {5, STREAM_RECV_FORWARD}, {20, STREAM_DP},        {5, STREAM_SEND_BACKWARD},
        {14, STREAM_COPY},        {14, STREAM_COPY_BACK},
    };
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        bool seen = false;
        for (int seed = 1; seed <= 3 && !seen; seed++)
            seen = is_noticed(faults[i].layout, faults[i].deaf, seed);
        if (!seen)
            fail_msg("%s: stream %s ignores its waits, and nothing shows",
                     guard_layouts[faults[i].layout].name, op_stream_names[faults[i].deaf]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(late_and_in_any_order_is_the_same),
        cmocka_unit_test(ignored_waits_are_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_guard_state.c - weights and moments after five FP32 steps, to the bit.
 *
 * tests/guard/state.txt holds, of every layout below, a sum over all weights, first and second
 * moments, the last loss, and a short sum of each weight, so that the first one that differs can be
 * named. A change of types, of regions or of the order in which a step is carried out must leave
 * all of it equal. `make guard-record` writes the file anew: only a change that is meant to change
 * results does that, and says why.
 *
 * The plain kernels are used: they do not depend on OpenBLAS, on the number of threads or on the
 * compiler. What is left is the C library's exp, log, sin and so on, whose last bits are not the
 * same everywhere: see machine_testing.h. */
#include "guard/machine_testing.h"

#include "base/clock.h"
#include "guard/layouts_testing.h"

#define STEPS 5

/* ---- what is recorded */

static uint64_t bits_of(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static void add_weights(textbuf *t, const guard_state *s)
{
    for (int i = 0; i < s->n; i++) {
        uint64_t all = 0;
        for (int k = 0; k < GUARD_KINDS; k++) all = guard_mix(all + s->list[i].sum[k]);
        text_add(t, "  %s %08llx\n", s->list[i].name, (unsigned long long)(all >> 32));
    }
}

static const char *after_five_steps(int i, int threads, arena *a)
{
    const char *folder = guard_folder(a);
    double start = clock_seconds();
    guard_run g = {.model = guard_layouts[i].model, .threads = threads};
    g.words = arena_text(a, GUARD_COMMON "%s checkpoint.save=%s", guard_layouts[i].words, folder);
    guard_train(&g);
    for (int r = 0; r < GUARD_RANKS_MAX; r++)
        if (g.s[r]) fail_msg("%s: %s", guard_layouts[i].name, g.err[r].text);
    guard_state *s = guard_read(folder, STEPS);
    textbuf t = text_init(a);
    text_add(&t, "%s\n", guard_layouts[i].name);
    for (int k = 0; k < GUARD_KINDS; k++)
        text_add(&t, "  %s %016llx\n", guard_kinds[k], (unsigned long long)s->total[k]);
    text_add(&t, "  loss %.9g %016llx\n", g.sum.last_loss,
             (unsigned long long)bits_of(g.sum.last_loss));
    add_weights(&t, s);
    assert_int_equal(s->counters.optimizer_steps, STEPS);
    guard_remove(folder);
    free(g.said);
    free(s);
    if (getenv("MOEFOLD_VERBOSE"))
        print_message("%5.2f s  %s\n", clock_seconds() - start, guard_layouts[i].name);
    return t.s;
}

/* ---- comparing */

/* The lines of a layout: from its name, which stands at the start of a line, to the next name. */
static const char *lines_of(const char *record, const char *name, arena *a)
{
    const char *first = strstr(record, arena_text(a, "\n%s\n", name)), *end;
    if (!first) return NULL;
    for (end = strchr(++first, '\n') + 1; *end == ' '; end = strchr(end, '\n') + 1) continue;
    return arena_copy(a, first, (size_t)(end - first));
}

/* Names the lines that differ, the first few of them. */
static int differences(const char *was, const char *is)
{
    int n = 0;
    while (*was && *is) {
        size_t a = strcspn(was, "\n"), b = strcspn(is, "\n");
        if ((a != b || strncmp(was, is, a) != 0) && n++ < 6)
            print_message("    was %.*s\n    is  %.*s\n", (int)a, was, (int)b, is);
        was += a + (was[a] == '\n');
        is += b + (is[b] == '\n');
    }
    if (*was || *is) n++;
    return n;
}

static void five_steps_end_where_they_did(void **state)
{
    (void)state;
    arena *a = arena_create();
    const char *record = guard_record(a);
    int bad = 0;
    if (!guard_comparable(record, a)) skip();
    for (int i = 0; i < N_GUARD_LAYOUTS; i++) {
        const char *was = lines_of(record, guard_layouts[i].name, a);
        const char *is = after_five_steps(i, 1, a);
        if (!was) fail_msg("%s is not in " GUARD_RECORD, guard_layouts[i].name);
        if (strcmp(was, is) == 0) continue;
        bad++;
        print_message("%s: not the same\n", guard_layouts[i].name);
        print_message("    %d lines differ\n", differences(was, is));
    }
    assert_int_equal(bad, 0);
    arena_destroy(a);
}

/* Of one rank, and of ranks that share what they compute. */
static void threads_change_nothing(void **state)
{
    (void)state;
    arena *a = arena_create();
    static const int chosen[] = {0, 7};
    for (size_t i = 0; i < sizeof chosen / sizeof chosen[0]; i++)
        assert_string_equal(after_five_steps(chosen[i], 1, a), after_five_steps(chosen[i], 2, a));
    arena_destroy(a);
}

/* A guard that sees nothing is none: another rate must be seen in every kind of sum. */
static void a_change_is_seen(void **state)
{
    (void)state;
    arena *a = arena_create();
    guard_state *s[2];
    for (int k = 0; k < 2; k++) {
        const char *folder = guard_folder(a);
        guard_run g = {.model = CASE("qwen3-moe")};
        g.words =
            arena_text(a, GUARD_COMMON "train.train_iters=2 optimizer.lr=%s checkpoint.save=%s",
                       k ? "1.001e-3" : "1e-3", folder);
        guard_train(&g);
        s[k] = guard_read(folder, 2);
        guard_remove(folder);
        free(g.said);
    }
    for (int k = 0; k < GUARD_KINDS; k++) assert_true(s[0]->total[k] != s[1]->total[k]);
    free(s[0]);
    free(s[1]);
    arena_destroy(a);
}

static int record_all(void)
{
    arena *a = arena_create();
    FILE *f = fopen(GUARD_RECORD, "w");
    if (!f) return 3;
    fprintf(f,
            "# State after five FP32 steps: written by `make guard-record`, compared by "
            "tests/guard/test_guard_state.c.\n# glibc %s, %d bits\n%s\n",
            gnu_get_libc_version(), (int)sizeof(void *) * 8, guard_machine(a));
    for (int i = 0; i < N_GUARD_LAYOUTS; i++) fprintf(f, "%s", after_five_steps(i, 1, a));
    arena_destroy(a);
    return fclose(f) == 0 ? 0 : 3;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--record") == 0) return record_all();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(five_steps_end_where_they_did),
        cmocka_unit_test(threads_change_nothing),
        cmocka_unit_test(a_change_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

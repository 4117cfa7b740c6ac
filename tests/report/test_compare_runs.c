/* Two runs: noise is called noise, a slower operation is named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>

#include "base/text.h"
#include "report/compare_runs.h"

enum { STEPS = 40, RANKS = 2, OPS = 10 };

/* From 0 to 1, the same in every run of the test. */
static double draw(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 11) / 9007199254740992.0;
}

static const char *const names[OPS] = {"norm",        "qkv", "core attention", "proj", "router",
                                       "experts.fc1", "act", "experts.fc2",    "head", "add"};

/* A run of steps of a second, each operation a tenth, all of them varying by `noise`; `slow`: this
 * one takes so much longer. */
typedef struct run_made {
    double noise, slower;
    int slow;
} run_made;

static measured_side make(const run_made *m, uint64_t seed, arena *a)
{
    static const char *streams[] = {"compute"};
    double *steps = ARENA_ARRAY(a, double, STEPS);
    trace *t = ARENA_NEW(a, trace);
    trace_init(t, "measured", a);
    t->streams = streams;
    t->n_streams = 1;
    t->steps = 2;
    for (int i = 0; i < STEPS; i++) steps[i] = 1 + m->slower + m->noise * (2 * draw(&seed) - 1);
    for (int r = 0; r < RANKS; r++) {
        double now = 0;
        trace_add_rank(t, r, "rank");
        for (int i = 0; i < 2 * OPS; i++) {
            double d = 0.1 * (1 + m->noise * (2 * draw(&seed) - 1));
            if (i % OPS == m->slow) d += m->slower;
            trace_add(t, (trace_op){.name = names[i % OPS],
                                    .kind = "GEMM",
                                    .phase = "forward",
                                    .rank = r,
                                    .start = now,
                                    .end = now + d});
            now += d;
        }
        t->span = fmax(t->span, now);
    }
    t->step = t->span / 2;
    trace_sort(t);
    return (measured_side){.name = "made", .steps = steps, .n = STEPS, .t = t};
}

static void two_runs_of_one_recipe_are_noise(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 200; seed++) {
        arena *a = arena_create();
        runs_compared c;
        run_made m = {0.01 + 0.1 * (double)(seed % 5), 0, -1};
        measured_side x = make(&m, seed, a), y = make(&m, seed + 1000, a);
        compare_runs(&c, &x, &y, a);
        assert_true(c.noise && c.band > 0 && c.n_rows == 0);
        arena_destroy(a);
    }
}

static void a_slower_operation_is_named(void **state)
{
    (void)state;
    for (int slow = 0; slow < OPS; slow++) {
        arena *a = arena_create();
        runs_compared c;
        run_made m = {0.02, 0, -1}, n = {0.02, 0.06, slow};
        measured_side x = make(&m, 7, a), y = make(&n, 9, a);
        compare_runs(&c, &x, &y, a);
        assert_false(c.noise);
        assert_true(c.n_rows >= 1);
        assert_string_equal(c.rows[0].row.name, names[slow]);
        assert_true(fabs(c.rows[0].row.difference - 0.06) < 0.01);
        assert_true(fabs(c.change - 0.06) < 0.02);
        assert_true(fabs(c.parts[1][COST_GEMM].seconds - c.parts[0][COST_GEMM].seconds - 0.06) <
                    0.02);
        arena_destroy(a);
    }
}

/* What other programs have taken from a run is no difference between runs. */
static void delay_widens_the_band(void **state)
{
    (void)state;
    arena *a = arena_create();
    runs_compared c;
    run_made m = {0.01, 0, -1}, n = {0.01, 0.5, 0};
    measured_side x = make(&m, 7, a), y = make(&n, 9, a);
    compare_runs(&c, &x, &y, a);
    assert_false(c.noise);
    y.delay = 0.5;
    compare_runs(&c, &x, &y, a);
    assert_true(c.noise);
    arena_destroy(a);
}

static void few_steps_have_no_band(void **state)
{
    (void)state;
    arena *a = arena_create();
    runs_compared c;
    run_made m = {0.01, 0, -1};
    measured_side x = make(&m, 7, a), y = make(&m, 9, a);
    x.n = 3;
    compare_runs(&c, &x, &y, a);
    assert_true(c.band == 0 && !c.noise);
    x.n = 1;
    assert_true(compare_steps(&x, a).median == x.steps[0]);
    arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_runs_of_one_recipe_are_noise),
        cmocka_unit_test(a_slower_operation_is_named),
        cmocka_unit_test(delay_widens_the_band),
        cmocka_unit_test(few_steps_have_no_band),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

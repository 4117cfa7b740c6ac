/* The order of the best: by time, and by support and headroom only where time cannot tell. */
#include "searching.h"

#include <math.h>
#include <string.h>

#include "search/search_ties.h"

/* Rows that differ in as many knobs as their sizes do. */
static tie_row row(double seconds, int64_t tp, int64_t pp, bool supported, bool roomy)
{
    tie_row x = {.seconds = seconds, .supported = supported, .roomy = roomy};
    for (int i = 0; i < BAND_FEATURES; i++) x.traits.feature[i] = "same";
    x.traits.sizes[0] = tp;
    x.traits.sizes[4] = pp;
    return x;
}

static void order_is(const tie_row *rows, int n, const int *wanted)
{
    int order[BEST_MAX];
    ties_order(order, rows, n);
    for (int i = 0; i < n; i++)
        if (order[i] != wanted[i]) fail_msg("place %d: row %d, not %d", i, order[i], wanted[i]);
}

static double slower(double part, int n)
{
    return exp(part * band_of_difference(n));
}

/* The edge of the band is no reason to take the slower. */
static void a_slower_row_is_not_first_for_its_memory(void **state)
{
    (void)state;
    tie_row rows[] = {row(slower(0.9, 1), 2, 1, true, true), row(1, 1, 1, true, false)};
    assert_false(ties_toss_up(&rows[0], &rows[1]));
    order_is(rows, 2, (const int[]){1, 0});
    rows[1].supported = false;
    order_is(rows, 2, (const int[]){1, 0});
}

static void a_toss_up_goes_to_support_then_memory(void **state)
{
    (void)state;
    tie_row rows[] = {row(1, 1, 1, false, true), row(slower(0.1, 1), 2, 1, true, false),
                      row(slower(0.2, 1), 4, 1, true, true), row(slower(0.3, 1), 8, 1, true, true)};
    order_is(rows, 4, (const int[]){2, 3, 1, 0});
    rows[0].supported = true; /* free memory beyond what is needed buys nothing */
    order_is(rows, 4, (const int[]){0, 2, 3, 1});
}

/* Of equals the one more like a published run; a faster one beyond a toss-up stays first. */
static void a_toss_up_goes_to_what_was_tried(void **state)
{
    (void)state;
    tie_row rows[] = {row(1, 1, 1, true, true), row(slower(0.1, 1), 2, 1, true, true),
                      row(slower(0.9, 1), 4, 1, true, true)};
    rows[0].untried = 4;
    rows[1].untried = 2;
    order_is(rows, 3, (const int[]){1, 0, 2});
    rows[1].roomy = false;
    order_is(rows, 3, (const int[]){0, 1, 2});
}

/* A published run has nothing untried; with another EP and batch it has two knobs, but of a model
 * that nobody has published nothing is known. */
static void untried_knobs_are_counted(void **state)
{
    (void)state;
    int n;
    const band_row *r = band_rows(&n);
    while (n > 1 && strcmp(r->id, "VC-Q30-H100-step") != 0) r++, n--;
    assert_string_equal(r->id, "VC-Q30-H100-step");
    band_traits t = {.family = 'H', .gpu = r->gpu, .name = r->name, .seq = r->seq};
    memcpy(t.feature, r->feature, sizeof t.feature);
    memcpy(t.sizes, r->sizes, sizeof t.sizes);
    assert_int_equal(band_untried(&t), 0);
    t.sizes[2] = 4;
    t.sizes[6] = 2;
    assert_int_equal(band_untried(&t), 2);
    t.name = "tiny";
    assert_int_equal(band_untried(&t), 0);
}

/* Knobs that differ widen the band between two rows, not between others. */
static void only_the_two_rows_count(void **state)
{
    (void)state;
    double t = slower(0.36, 1); /* a toss-up where two knobs differ, not where one does */
    tie_row one = row(t, 2, 1, true, true), two = row(t, 2, 2, true, true),
            first = row(1, 1, 1, true, false);
    assert_false(ties_toss_up(&one, &first));
    assert_true(ties_toss_up(&two, &first));
    order_is((const tie_row[]){first, one}, 2, (const int[]){0, 1});
    order_is((const tie_row[]){first, two}, 2, (const int[]){1, 0});
}

/* A chain of toss-ups carries no slow row to the front. */
static void toss_ups_are_no_chain(void **state)
{
    (void)state;
    tie_row rows[BEST_MAX];
    int order[BEST_MAX];
    for (int i = 0; i < BEST_MAX; i++) rows[i] = row(slower(0.3 * i, 1), 1 + i, 1, true, i % 3 > 0);
    ties_order(order, rows, BEST_MAX);
    for (int i = 0; i < BEST_MAX; i++)
        for (int k = i + 1; k < BEST_MAX; k++)
            if (rows[order[k]].seconds < rows[order[i]].seconds)
                assert_true(ties_toss_up(&rows[order[i]], &rows[order[k]]));
    assert_int_equal(order[0], 1);
}

/* A whole plan on H100, in the order in which `plan` lists it. */
static const search_result *plan_of(const char *preset, const char *const *words, arena *a)
{
    error err = {{0}};
    hardware *hw = ARENA_NEW(a, hardware);
    search_result *r = ARENA_NEW(a, search_result);
    searching_machine(hw, "h100", a);
    search_options o = {.hw = hw, .published = true, .judged = true};
    if (search_run(r, searching_recipe(preset, words, a), &o, a, &err)) fail_msg("%s", err.text);
    return r;
}

/* The first is a toss-up with the fastest or the fastest itself. */
static void plans_begin_with_the_fastest_or_its_equal(void **state)
{
    (void)state;
    static const char *const words[] = {"cluster.n_gpus=64",          "cluster.gpu=H100",
                                        "model.seq_length=4096",      "train.global_batch_size=512",
                                        "mixed_precision=bf16_mixed", NULL};
    arena *a = arena_create();
    const search_result *r = plan_of("qwen3-30b-a3b", words, a);
    double least = r->best[0].exact.step_s, first = least;
    for (int i = 1; i < r->n_best; i++) least = fmin(least, r->best[i].exact.step_s);
    assert_true(r->n_best > 5 && r->best[0].tie);
    assert_true(log(first / least) <= band_of_difference(13) / 3);
    arena_destroy(a);
}

/* Here a toss-up puts another row first than the fastest. */
static void the_ladder_is_of_the_first_row(void **state)
{
    (void)state;
    static const char *const words[] = {"cluster.n_gpus=256", "cluster.gpu=H100",
                                        "model.seq_length=131072", "train.global_batch_size=64",
                                        NULL};
    arena *a = arena_create();
    const search_result *r = plan_of("deepseek-v3", words, a);
    const choice *first = &r->best[0].c;
    for (int i = 0; i < r->n_ladder; i++) {
        const choice *rung = &r->ladder[i].c;
        assert_true(rung->tp == first->tp && rung->cp == first->cp && rung->pp == first->pp);
    }
    assert_true(r->n_ladder > 3);
    assert_true(r->n_best > 1 && r->best[0].exact.step_s > r->best[1].exact.step_s);
    arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slower_row_is_not_first_for_its_memory),
        cmocka_unit_test(a_toss_up_goes_to_support_then_memory),
        cmocka_unit_test(a_toss_up_goes_to_what_was_tried),
        cmocka_unit_test(untried_knobs_are_counted),
        cmocka_unit_test(only_the_two_rows_count),
        cmocka_unit_test(toss_ups_are_no_chain),
        cmocka_unit_test(plans_begin_with_the_fastest_or_its_equal),
        cmocka_unit_test(the_ladder_is_of_the_first_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

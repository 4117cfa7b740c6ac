/* The order of the best: by time, and by what holds over more only among equals. */
#include "searching.h"

#include <math.h>
#include <string.h>

#include "plan/search_ties.h"

/* Rows that nobody has anything against. */
static tie_row row(double seconds, int64_t bytes)
{
    tie_row x = {.seconds = seconds, .bytes = bytes, .supported = true, .roomy = true};
    x.over_range = log(seconds);
    return x;
}

static void order_is(const tie_row *rows, int n, const int *wanted)
{
    int order[BEST_MAX];
    ties_order(order, rows, n);
    for (int i = 0; i < n; i++)
        if (order[i] != wanted[i]) fail_msg("place %d: row %d, not %d", i, order[i], wanted[i]);
}

/* A hundredth is what nobody tells; beyond it nothing outweighs time. */
static void a_slower_row_is_not_first(void **state)
{
    (void)state;
    tie_row rows[] = {row(1.011, 1), row(1, 2)};
    rows[1].supported = rows[1].roomy = false;
    rows[1].advice = 9;
    order_is(rows, 2, (const int[]){1, 0});
    rows[0].seconds = 1.009;
    order_is(rows, 2, (const int[]){0, 1});
    assert_true(ties_equal(1, 1.009) && ties_equal(1.009, 1) && !ties_equal(1, 1.011));
}

/* With more headroom the row that needs less memory is still there. */
static void a_row_that_needs_more_memory_is_not_put_before(void **state)
{
    (void)state;
    tie_row rows[] = {row(1, 2), row(1.005, 2), row(1.006, 1)};
    rows[0].roomy = false;
    order_is(rows, 3, (const int[]){2, 0, 1});
    rows[2].bytes = 3;
    order_is(rows, 3, (const int[]){0, 1, 2});
}

static void equals_go_by_what_holds(void **state)
{
    (void)state;
    tie_row rows[] = {row(1, 9),     row(1.001, 8), row(1.002, 7), row(1.003, 6),
                      row(1.004, 5), row(1.005, 4), row(1.006, 3)};
    rows[0].full = rows[1].full = true; /* the seventh has nothing against it */
    rows[1].supported = rows[2].supported = false;
    rows[3].roomy = false;
    rows[4].over_range = 0.03;
    rows[5].advice = 1;
    order_is(rows, 7, (const int[]){6, 5, 4, 3, 2, 0, 1});
    assert_string_equal(ties_why_before(&rows[6], &rows[0]),
                        "it recomputes modules, and not everything");
    assert_string_equal(ties_why_before(&rows[6], &rows[3]),
                        "it fits even where the allocator reserves the most");
    assert_string_equal(ties_why_before(&rows[5], &rows[4]),
                        "it is faster over the range of routings");
    assert_null(ties_why_before(&rows[0], &rows[6])); /* the faster needs no reason */
}

static void full_recompute_is_not_put_before_less(void **state)
{
    (void)state;
    tie_row rows[] = {row(1, 9), row(1.001, 8)};
    rows[0].roomy = false;
    rows[1].full = true;
    order_is(rows, 2, (const int[]){0, 1});
    rows[0].full = true;
    order_is(rows, 2, (const int[]){1, 0});
}

static void equals_go_by_what_was_tried(void **state)
{
    (void)state;
    tie_row rows[] = {row(1, 3), row(1.001, 2), row(1.02, 1)};
    rows[0].untried = 4;
    rows[1].untried = 2;
    order_is(rows, 3, (const int[]){1, 0, 2});
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

/* A chain of equals carries no slow row to the front. */
static void equals_are_no_chain(void **state)
{
    (void)state;
    tie_row rows[BEST_MAX];
    int order[BEST_MAX];
    for (int i = 0; i < BEST_MAX; i++) {
        rows[i] = row(exp(0.008 * i), BEST_MAX - i);
        rows[i].roomy = i % 3 > 0;
    }
    ties_order(order, rows, BEST_MAX);
    for (int i = 0; i < BEST_MAX; i++)
        for (int k = i + 1; k < BEST_MAX; k++)
            if (rows[order[k]].seconds < rows[order[i]].seconds)
                assert_true(ties_equal(rows[order[i]].seconds, rows[order[k]].seconds));
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
    arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slower_row_is_not_first),
        cmocka_unit_test(a_row_that_needs_more_memory_is_not_put_before),
        cmocka_unit_test(equals_go_by_what_holds),
        cmocka_unit_test(full_recompute_is_not_put_before_less),
        cmocka_unit_test(equals_go_by_what_was_tried),
        cmocka_unit_test(untried_knobs_are_counted),
        cmocka_unit_test(equals_are_no_chain),
        cmocka_unit_test(the_ladder_is_of_the_first_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

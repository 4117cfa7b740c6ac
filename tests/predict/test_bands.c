/* Bands: of times, judged row by row; of differences; and what was published. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "predict/bands.h"
#include "ir/segment.h"

static band_traits traits_of_row(const band_row *r)
{
    band_traits t = {.family = band_family(r->gpu), .gpu = r->gpu, .name = r->name, .seq = r->seq};
    for (int i = 0; i < BAND_FEATURES; i++) t.feature[i] = r->feature[i];
    return t;
}

static int by_size(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

/* Each published row by the others: more than four in five lie within, because a band also has what
 * rows of one's own differ by from all of these; and bands are narrow. */
static void bands_of_times_cover_rows_in_sight(void **state)
{
    (void)state;
    int n, covered = 0;
    const band_row *rows = band_rows(&n);
    double half[1024];
    assert_in_range(n, 90, 1024);
    for (int i = 0; i < n; i++) {
        band_traits t = traits_of_row(&rows[i]);
        half[i] = band_of_time(&t, i);
        assert_true(half[i] > 0 && half[i] < 0.5);
        covered += fabs(rows[i].error) <= half[i];
    }
    qsort(half, (size_t)n, sizeof half[0], by_size);
    assert_in_range(100 * covered / n, 80, 95);
    assert_true(half[n / 2] <= 0.14);
}

static void a_row_is_nearest_to_itself(void **state)
{
    (void)state;
    int n;
    const band_row *rows = band_rows(&n);
    for (int i = 0; i < n; i++) {
        band_traits t = traits_of_row(&rows[i]);
        assert_true(band_distance(&t, &rows[i]) == 0);
        for (int k = 0; k < n; k++) assert_true(band_distance(&t, &rows[k]) >= 0);
        t.family = 0;
        assert_true(band_distance(&t, &rows[i]) > 0);
    }
}

static void bands_of_differences_grow_with_the_knobs(void **state)
{
    (void)state;
    assert_true(band_of_difference(0) == 0);
    for (int n = 0; n < 12; n++) assert_true(band_of_difference(n + 1) > band_of_difference(n));
    assert_true(band_of_difference(1) > 0.06); /* 1.24 against a published 1.317 is no difference */
    assert_true(band_of_difference(1) < 0.15);
}

static void knobs_that_differ_are_counted(void **state)
{
    (void)state;
    int n;
    band_traits x = traits_of_row(&band_rows(&n)[0]), y = x;
    assert_int_equal(band_differences(&x, &y), 0);
    y.sizes[0] = 8;
    y.feature[BAND_GRAPHS] = "never";
    assert_int_equal(band_differences(&x, &y), 2);
}

static void support_is_what_somebody_ran_on_the_family(void **state)
{
    (void)state;
    assert_true(band_supports('H', BAND_DISPATCH, "deepep across", NULL));
    assert_true(band_supports('B', BAND_PRECISION, "mxfp8", NULL));
    assert_false(band_supports('H', BAND_PRECISION, "mxfp8", NULL));
    assert_false(band_supports('H', BAND_DISPATCH, "allgather across", NULL));
    assert_false(band_supports('H', BAND_GRAPHS, "full_iteration", NULL));
    assert_false(band_supports(0, BAND_PRECISION, "bf16", NULL));
    int n;
    const band_row *rows = band_rows(&n);
    for (int i = 0; i < n; i++) {
        band_traits t = traits_of_row(&rows[i]);
        assert_int_equal(band_unsupported(&t), BAND_FEATURES);
        t.feature[BAND_OVERLAP] = "never";
        assert_int_equal(band_unsupported(&t), BAND_OVERLAP);
    }
}

/* Paged stashing, which graphs of the full iteration need, came with 26.06. */
static void support_begins_with_a_container(void **state)
{
    (void)state;
    assert_true(band_supports('B', BAND_GRAPHS, "full_iteration", "26.08"));
    assert_true(band_supports('B', BAND_GRAPHS, "full_iteration", "26.06"));
    assert_false(band_supports('B', BAND_GRAPHS, "full_iteration", "26.04"));
    assert_false(band_supports('B', BAND_GRAPHS, band_full_iteration("bf16"), NULL));
    assert_true(band_supports('H', BAND_OVERLAP, "off", "25.09")); /* nothing is needed for it */
}

static void recompute_is_supported_by_module(void **state)
{
    (void)state;
    assert_true(band_supports_drops('B', 0, "25.09"));
    assert_true(band_supports_drops('B', DROP_MLA_UP_PROJ | DROP_MOE_ACT, NULL));
    assert_false(band_supports_drops('B', DROP_MLA_UP_PROJ | DROP_SHARED_EXPERTS, NULL));
    assert_true(band_supports_drops('H', DROP_SHARED_EXPERTS, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bands_of_times_cover_rows_in_sight),
        cmocka_unit_test(a_row_is_nearest_to_itself),
        cmocka_unit_test(bands_of_differences_grow_with_the_knobs),
        cmocka_unit_test(knobs_that_differ_are_counted),
        cmocka_unit_test(support_is_what_somebody_ran_on_the_family),
        cmocka_unit_test(support_begins_with_a_container),
        cmocka_unit_test(recompute_is_supported_by_module),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The headline figures of docs/ACCURACY.md, and the table of bands that ships: they are what
 * today's prices give. `make accuracy` writes both again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../bench/accuracy_bands.h"
#include "../../bench/accuracy_print.h"
#include "../../bench/accuracy_unseen.h"

static judging *judged_rows(void)
{
    static judging *b;
    error err = {{0}};
    if (b) return b;
    arena *a = arena_create();
    b = ARENA_NEW(a, judging);
    b->a = a;
    b->folder = "hardware";
    if (rows_read(b, &err) || rows_price(b, &err)) fail_msg("%s", err.text);
    return b;
}

static int close_rows(void **state)
{
    (void)state;
    arena_destroy(judged_rows()->a);
    return 0;
}

static numbers errors_of(row_list list)
{
    const judging *b = judged_rows();
    numbers errors = {0};
    for (int i = 0; i < b->n_rows; i++)
        if (judged_counts(&b->rows[i], list)) numbers_add(&errors, judged_error(&b->rows[i]));
    return errors;
}

static void the_accuracy_set_is_as_near_as_it_says(void **state)
{
    (void)state;
    numbers errors = errors_of(LIST_SET), size = numbers_absolute(&errors);
    assert_int_equal(errors.n, 79);
    assert_true(numbers_median(&size) <= 0.06);
    assert_true(numbers_within(&errors, 0.17) >= 0.9);
    assert_true(numbers_within(&errors, 0.25) >= 0.96);
}

/* Of rows that nothing was fitted to, by kind: how many there are, and how far off they may be. */
static void unseen_rows_are_as_near_as_it_says(void **state)
{
    (void)state;
    static const struct {
        const char *kind;
        int n;
        double median, nine_in_ten;
    } held[] = {{"moe", 22, 0.088, 0.44},
                {"older", 20, 0.112, 0.83},
                {"dense", 57, 0.072, 0.13},
                {"memory", 42, 0.075, 0.13}};
    judging *b = judged_rows();
    error err = {{0}};
    if (unseen_read(b, &err)) fail_msg("%s", err.text);
    for (size_t i = 0; i < sizeof held / sizeof held[0]; i++) {
        numbers errors = {0};
        for (const judged *j = b->unseen; j < b->unseen + b->n_unseen; j++)
            if (unseen_counts(j) && unseen_is(b, j, held[i].kind))
                numbers_add(&errors, unseen_error(j));
        numbers size = numbers_absolute(&errors);
        assert_int_equal(errors.n, held[i].n);
        assert_true(numbers_median(&size) <= held[i].median);
        assert_true(numbers_nine_in_ten(&errors) <= held[i].nine_in_ten);
    }
}

static void dense_models_are_as_near(void **state)
{
    (void)state;
    numbers errors = errors_of(LIST_DENSE), size = numbers_absolute(&errors);
    assert_int_equal(errors.n, 37);
    assert_true(numbers_median(&size) <= 0.06);
    assert_true(numbers_within(&errors, 0.12) >= 0.9);
}

static void models_are_in_order(void **state)
{
    (void)state;
    assert_true(print_ranks(judged_rows(), false) >= 0.925);
}

static void what_was_run_fits(void **state)
{
    (void)state;
    const judging *b = judged_rows();
    int n = 0;
    for (int i = 0; i < b->n_rows; i++) {
        const judged *j = &b->rows[i];
        if (!judged_counts(j, LIST_SET)) continue;
        if (!j->pr.fits)
            fail_msg("%s: %.1f GiB, and that is too much", j->id,
                     (double)j->pr.peak_bytes / 1073741824.0);
        n++;
    }
    assert_int_equal(n, 79);
}

/* Prices that move must be judged again: bands.def would be of other ones. */
static void the_table_of_bands_is_of_these_prices(void **state)
{
    (void)state;
    const judging *b = judged_rows();
    int n, at = 0;
    const band_row *rows = band_rows(&n);
    for (int i = 0; i < b->n_rows; i++) {
        const judged *j = &b->rows[i];
        if (!band_counts(j)) continue;
        assert_true(at < n);
        if (strcmp(rows[at].id, j->id) != 0 || fabs(rows[at].error - band_error(j)) > 1e-3)
            fail_msg("%s: %.4f, bands.def has %s with %.4f: run make accuracy", j->id,
                     band_error(j), rows[at].id, rows[at].error);
        at++;
    }
    assert_int_equal(at, n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_accuracy_set_is_as_near_as_it_says),
        cmocka_unit_test(unseen_rows_are_as_near_as_it_says),
        cmocka_unit_test(dense_models_are_as_near),
        cmocka_unit_test(models_are_in_order),
        cmocka_unit_test(what_was_run_fits),
        cmocka_unit_test(the_table_of_bands_is_of_these_prices),
    };
    return cmocka_run_group_tests(tests, NULL, close_rows);
}

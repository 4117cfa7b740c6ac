/* test_data_split.c - split texts to ranges, against Megatron's. */
#include "train/test_data_golden.h"

static void check_range(const split_ends *ends, data_split which, const char *n, const json_t *want)
{
    split_range r = split_of(ends, which, strtoll(n, NULL, 10));
    assert_int_equal(r.begin, item_of(want, 0));
    assert_int_equal(r.end, item_of(want, 1));
}

static void splits_are_megatrons(void **state)
{
    (void)state;
    json_t *root = orders_read(), *list = json_object_get(root, "splits"), *lists;
    assert_true(length_of(list) >= 8);
    for (int64_t i = 0; i < length_of(list); i++) {
        const json_t *want = json_array_get(list, (size_t)i);
        json_t *ranges = json_object_get(want, "ranges");
        split_ends ends;
        error err = {{0}};
        const char *n;
        assert_int_equal(split_parse(&ends, text_of(want, "split"), &err), OK);
        for (data_split k = DATA_TRAIN; k < DATA_SPLITS; k++) {
            const json_t *m = json_array_get(json_object_get(want, "matrix"), k);
            assert_int_equal(ends.present[k], json_is_array(m));
            if (!ends.present[k]) continue;
            assert_true(ends.begin[k] == json_number_value(json_array_get(m, 0)));
            assert_true(ends.end[k] == json_number_value(json_array_get(m, 1)));
            json_object_foreach(ranges, n, lists)
                check_range(&ends, k, n, json_array_get(lists, k));
        }
    }
    json_decref(root);
}

static void odd_splits_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *said; /* NULL: taken */
    } rows[] = {
        {"969, 30, 1", NULL},      {"1", NULL},
        {" 90/10 ", NULL},         {".5,.25,.25", NULL},
        {"", "nothing"},           {"0,0,0", "nothing"},
        {"a,b", "nothing"},        {"1,2,3,4", "three"},
        {"1.2.3", "not a number"}, {".", "not a number"},
        {"1,.,1", "not a number"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        split_ends ends;
        error err = {{0}};
        status s = split_parse(&ends, rows[i].text, &err);
        assert_int_equal(s, rows[i].said ? ERR_INPUT : OK);
        if (rows[i].said) assert_has(err.text, rows[i].said);
    }
    char nines[400];
    split_ends ends;
    error err = {{0}};
    memset(nines, '9', sizeof nines);
    nines[sizeof nines - 1] = 0;
    assert_int_equal(split_parse(&ends, nines, &err), ERR_INPUT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(splits_are_megatrons),
        cmocka_unit_test(odd_splits_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_data_random.c - numpy's numbers: those of orders.json, and some taken from numpy 2.4.6. */
#include "train/test_data_golden.h"

#include "train/data/numpy.h"

static void assert_shuffled(numpy_state *r, const json_t *want)
{
    uint32_t items[16];
    int64_t n = length_of(want);
    for (int64_t i = 0; i < n; i++) items[i] = (uint32_t)i;
    numpy_shuffle32(r, items, n);
    for (int64_t i = 0; i < n; i++) assert_int_equal(items[i], item_of(want, i));
}

static void random_state_is_numpys(void **state)
{
    (void)state;
    json_t *root = orders_read(), *list = json_object_get(root, "random_state");
    assert_true(length_of(list) >= 5);
    for (int64_t i = 0; i < length_of(list); i++) {
        const json_t *want = json_array_get(list, (size_t)i);
        const json_t *first = json_object_get(want, "first_uint32");
        numpy_state r;
        numpy_seed(&r, (uint32_t)int_of(want, "seed"));
        for (int64_t k = 0; k < length_of(first); k++)
            assert_int_equal(numpy_next(&r), item_of(first, k));
        numpy_seed(&r, (uint32_t)int_of(want, "seed"));
        assert_shuffled(&r, json_object_get(want, "shuffle_arange_12"));
        assert_shuffled(&r, json_object_get(want, "then_shuffle_arange_5"));
    }
    json_decref(root);
}

/* RandomState(7).randint(0, max + 1, dtype=int64) */
static void intervals_beyond_32_bits_are_numpys(void **state)
{
    (void)state;
    static const struct {
        uint64_t max, want[4];
    } rows[] = {
        {99, {47, 68, 25, 67}},
        {((uint64_t)1 << 32) + 12344, {1322904761, 1133316631, 372560217, 1801189930}},
        {((uint64_t)3 << 40) - 1, {752595690692, 2307767413238, 2490987499731, 1495971523769}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        numpy_state r;
        numpy_seed(&r, 7);
        for (int k = 0; k < 4; k++) assert_true(numpy_interval(&r, rows[i].max) == rows[i].want[k]);
    }
}

static void width_of_items_changes_no_order(void **state)
{
    (void)state;
    enum { N = 5000 };
    static uint32_t narrow[N];
    static uint64_t wide[N];
    numpy_state r, s;
    numpy_seed(&r, 99);
    numpy_seed(&s, 99);
    for (uint32_t i = 0; i < N; i++) wide[i] = narrow[i] = i;
    numpy_shuffle32(&r, narrow, N);
    numpy_shuffle64(&s, wide, N);
    for (int i = 0; i < N; i++) assert_true(wide[i] == narrow[i]);
    numpy_shuffle32(&r, narrow, 0); /* nothing to do, nothing spent */
    numpy_shuffle32(&r, narrow, 1);
    assert_int_equal(numpy_next(&r), numpy_next(&s));
}

/* default_rng(12345).integers(0, 3000000000, dtype=uint32): a bound that rejects often */
static void bounded_integers_are_numpys(void **state)
{
    (void)state;
    static const uint32_t want[] = {2097645094, 682008066,  2365940964, 950275018,
                                    2392096371, 2028764011, 2518275128, 1794926260};
    numpy_pcg g;
    numpy_pcg_seed(&g, 12345);
    for (int i = 0; i < 8; i++) assert_int_equal(numpy_pcg_below(&g, 3000000000u), want[i]);
}

/* numpy.sum of 1, 1/2, 1/3, ...; from 128 on, adding one by one gives another last bit */
static void sums_are_numpys(void **state)
{
    (void)state;
    static const struct {
        int n;
        double want;
    } rows[] = {
        {7, 0x1.4be2be2be2be2p+1},   {8, 0x1.5be2be2be2be2p+1},   {15, 0x1.a8bbba47475d4p+1},
        {100, 0x1.4bfdfe4591243p+2}, {128, 0x1.5bb8ae9541ca7p+2}, {129, 0x1.5c37b09149ba9p+2},
        {136, 0x1.5f9633591b269p+2}, {300, 0x1.92172a3e6965ap+2},
    };
    double v[300];
    for (int i = 0; i < 300; i++) v[i] = 1.0 / (i + 1);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_true(numpy_sum(v, rows[i].n) == rows[i].want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_state_is_numpys),
        cmocka_unit_test(intervals_beyond_32_bits_are_numpys),
        cmocka_unit_test(width_of_items_changes_no_order),
        cmocka_unit_test(bounded_integers_are_numpys),
        cmocka_unit_test(sums_are_numpys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_data_order.c - indices and samples, against those that Megatron's code computed. */
#include "train/test_data_golden.h"

static data_split split_named(const char *name)
{
    for (int i = 0; i < DATA_SPLITS; i++)
        if (strcmp(data_split_names[i], name) == 0) return (data_split)i;
    fail_msg("no split '%s'", name);
    return DATA_TRAIN;
}

static void assert_set(const data_source *d, const json_t *set)
{
    data_split which = split_named(text_of(set, "split"));
    const json_t *documents = json_object_get(set, "document_index");
    const json_t *rows = json_object_get(set, "sample_index");
    const json_t *shuffle = json_object_get(set, "shuffle_index");
    const data_index *x = data_member(d, which, 0);
    assert_index(x, set);
    assert_int_equal(length_of(documents), x->n_entries);
    assert_int_equal(length_of(rows), x->n_samples + 1);
    assert_int_equal(length_of(shuffle), x->n_samples);
    assert_int_equal(data_length(d, which), x->n_samples);
    assert_orders(x, documents, rows, shuffle);
    assert_samples(d, which, json_object_get(set, "samples"));
}

static void check_case(const json_t *c, const json_t *root, bool read_bin)
{
    arena *a = arena_create();
    data_options o = options_of(c, root);
    const char *path = arena_text(a, MEGATRON_DATA "%s", text_of(c, "file"));
    o.paths.list = &path;
    o.paths.n = 1;
    o.read_bin = read_bin;
    data_source *d = opened(&o, a);
    const json_t *sets = json_object_get(c, "sets");
    assert_true(length_of(sets) > 0);
    for (int64_t i = 0; i < length_of(sets); i++) assert_set(d, json_array_get(sets, (size_t)i));
    data_close(d);
    arena_destroy(a);
}

static void orders_and_samples_are_megatrons(void **state)
{
    (void)state;
    json_t *root = orders_read(), *cases = json_object_get(root, "cases");
    assert_true(length_of(cases) >= 16);
    for (int64_t i = 0; i < length_of(cases); i++) {
        check_case(json_array_get(cases, (size_t)i), root, false);
        check_case(json_array_get(cases, (size_t)i), root, true);
    }
    json_decref(root);
}

/* ---- the attention mask that the pieces stand for */

static int piece_of(const data_item *item, int token)
{
    int p = 0;
    while (item->cu_seqlens[p + 1] <= token) p++;
    return p;
}

static void assert_mask(const data_item *item, const json_t *rows)
{
    int n = (int)length_of(rows);
    for (int q = 0; q < n; q++) {
        const char *row = json_string_value(json_array_get(rows, (size_t)q));
        for (int k = 0; k < n; k++) {
            bool hidden = k > q || piece_of(item, k) != piece_of(item, q);
            assert_int_equal(row[k] == '1', hidden);
        }
    }
}

static void pieces_hide_what_megatrons_mask_hides(void **state)
{
    (void)state;
    json_t *root = orders_read(), *cases = json_object_get(root, "cases");
    int compared = 0;
    for (int64_t i = 0; i < length_of(cases); i++) {
        const json_t *c = json_array_get(cases, (size_t)i);
        if (strcmp(text_of(c, "name"), "eod-options") != 0) continue;
        arena *a = arena_create();
        data_options o = options_of(c, root);
        o.paths.list = (const char *[]){MEGATRON_DATA "a-i32"};
        o.paths.n = 1;
        data_source *d = opened(&o, a);
        const json_t *set = json_array_get(json_object_get(c, "sets"), 0);
        const json_t *samples = json_object_get(set, "samples");
        for (int64_t k = 0; k < length_of(samples); k++) {
            const json_t *rows =
                json_object_get(json_array_get(samples, (size_t)k), "attention_mask_rows");
            roomy_item r;
            item_read(&r, d, DATA_TRAIN, k);
            if (rows) assert_mask(&r.item, rows), compared++;
        }
        data_close(d);
        arena_destroy(a);
    }
    assert_true(compared >= 2);
    json_decref(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(orders_and_samples_are_megatrons),
        cmocka_unit_test(pieces_hide_what_megatrons_mask_hides),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

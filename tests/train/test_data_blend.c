/* test_data_blend.c - blends against Megatron's, lists of weights and paths, and refusals. */
#include "train/test_data_golden.h"

/* ---- Megatron's blends */

/* Words as a user writes them: "weight path" or "path". */
static int words_of(const char **words, arena *a, const json_t *want)
{
    const json_t *prefixes = json_object_get(want, "prefixes");
    const json_t *weights = json_object_get(want, "weights");
    int n = 0;
    for (size_t i = 0; i < json_array_size(prefixes); i++) {
        double w = json_number_value(json_array_get(weights, i));
        if (json_is_array(weights)) words[n++] = arena_text(a, "%.17g", w);
        words[n++] =
            arena_text(a, MEGATRON_DATA "%s", json_string_value(json_array_get(prefixes, i)));
    }
    return n;
}

static void check_members(const data_source *d, const json_t *want)
{
    const json_t *asked = json_object_get(want, "num_samples_of_each");
    const json_t *built = json_object_get(want, "length_of_each");
    assert_int_equal(data_members(d, DATA_TRAIN), length_of(asked));
    for (int i = 0; i < data_members(d, DATA_TRAIN); i++) {
        const json_t *n = json_array_get(asked, (size_t)i);
        const data_index *x = data_member(d, DATA_TRAIN, i);
        assert_int_equal(x->ask.n_samples, json_is_null(n) ? DATA_ALL : json_integer_value(n));
        assert_int_equal(x->n_samples, item_of(built, i));
    }
}

static void check_blend(const json_t *want, const json_t *root)
{
    arena *a = arena_create();
    const char *words[16];
    data_options o = options_of(want, root);
    o.paths.list = words;
    o.paths.n = words_of(words, a, want);
    data_source *d = opened(&o, a);
    const data_blend *b = data_blend_of(d, DATA_TRAIN);
    const json_t *members = json_object_get(want, "dataset_index");
    const json_t *samples = json_object_get(want, "dataset_sample_index");
    check_members(d, want);
    assert_non_null(b);
    assert_int_equal(b->length, int_of(want, "length"));
    assert_int_equal(data_length(d, DATA_TRAIN), b->length);
    assert_int_equal(length_of(members), b->length);
    for (int64_t k = 0; k < b->length; k++) {
        assert_int_equal(b->member[k], item_of(members, k));
        assert_int_equal(b->sample[k], item_of(samples, k));
    }
    assert_samples(d, DATA_TRAIN, json_object_get(want, "samples"));
    data_close(d);
    arena_destroy(a);
}

static void blends_are_megatrons(void **state)
{
    (void)state;
    json_t *root = orders_read(), *list = json_object_get(root, "blends");
    assert_true(length_of(list) >= 4);
    for (int64_t i = 0; i < length_of(list); i++)
        check_blend(json_array_get(list, (size_t)i), root);
    json_decref(root);
}

static void weights_are_divided_by_their_sum(void **state)
{
    (void)state;
    json_t *root = orders_read(), *list = json_object_get(root, "blends");
    for (int64_t i = 0; i < length_of(list); i++) {
        const json_t *want = json_array_get(list, (size_t)i);
        const json_t *used = json_object_get(want, "blend_weights");
        if (json_is_null(json_object_get(want, "weights"))) continue;
        arena *a = arena_create();
        const char *words[16];
        blend_list l;
        error err = {{0}};
        assert_int_equal(blend_parse(&l, a, words, words_of(words, a, want), &err), OK);
        for (int k = 0; k < l.n; k++)
            assert_true(l.weights[k] == json_number_value(json_array_get(used, (size_t)k)));
        arena_destroy(a);
    }
    json_decref(root);
}

/* ---- lists */

static void pairs_are_recognised_as_megatron_does(void **state)
{
    (void)state;
    static const struct {
        const char *words[6];
        int n; /* of the list; 0: refused */
        bool weighted;
        const char *first; /* path, or what is said */
    } rows[] = {
        {{"a"}, 1, false, "a"},
        {{" a ", "b"}, 2, false, "a"},
        {{"a", "b", "c"}, 3, false, "a"},
        {{"30", "a", "70", "b"}, 2, true, "a"},
        {{" 30 ", " a ", "7e1", "b"}, 2, true, "a"},
        {{"1", "a"}, 1, true, "a"},
        {{".5", "1", "2.", "2"}, 2, true, "1"}, /* paths may be numbers where weights are */
        {{"0x10", "a"}, 2, false, "0x10"},      /* Python has no such floats */
        {{"30", "a", "b"}, 0, false, "looks like a weight"},
        {{"30", "a", "x", "b"}, 0, false, "looks like a weight"},
        {{"a", "30"}, 0, false, "looks like a weight"},
        {{"0", "a", "1", "b"}, 0, false, "positive"},
        {{"-1", "a", "1", "b"}, 0, false, "positive"},
        {{"nan", "a", "1", "b"}, 0, false, "positive"},
        {{"inf", "a", "1", "b"}, 0, false, "positive"},
        {{"1e308", "a", "1e308", "b"}, 0, false, "too large"},
        {{"1e-300", "a", "1e300", "b"}, 0, false, "too small relative to"},
        {{NULL}, 0, false, "names 0 sets"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        arena *a = arena_create();
        int n_words = 0;
        blend_list l = {0};
        error err = {{0}};
        while (n_words < 6 && rows[i].words[n_words]) n_words++;
        status s = blend_parse(&l, a, rows[i].words, n_words, &err);
        assert_int_equal(s, rows[i].n ? OK : ERR_INPUT);
        assert_int_equal(l.n, rows[i].n);
        if (s)
            assert_has(err.text, rows[i].first);
        else
            assert_string_equal(l.prefixes[0], rows[i].first);
        assert_int_equal(l.weights != NULL, rows[i].weighted);
        arena_destroy(a);
    }
}

/* ---- the mix */

static void shares_are_kept_at_every_moment(void **state)
{
    (void)state;
    const double weights[] = {0.05, 0.2, 0.75};
    const int64_t sizes[] = {1000, 1000, 1000};
    data_blend b;
    error err = {{0}};
    blend_ask ask = {3, weights, sizes, 1000, "train"};
    assert_int_equal(blend_init(&b, &ask, &err), OK);
    int64_t used[3] = {0};
    for (int64_t k = 0; k < b.length; k++) {
        assert_int_equal(b.sample[k], used[b.member[k]]++);
        for (int i = 0; i < 3; i++) {
            double ahead = (double)used[i] - weights[i] * (double)(k + 1);
            assert_true(ahead < 2 && ahead > -2);
        }
    }
    blend_release(&b);
}

static void exhaustive_blend_reads_every_sample_once(void **state)
{
    (void)state;
    const int64_t sizes[] = {1, 17, 5, 100};
    int64_t used[4] = {0};
    data_blend b;
    error err = {{0}};
    blend_ask ask = {4, NULL, sizes, -1, "train"};
    assert_int_equal(blend_init(&b, &ask, &err), OK);
    assert_int_equal(b.length, 123);
    for (int64_t k = 0; k < b.length; k++) assert_int_equal(b.sample[k], used[b.member[k]]++);
    for (int i = 0; i < 4; i++) assert_int_equal(used[i], sizes[i]);
    blend_release(&b);
}

static void a_member_that_is_too_small_is_named(void **state)
{
    (void)state;
    const double weights[] = {0.5, 0.5};
    const int64_t sizes[] = {100, 9};
    data_blend b;
    error err = {{0}};
    blend_ask ask = {2, weights, sizes, 20, "valid"};
    assert_int_equal(blend_init(&b, &ask, &err), ERR_INPUT);
    assert_has(err.text, "valid blend");
    assert_has(err.text, "its set 1, which has 9");
    assert_has(err.text, "mid_level_dataset_surplus");
}

static void one_path_with_a_weight_is_built_with_surplus(void **state)
{
    (void)state;
    arena *a = arena_create();
    data_options o = data_defaults();
    o.paths.list = (const char *[]){"2", MEGATRON_DATA "a-i32"};
    o.paths.n = 2;
    o.split = "1";
    o.seq_length = 16;
    o.vocab_size = 1000;
    o.n_samples[DATA_TRAIN] = 81;
    data_source *d = opened(&o, a);
    assert_int_equal(data_length(d, DATA_TRAIN), 81);
    assert_int_equal(data_member(d, DATA_TRAIN, 0)->ask.n_samples, 82);
    assert_int_equal(data_member(d, DATA_TRAIN, 0)->n_epochs, 2); /* 81 alone would need one */
    data_close(d);
    o.n_samples[DATA_TRAIN] = DATA_ALL;
    error err = {{0}};
    assert_int_equal(data_open(&d, &o, a, &err), ERR_INPUT);
    assert_has(err.text, "has weights");
    arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blends_are_megatrons),
        cmocka_unit_test(weights_are_divided_by_their_sum),
        cmocka_unit_test(pairs_are_recognised_as_megatron_does),
        cmocka_unit_test(shares_are_kept_at_every_moment),
        cmocka_unit_test(exhaustive_blend_reads_every_sample_once),
        cmocka_unit_test(a_member_that_is_too_small_is_named),
        cmocka_unit_test(one_path_with_a_weight_is_built_with_surplus),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

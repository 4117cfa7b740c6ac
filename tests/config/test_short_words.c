/* Short words and units: tp=8, TP8 and seq=128K mean what their long forms mean; what is near is
 * suggested, what is not is not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/file.h"
#include "config/megatron_table.h"
#include "config/recipe.h"

typedef struct fixture {
    arena *a;
    recipe r;
} fixture;

static int start(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    if (!f) return -1;
    f->a = arena_create();
    recipe_init(&f->r, f->a, "test");
    *state = f;
    return 0;
}

static int end(void **state)
{
    fixture *f = *state;
    arena_destroy(f->a);
    free(f);
    return 0;
}

static void sizes_have_units(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t size;
    } good[] = {{"8", 8},        {"128K", 131072}, {"128k", 131072},
                {"2M", 2 << 20}, {"1_000", 1000},  {"0", 0},
                {"1K", 1024},    {"4096", 4096},   {"9223372036854775807", INT64_MAX}};
    static const char *const bad[] = {"",
                                      "K",
                                      "128KB",
                                      "1.5K",
                                      "-1",
                                      "+1",
                                      "0x10",
                                      "128 K",
                                      "128G",
                                      "12K4",
                                      "_1",
                                      "1e3",
                                      "m",
                                      "2m",
                                      "9223372036854775808",
                                      "9223372036854775807K"};
    int64_t n;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        n = -1;
        if (!value_size(good[i].text, &n)) fail_msg("%s", good[i].text);
        assert_true(n == good[i].size);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (value_size(bad[i], &n)) fail_msg("%s was taken", bad[i]);
}

static void every_short_name_is_its_knob(void **state)
{
    fixture *f = *state;
    static const struct {
        const char *word;
        knob_id k;
        int64_t n;
    } words[] = {
        {"tp=8", K_TP, 8},   {"cp=4", K_CP, 4},         {"ep=64", K_EP, 64},
        {"pp=8", K_PP, 8},   {"vpp=4", K_VPP, 4},       {"etp=1", K_ETP, 1},
        {"mbs=1", K_MBS, 1}, {"gbs=2048", K_GBS, 2048}, {"seq=128K", K_SEQ, 131072},
        {"TP=2", K_TP, 2},   {"gbs=2K", K_GBS, 2048},   {"model.seq_length=64K", K_SEQ, 65536}};
    error err = {{0}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (recipe_override(&f->r, words[i].word, "test", &err)) fail_msg("%s", err.text);
        assert_true(recipe_int(&f->r, words[i].k) == words[i].n);
    }
    assert_int_equal(f->r.n_aliases, 0);
}

static void a_name_and_a_number_are_one_word(void **state)
{
    fixture *f = *state;
    assert_string_equal(knob_short_word(f->a, "TP8"), "tp=8");
    assert_string_equal(knob_short_word(f->a, "seq128K"), "seq=128K");
    assert_string_equal(knob_short_word(f->a, "vpp4"), "vpp=4");
    static const char *const none[] = {"TP",   "8",   "",     "tiny",    "TP8x",
                                       "H100", "dp8", "tp-8", "TP8.yaml"};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
        if (knob_short_word(f->a, none[i])) fail_msg("%s was taken", none[i]);
}

static void files_take_them_too(void **state)
{
    fixture *f = *state;
    static const char text[] = "tp: 8\nmodel:\n  seq_length: 128K\n  window_size: [1K, 0]\n";
    error err = {{0}};
    if (recipe_parse_yaml(&f->r, "x.yaml", text, strlen(text), &err)) fail_msg("%s", err.text);
    assert_int_equal(recipe_int(&f->r, K_TP), 8);
    assert_int_equal(recipe_int(&f->r, K_SEQ), 131072);
    assert_int_equal(recipe_item(&f->r, K_WINDOW, 0).whole, 1024);
}

static void units_are_for_whole_numbers(void **state)
{
    fixture *f = *state;
    error err = {{0}};
    assert_int_equal(recipe_override(&f->r, "optimizer.lr=1K", "test", &err), ERR_INPUT);
    assert_int_equal(recipe_override(&f->r, "tp=8G", "test", &err), ERR_INPUT);
    assert_non_null(strstr(err.text, "model.tensor_model_parallel_size=8G"));
    assert_non_null(strstr(err.text, "whole number"));
    if (recipe_override(&f->r, "dataset.data_path=128K", "test", &err)) fail_msg("%s", err.text);
    assert_true(recipe_has(&f->r, K_DATA_PATH, "128K"));
}

static void only_what_is_near_is_suggested(void **state)
{
    fixture *f = *state;
    static const char *const far[] = {"--foo", "--gpu", "--xyz", "--frobnicate", "--q"};
    for (size_t i = 0; i < sizeof far / sizeof far[0]; i++) {
        const char *near = flag_nearest(f->a, far[i]);
        if (near) fail_msg("%s is not near %s", near, far[i]);
    }
    assert_string_equal(flag_nearest(f->a, "--seq-lenght"), "--seq-length");
    assert_string_equal(flag_nearest(f->a, "--LR"), "--lr");
    assert_null(knob_nearest("model.zzz"));
    assert_null(knob_nearest("foo"));
    assert_string_equal(knob_nearest("model.sequence_paralel"), "model.sequence_parallel");
    static const char *const names[] = {"H100", "B200", "cpu"};
    assert_null(text_nearest("V9", names, 3));
    assert_null(text_nearest("x", names, 3));
    assert_string_equal(text_nearest("h10", names, 3), "H100");
}

static void missing_files_have_neighbours(void **state)
{
    fixture *f = *state;
    assert_string_equal(file_nearest(f->a, "recipes/dsv3-128-h100.yaml"),
                        "recipes/dsv3-128k-h100.yaml");
    assert_string_equal(file_nearest(f->a, "Makefil"), "Makefile");
    assert_null(file_nearest(f->a, "recipes/quite-another"));
    assert_null(file_nearest(f->a, "nowhere/at/all"));
    char *data;
    size_t n;
    error err = {{0}};
    assert_int_equal(file_read(f->a, "hardware/h10.yaml", 100, &data, &n, &err), ERR_INPUT);
    assert_non_null(strstr(err.text, "hardware/h100.yaml"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(sizes_have_units, start, end),
        cmocka_unit_test_setup_teardown(every_short_name_is_its_knob, start, end),
        cmocka_unit_test_setup_teardown(a_name_and_a_number_are_one_word, start, end),
        cmocka_unit_test_setup_teardown(files_take_them_too, start, end),
        cmocka_unit_test_setup_teardown(units_are_for_whole_numbers, start, end),
        cmocka_unit_test_setup_teardown(only_what_is_near_is_suggested, start, end),
        cmocka_unit_test_setup_teardown(missing_files_have_neighbours, start, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

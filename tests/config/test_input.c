/* test_input.c - a recipe of ours and an input of Megatron-LM are told apart by their content. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "config/input.h"

static void flags_make_an_input_of_megatron(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool megatron;
    } cases[] = {
        {"--num-layers 2", true},
        {"torchrun pretrain_gpt.py \\\n  --num-layers=2", true},
        {"# a list\n\n--bf16\n", true},
        {"ARGS=(--bf16\n)", true},
        {"ARGS=\"--bf16 $MORE\"", true},
        {"MODEL_ARGS:\n  --num-layers: 2\n", true},
        {"model:\n  num_layers: 2\n", false},
        {"# from --num-layers 2\nmodel:\n  num_layers: 2 # --bf16\n", false},
        {"---\nmodel: {num_layers: 2}\n", false},
        {"dataset:\n  data_path: a--b\n", false},
        {"train: {lr: -1, split: '--'}\n", false},
        {"checkpoint:\n  save: \"--load\"\n", false},
        {"# ours\n---\nmoefold:\n  model: tiny\ncheckpoint:\n  save: --load\n", false},
        {"model:\n  a: 1\nMODEL_ARGS:\n  --num-layers: 2\n", true},
        {"ENV_VARS:\n  A: 1\nMODEL_ARGS:\n  --num-layers: 2\n", true},
        {"", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (input_is_megatron(cases[i].text, strlen(cases[i].text)) != cases[i].megatron)
            fail_msg("%s", cases[i].text);
}

static void both_are_read(void **state)
{
    (void)state;
    arena *a = arena_create();
    error err = {{0}};
    recipe *r = ARENA_NEW(a, recipe);
    recipe_init(r, a, "list");
    assert_int_equal(input_read(r, "tests/data/megatron/mixtral_8x7b.txt", NULL, &err), OK);
    assert_true(recipe_is_lm(r));
    assert_int_equal(recipe_int(r, K_EXPERTS), 8);
    recipe_init(r, a, "recipe");
    assert_int_equal(input_read(r, "recipes/qwen3-30b-4k-h100.yaml", NULL, &err), OK);
    assert_false(recipe_is_lm(r));
    assert_int_equal(recipe_int(r, K_GBS), 1024);
    recipe_init(r, a, "nothing");
    assert_int_equal(input_read(r, "tests/data/no-such-file", NULL, &err), ERR_INPUT);
    arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flags_make_an_input_of_megatron),
        cmocka_unit_test(both_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

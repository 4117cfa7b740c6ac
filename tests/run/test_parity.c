/* test_parity.c - every reference case, with fast and with plain kernels, whole and in
 * microbatches. */
#include "../program/testing.h"

#include <stdio.h>

#include "kernels/kernels.h"
#include "run/parity.h"

static void agrees(const char *folder, const char *words, bool plain, int steps)
{
    arena *a = arena_create();
    recipe *r = ARENA_NEW(a, recipe);
    error err = {{0}};
    recipe_init(r, a, folder);
    status s = parity_recipe(r, folder, &err);
    if (!s && *words) s = recipe_override(r, words, "test", &err);
    if (!s) s = model_fill(r, &err);
    parity_result result = {0};
    if (!s)
        s = parity_run(&result, r, folder, &(parity_options){.plain = plain, .max_steps = steps},
                       &err);
    if (s) fail_msg("%s: %s", folder, err.text);
    if (!result.ok)
        fail_msg("%s %s: loss %g logits %g gradients %g (%s) curve %g", folder, words,
                 result.loss_rel_err, result.logits_rel_err, result.grad_rel_err_max,
                 result.grad_worst, result.curve_rel_err_max);
    assert_true(result.n_gradients > 20);
    arena_destroy(a);
}

static void fast_kernels_agree_with_transformers(void **state)
{
    (void)state;
    for (int c = 0; c < N_FAMILY_CASES; c++) agrees(family_cases[c], "", false, 0);
}

static void plain_kernels_agree_with_transformers(void **state)
{
    (void)state;
    for (int c = 0; c < N_FAMILY_CASES; c++) agrees(family_cases[c], "", true, 1);
}

static void a_batch_in_one_piece_agrees(void **state)
{
    (void)state;
    for (int c = 0; c < N_FAMILY_CASES; c++)
        agrees(family_cases[c], "train.micro_batch_size=2", false, 2);
}

int main(void)
{
    kernels_threads(2);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fast_kernels_agree_with_transformers),
        cmocka_unit_test(plain_kernels_agree_with_transformers),
        cmocka_unit_test(a_batch_in_one_piece_agrees),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

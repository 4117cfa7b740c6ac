/* test_parity.c - every reference case, with fast and with plain kernels, whole and in
 * microbatches, on one rank and on several. */
#include "parity_testing.h"

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

/* One dimension at a time; DP is what is left. */
static void two_ranks_agree(void **state)
{
    (void)state;
    static const char *const layouts[] = {N(2), N(2) TP2 ETP1, N(2) CP2, N(2) PP2, N(2) EP2};
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        agrees_on(2, "tests/data/golden/qwen3-moe-tiny", layouts[i]);
        agrees_on(2, "tests/data/golden/deepseek-v3-tiny", layouts[i]);
    }
    agrees_on(2, "tests/data/golden/mtp-tiny", N(2) CP2);
}

static void eight_ranks_agree(void **state)
{
    (void)state;
    agrees_on(8, "tests/data/golden/qwen3-moe-tiny", N(8) TP2 CP2 PP2 EP4 ETP1);
    agrees_on(8, "tests/data/golden/deepseek-v3-tiny", N(8) TP2 CP2 PP2 EP4 ETP1);
}

int main(void)
{
    kernels_threads(2);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fast_kernels_agree_with_transformers),
        cmocka_unit_test(plain_kernels_agree_with_transformers),
        cmocka_unit_test(a_batch_in_one_piece_agrees),
        cmocka_unit_test(two_ranks_agree),
        cmocka_unit_test(eight_ranks_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

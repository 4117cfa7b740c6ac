/* Sequence chunks without OpenBLAS: every token's numbers are the same sums in the same order, so
 * the loss of the first step is the same to the bit, whatever is recomputed, dropped or sent. */
#include "train/chunks_testing.h"

static void chunks_change_no_bit_of_the_forward(void **state)
{
    (void)state;
    static const int chosen[] = {1, 3, 4, 7};
    arena *a = arena_create();
    int ran = 0;
    for (int c = 0; c < 2; c++)
        for (int k = 0; k < 4; k++) {
            const char *words = layouts[chosen[k]];
            if (!rig_is_legal(family_cases[c], arena_text(a, CHUNKS "%s", words), a)) continue;
            compare_chunks(family_cases[c], words, true, a);
            ran++;
        }
    assert_true(ran >= 6);
    arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(chunks_change_no_bit_of_the_forward)};
    setenv("MOEFOLD_OPENBLAS", "none", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

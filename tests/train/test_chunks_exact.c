/* Sequence chunks without OpenBLAS: every token's numbers are the same sums in the same order, so
 * the loss of the first step is the same to the bit, whatever is recomputed, dropped or sent. */
#include "train/chunks_testing.h"

#include "train/bits_testing.h"

static void same_first_loss(const char *folder, const char *words, arena *a)
{
    static bits off[RIG_RANKS_MAX], on[RIG_RANKS_MAX];
    int n = run_bits(off, folder, common_words(a, arena_text(a, LOSSES ROOM "%s", words)));
    run_bits(on, folder, common_words(a, arena_text(a, LOSSES ROOM CHUNKS "%s", words)));
    for (int i = 0; i < n; i++)
        if (on[i].g.loss[0] != off[i].g.loss[0] || !(on[i].g.loss[0] > 0))
            fail_msg("%s %s: rank %d: the first loss is %.17g, not %.17g", folder, words, i,
                     on[i].g.loss[0], off[i].g.loss[0]);
    free_bits(off, n), free_bits(on, n);
}

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
            same_first_loss(family_cases[c], words, a);
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

/* test_fusion_quant.c - fusions that end with QUANTISE: the same gradients to the bit as
 * without them in every scaling and over layouts; every planned byte touched.
 *
 * Scalings with a factor of the whole tensor (tensorwise, NVFP4) have no such fusion, because the
 * factor comes from the maximum of what would no longer be written: their programs must not
 * change. */
#include "train/layout_rig.c"

#include "ir/casts_testing.h"

#define EVEN M "moe_router_force_load_balancing=true moefold.moe_buffer_factor=4 "

static const struct {
    const char *model, *words;
} layouts[] = {
    {CASE("qwen3-moe"), RANKS(1)},
    {CASE("deepseek-v3"), SOME RANKS(1)},
    {CASE("qwen3-moe"), FULL EP2 A2A RANKS(2)},
    {CASE("gpt-oss"), TP2 EP2 ETP1 A2A RANKS(2)},
    {CASE("qwen3-next"), CP2 EP2 HYBRIDEP RANKS(2)},
    {CASE("mixtral"), PP2 EP2 DEEPEP RANKS(4)},
};
enum { N_LAYOUTS = sizeof layouts / sizeof layouts[0] };

/* A layout with and without fusions beside one rank without: with one rank every gradient is the
 * same to the bit, with more the worst of them and the curve differ by exactly as much. */
static void same_bits(const struct form *f, int l)
{
    arena *a = arena_create();
    const char *of = layouts[l].model;
    rig_reference *ref = rig_reference_of(of, arena_text(a, EVEN OFF "%s", f->words));
    bool one = strstr(layouts[l].words, "n_gpus=1 ") != NULL;
    rig_result was = {.gradient = 0}, is;
    if (!one) rig_compare(&was, ref, layouts[l].words);
    rig_compare(&is, ref, arena_text(a, ALL "%s", layouts[l].words));
    if (was.text[0] || is.text[0] || is.gradient != was.gradient || is.loss != was.loss)
        fail_msg("%s %s %s: gradient %.17g instead of %.17g, curve %.17g instead of %.17g %s%s",
                 f->name, of, layouts[l].words, is.gradient, was.gradient, is.loss, was.loss,
                 was.text, is.text);
    rig_reference_free(ref);
    arena_destroy(a);
}

static void gradients_are_the_same(void **state)
{
    (void)state;
    for (int f = 0; f < N_FORMS; f++)
        for (int l = 0; l < N_LAYOUTS; l++) {
            if (!forms[f].by_blocks && l > 0) continue; /* nothing there is fused */
            if (f == 1 && l % 2) continue;
            arena *a = arena_create();
            int n[OP_COUNT];
            const char *words = arena_text(a, EVEN ALL "%s%s", forms[f].words, layouts[l].words);
            assert_int_equal(count(layouts[l].model, words, n) > 0, forms[f].by_blocks);
            same_bits(&forms[f], l);
            arena_destroy(a);
        }
}

static void touched_is_planned(void **state)
{
    (void)state;
    for (int f = 0; f < N_FORMS; f++)
        for (int l = f % 2; l < N_LAYOUTS; l += 2) {
            if (!forms[f].by_blocks) continue;
            arena *a = arena_create();
            const char *words = arena_text(a, EVEN ALL "%s%s", forms[f].words, layouts[l].words);
            rig_result r = {.text = ""};
            rig_touch(&r, layouts[l].model, words);
            if (r.text[0] || r.used != r.planned)
                fail_msg("%s %s: %lld of %lld bytes %s", layouts[l].model, words, (long long)r.used,
                         (long long)r.planned, r.text);
            arena_destroy(a);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_the_same),
        cmocka_unit_test(touched_is_planned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_fusion_quant.c - fusions that end with QUANTISE: the same gradients to the bit as
 * without them in every scaling and over layouts; every planned byte touched; what they leave alone.
 *
 * Scalings with a factor of the whole tensor (tensorwise, NVFP4) have no such fusion, because the
 * factor comes from the maximum of what would no longer be written: their programs must not
 * change. */
#include "run/layout_rig.c"

#include "guard/layouts_testing.h"
#include "program/fused.h"

#define P    "mixed_precision."
#define ALL  "moefold.fusion=[qkv,add_norm,norm_back,act_quant,permute_quant,norm_quant] "
#define OFF  "moefold.fusion=[] "
#define EVEN M "moe_router_force_load_balancing=true moefold.moe_buffer_factor=4 "

static const struct form {
    const char *name, *words;
    bool by_blocks;
} forms[] = {
    {"blockwise", "mixed_precision=bf16_with_fp8_subchannel_scaling_mixed ", true},
    {"MXFP8",
     "mixed_precision=bf16_with_mxfp8_mixed " P "fp8_param_gather=false " P
     "reuse_grad_buf_for_mxfp8_param_ag=false ",
     true},
    {"tensorwise",
     "mixed_precision=bf16_with_fp8_current_scaling_mixed " P "fp8_param_gather=false " P
     "first_last_layers_bf16=false ",
     false},
    {"NVFP4", "mixed_precision=bf16_with_nvfp4_mixed " P "fp4_param_gather=false ", false},
};
enum { N_FORMS = sizeof forms / sizeof forms[0] };

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

/* Operations of each kind in a program; returns those that end with QUANTISE. */
static int count(const char *model_name, const char *words, int by_kind[OP_COUNT])
{
    arena *a = arena_create();
    setup *s = ARENA_NEW(a, setup);
    program p;
    int n = 0;
    memset(by_kind, 0, sizeof *by_kind * OP_COUNT);
    program_of(&p, s, a, model_name, words);
    for (int i = 0; i < p.n_segments; i++)
        for (int phase = 0; phase < 2; phase++)
            for (int k = 0; k < p.segments[i]->n_ops[phase]; k++) {
                op_kind kind = p.segments[i]->ops[phase][k].kind;
                by_kind[kind]++;
                n += op_is_fused(kind) && op_makes_codes(kind);
            }
    arena_destroy(a);
    return n;
}

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

/* ---- what a program becomes */

static void each_word_fuses_its_own(void **state)
{
    (void)state;
    arena *a = arena_create();
    int n[OP_COUNT], plain[OP_COUNT];
    const char *words = forms[0].words, *moe = CASE("qwen3-moe");
    assert_int_equal(count(moe, arena_text(a, "%s" OFF, words), plain), 0);
    count(moe, arena_text(a, "%smoefold.fusion=[act_quant]", words), n);
    assert_int_equal(n[OP_ACT_QUANT], plain[OP_ACT]);
    assert_int_equal(n[OP_ACT_D_QUANT], plain[OP_ACT_D]);
    assert_int_equal(n[OP_ACT] + n[OP_ACT_D] + n[OP_NORM_QUANT] + n[OP_PERMUTE_QUANT], 0);
    assert_int_equal(n[OP_QUANTISE], plain[OP_QUANTISE] - plain[OP_ACT] - plain[OP_ACT_D]);
    count(moe, arena_text(a, "%smoefold.fusion=[permute_quant]", words), n);
    assert_int_equal(n[OP_PERMUTE_QUANT], plain[OP_PERMUTE]);
    assert_int_equal(n[OP_UNPERMUTE_D_QUANT], plain[OP_UNPERMUTE_D]);
    assert_int_equal(n[OP_PERMUTE] + n[OP_UNPERMUTE_D] + n[OP_ACT_QUANT] + n[OP_NORM_QUANT], 0);
    count(moe, arena_text(a, "%smoefold.fusion=[norm_quant]", words), n);
    int fused = n[OP_NORM_QUANT];
    assert_int_equal(n[OP_NORM], plain[OP_NORM] - fused);
    count("tiny", arena_text(a, SMALL "%smoefold.fusion=[norm_quant]", words), n);
    int one = n[OP_NORM_QUANT]; /* of two: a router reads the other */
    count("tiny", arena_text(a, DENSE SMALL "%smoefold.fusion=[norm_quant]", words), n);
    assert_true(fused > 0 && one > 0 && n[OP_NORM_QUANT] == 2 * one);
    arena_destroy(a);
}

/* What somebody else reads must be written: by a router, by a gradient in BF16, by a bias. */
static void what_others_read_is_left_alone(void **state)
{
    (void)state;
    arena *a = arena_create();
    int n[OP_COUNT];
    const char *words = forms[0].words;
    count(CASE("qwen3-moe"), arena_text(a, "%s" ALL P "fp8_wgrad=false", words), n);
    assert_int_equal(n[OP_ACT_QUANT] + n[OP_ACT_D_QUANT] + n[OP_NORM_QUANT] + n[OP_PERMUTE_QUANT],
                     0);
    count(CASE("gpt-oss"), arena_text(a, "%s" ALL, words), n);
    assert_true(n[OP_ACT_QUANT] > 0 && n[OP_ACT_D_QUANT] == 0 && n[OP_ACT_D] > 0);
    for (int f = 0; f < N_FORMS; f++)
        if (!forms[f].by_blocks)
            assert_int_equal(count("tiny", arena_text(a, "%s" ALL, forms[f].words), n), 0);
    arena_destroy(a);
}

/* On a GPU they are done where somebody asks: no step has run with them there. */
static void a_gpu_does_them_where_asked(void **state)
{
    (void)state;
    arena *a = arena_create();
    int n[OP_COUNT];
    const char *words = arena_text(a, "cluster.gpu=H200 cluster.n_gpus=1 moefold.target=moefold %s",
                                   forms[0].words);
    assert_int_equal(count("tiny", words, n), 0);
    assert_true(count("tiny", arena_text(a, "%s" ALL, words), n) > 0);
    arena_destroy(a);
}

static int64_t arena_of(const char *words)
{
    arena *a = arena_create();
    setup *s = ARENA_NEW(a, setup);
    program p;
    program_of(&p, s, a, "tiny", words);
    int64_t bytes = p.arena_bytes;
    arena_destroy(a);
    return bytes;
}

/* What is not written takes no memory. */
static void arenas_shrink(void **state)
{
    (void)state;
    arena *a = arena_create();
    const char *words = forms[0].words;
    int64_t was = arena_of(arena_text(a, "%s" OFF, words));
    int64_t is = arena_of(arena_text(a, "%smoefold.fusion=[act_quant,permute_quant]", words));
    if (is >= was) fail_msg("%lld bytes instead of %lld", (long long)is, (long long)was);
    arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_word_fuses_its_own),
        cmocka_unit_test(what_others_read_is_left_alone),
        cmocka_unit_test(a_gpu_does_them_where_asked),
        cmocka_unit_test(arenas_shrink),
        cmocka_unit_test(gradients_are_the_same),
        cmocka_unit_test(touched_is_planned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

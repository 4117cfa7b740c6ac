/* test_fused_casts.c - fusions that end with QUANTISE in programs: each word fuses its own, what
 * others read is left alone, and what is not written takes no memory. */
#include "ir/casts_testing.h"

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

/* On a GPU those are done that pay: activations and permutations, not norms, which are read twice.
 * [] leaves all alone. */
static void a_gpu_does_those_that_pay(void **state)
{
    (void)state;
    arena *a = arena_create();
    int n[OP_COUNT];
    const char *words = arena_text(a, "cluster.gpu=H200 cluster.n_gpus=1 moefold.target=moefold %s",
                                   forms[0].words);
    assert_true(count("tiny", words, n) > 0);
    assert_true(n[OP_ACT_QUANT] > 0 && n[OP_ACT_D_QUANT] > 0);
    assert_true(n[OP_PERMUTE_QUANT] > 0 && n[OP_UNPERMUTE_D_QUANT] > 0);
    assert_int_equal(n[OP_NORM_QUANT], 0);
    assert_int_equal(count("tiny", arena_text(a, "%s" OFF, words), n), 0);
    assert_true(count("tiny", arena_text(a, "%s" ALL, words), n) > 0 && n[OP_NORM_QUANT] > 0);
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
        cmocka_unit_test(a_gpu_does_those_that_pay),
        cmocka_unit_test(arenas_shrink),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

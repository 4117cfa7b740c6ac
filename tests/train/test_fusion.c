/* test_fusion.c - what is fused, and that in BF16 weights and moments are the same to the bit.
 * FP32 and layouts: test_options.c. */
#include "guard/guard_testing.h"

#include "guard/layouts_testing.h"
#include "op/fused.h"

#define ALL "moefold.fusion=[qkv,add_norm,norm_back] "
#define OFF "moefold.fusion=[] "

static guard_state *after_two_steps(const char *model_name, const char *words, arena *a)
{
    const char *folder = guard_folder(a);
    guard_run g = {.model = model_name, .words = words, .threads = 1};
    g.words = arena_text(a, "%s checkpoint.save=%s", words, folder);
    guard_train(&g);
    for (int r = 0; r < GUARD_RANKS_MAX; r++)
        if (g.s[r]) fail_msg("%s: %s", words, g.err[r].text);
    guard_state *s = guard_read(folder, 2);
    guard_remove(folder);
    free(g.said);
    return s;
}

static void same_bits(const char *name, const char *model_name, const char *words)
{
    arena *a = arena_create();
    guard_state *is = after_two_steps(model_name, arena_text(a, "%s " ALL, words), a);
    guard_state *was = after_two_steps(model_name, arena_text(a, "%s " OFF, words), a);
    for (int k = 0; k < GUARD_KINDS; k++)
        if (is->total[k] != was->total[k]) fail_msg("%s: %s differ", name, guard_kinds[k]);
    free(is);
    free(was);
    arena_destroy(a);
}

/* Operations of the fused kinds in a program. */
static int count_fused(const char *model_name, const char *words, int by_kind[OP_COUNT])
{
    int n = 0;
    count_kinds(by_kind, model_name, words);
    for (int k = 0; k < OP_COUNT; k++)
        if (op_is_fused((op_kind)k)) n += by_kind[k];
    return n;
}

static void layouts_have_fused_kinds_where_asked(void **state)
{
    (void)state;
    for (int i = 0; i < N_GUARD_LAYOUTS; i++) {
        arena *a = arena_create();
        const char *words = arena_text(a, GUARD_COMMON "%s", guard_layouts[i].words);
        const char *name = guard_layouts[i].name, *of = guard_layouts[i].model;
        int by_kind[OP_COUNT];
        assert_int_equal(count_fused(of, words, by_kind), 0);
        if (!strstr(name, "gpt,") && !strstr(name, "gpt "))
            assert_true(count_fused(of, arena_text(a, "%s " ALL, words), by_kind));
        arena_destroy(a);
    }
}

/* What is stored between the parts is rounded in both. */
static void state_is_the_same_in_bf16(void **state)
{
    (void)state;
    static const char *const cases[] = {CASE("qwen3-moe"), CASE("gpt-oss"), CASE("qwen3-next")};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        same_bits(cases[i], cases[i],
                  GUARD_COMMON "mixed_precision=bf16_mixed train.train_iters=2 " RANKS(1));
}

/* ---- what a program becomes */

static void each_word_fuses_its_own(void **state)
{
    (void)state;
    int n[OP_COUNT];
    const char *model_name = CASE("qwen3-moe");
    count_fused(model_name, OFF, n);
    assert_int_equal(n[OP_QKV_HEADS] + n[OP_QKV_HEADS_D] + n[OP_ADD_NORM] + n[OP_NORM_BACK], 0);
    int norms = n[OP_NORM_D];
    assert_true(norms > 0);
    count_fused(model_name, "moefold.fusion=[add_norm]", n);
    assert_true(n[OP_ADD_NORM] > 0 && n[OP_NORM_BACK] == 0 && n[OP_QKV_HEADS] == 0);
    count_fused(model_name, "moefold.fusion=[norm_back]", n);
    assert_true(n[OP_NORM_BACK] == norms && n[OP_NORM_D] == 0 && n[OP_ADD_NORM] == 0);
    count_fused(model_name, "moefold.fusion=[qkv]", n);
    assert_true(n[OP_QKV_HEADS] > 0 && n[OP_QKV_HEADS_D] > 0 && n[OP_ROPE] == 0 &&
                n[OP_QKV_SPLIT] == 0 && n[OP_QKV_JOIN] == 0 && n[OP_ROPE_D] == 0);
}

/* A norm over all heads of a token is no norm of heads, and LayerNorm is no NORM. */
static void what_differs_is_left_alone(void **state)
{
    (void)state;
    int n[OP_COUNT];
    count_fused(CASE("qwen3-moe"), ALL "moefold.qk_norm_whole=true", n);
    assert_true(n[OP_QKV_HEADS] == 0 && n[OP_QKV_HEADS_D] == 0 && n[OP_QKV_SPLIT] > 0);
    count_fused("tiny", ALL GPT, n);
    assert_true(n[OP_ADD_NORM] == 0 && n[OP_NORM_BACK] == 0 && n[OP_QKV_HEADS] == 0);
}

/* Recompute of layernorm makes the norm again, without the sum before it. */
static void recompute_comes_first(void **state)
{
    (void)state;
    int n[OP_COUNT];
    count_fused(CASE("qwen3-moe"), ALL, n);
    int sums = n[OP_ADD_NORM], gemms = n[OP_GEMM];
    count_fused(CASE("qwen3-moe"),
                ALL M "recompute_granularity=selective " M "recompute_modules=[layernorm]", n);
    assert_int_equal(n[OP_ADD_NORM], sums);
    assert_int_equal(n[OP_GEMM], gemms);
    count_fused(CASE("qwen3-moe"), ALL FULL, n);
    assert_true(n[OP_ADD_NORM] > sums); /* replayed, and fused there, too */
}

/* Of Megatron's programs, and of CPUs where nobody asks. */
static void only_our_own_programs_are_fused(void **state)
{
    (void)state;
    int n[OP_COUNT];
    const char *where = "cluster.gpu=H200 cluster.n_gpus=1 ";
    arena *a = arena_create();
    assert_int_equal(count_fused("tiny", "", n), 0);
    assert_int_equal(
        count_fused("tiny", arena_text(a, "%s" ALL "moefold.target=megatron", where), n), 0);
    assert_true(count_fused("tiny", arena_text(a, "%smoefold.target=moefold", where), n) > 0);
    assert_int_equal(
        count_fused("tiny", arena_text(a, "%s" OFF "moefold.target=moefold", where), n), 0);
    arena_destroy(a);
}

/* The heads before their norms are not saved: the projection is, which has the values, too. */
static void saved_bytes_are_those_of_the_projection(void **state)
{
    (void)state;
    arena *a = arena_create();
    setup *s = ARENA_NEW(a, setup), *t = ARENA_NEW(a, setup);
    program p, q;
    program_of(&p, s, a, "tiny", OFF);
    program_of(&q, t, a, "tiny", "moefold.fusion=[qkv]");
    const model *m = &s->m;
    int64_t values = 4 * p.Tc * m->attention->kv_heads * m->attention->head_dim * m->n_layers;
    assert_int_equal(q.chunks[0].saved_bytes - p.chunks[0].saved_bytes, values);
    arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_word_fuses_its_own),
        cmocka_unit_test(what_differs_is_left_alone),
        cmocka_unit_test(recompute_comes_first),
        cmocka_unit_test(only_our_own_programs_are_fused),
        cmocka_unit_test(saved_bytes_are_those_of_the_projection),
        cmocka_unit_test(state_is_the_same_in_bf16),
        cmocka_unit_test(layouts_have_fused_kinds_where_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

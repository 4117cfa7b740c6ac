/* Whose runtime a recipe is for, and what Megatron has no word for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config/models/models.h"
#include "layout/setup.h"
#include "model/model.h"
#include "config/target.h"

static arena *memory;
static error err;

static int begin(void **state)
{
    (void)state;
    memory = arena_create();
    return 0;
}

static int end(void **state)
{
    (void)state;
    arena_destroy(memory);
    return 0;
}

static setup *made(const char *preset, const char *words)
{
    recipe *r = ARENA_NEW(memory, recipe);
    setup *s = ARENA_NEW(memory, setup);
    recipe_init(r, memory, preset);
    recipe_set(r, K_MODEL, value_of_text(preset), "test");
    char *copy = arena_copy(memory, words, strlen(words)), *rest = NULL;
    for (char *w = strtok_r(copy, " ", &rest); w; w = strtok_r(NULL, " ", &rest))
        assert_int_equal(recipe_override(r, w, "test", &err), OK);
    assert_int_equal(model_fill(r, &err), OK);
    assert_int_equal(setup_init(s, r, memory, &err), OK);
    return s;
}

static void gpus_are_megatrons_and_cpus_ours(void **state)
{
    (void)state;
    assert_true(recipe_is(&made("tiny", "")->r, K_TARGET, "megatron"));
    assert_true(recipe_is(&made("tiny", "cluster.gpu=GB200")->r, K_TARGET, "megatron"));
    assert_true(recipe_is(&made("tiny", "cluster.gpu=cpu")->r, K_TARGET, "moefold"));
    assert_true(recipe_is(&made("tiny", "moefold.target=null")->r, K_TARGET, "megatron"));
    assert_true(recipe_is(&made("tiny", "moefold.target=moefold")->r, K_TARGET, "moefold"));
}

/* Each row of the table: what asks for it, which knob is named, and that `instead` closes it. */
static void every_gap_is_met_once_and_closed(void **state)
{
    (void)state;
    static const struct {
        const char *preset, *words;
        knob_id knob;
    } cases[] = {
        {"deepseek-v3", "moefold.mla_latent_ring=true model.context_parallel_size=8",
         K_LATENT_RING},
        {"deepseek-v3",
         "moefold.mla_latent_ring=true model.context_parallel_size=48 model.seq_length=98304",
         K_LATENT_RING},
        {"qwen3-30b-a3b", "moefold.attention_bias=true", K_ATTN_BIAS},
        {"gpt-oss-20b", "moefold.mlp_bias_alone=true", K_MLP_BIAS_ALONE},
        {"llama-3.1-8b", "moefold.rope_low_freq_factor=2.0", K_LLAMA3_LOW},
        {"llama-3.1-8b", "moefold.rope_high_freq_factor=8.0", K_LLAMA3_HIGH},
        {"llama-3.1-8b", "moefold.rope_trained_length=4096", K_ROPE_TRAINED},
        {"qwen3-30b-a3b", "moefold.rope_dynamic_factor=2.0 model.seq_length=16384", K_ROPE_DYNAMIC},
        {"deepseek-v3", "model.seq_len_interpolation_factor=2.0", K_ROPE_LINEAR},
        {"deepseek-v3", "model.rope_scaling=true", K_LLAMA3_ROPE},
        {"deepseek-v3", "moefold.mla_rotate_halves=true", K_ROPE_HALVES},
        {"deepseek-v3", "moefold.moe_router_group_score=best_two model.moe_router_group_topk=2",
         K_GROUP_SCORE},
        {"qwen3-30b-a3b", "moefold.moe_router_renormalize=true model.moe_router_pre_softmax=true",
         K_ROUTER_NORM},
        {"deepseek-v3", "moefold.moe_router_renormalize=false", K_ROUTER_NORM},
        {"tiny",
         "moefold.target=moefold moefold.pack_step=false cluster.gpu=H200 "
         "mixed_precision=bf16_with_mxfp8_mixed",
         K_PRECISION},
        {"tiny",
         "moefold.target=moefold moefold.pack_step=false cluster.gpu=H100 "
         "mixed_precision=bf16_with_nvfp4_mixed",
         K_PRECISION},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        setup *s = made(cases[i].preset, cases[i].words);
        const target_gap *g = target_gap_of(&s->j, 0);
        assert_non_null(g);
        assert_int_equal(g->knob, cases[i].knob);
        assert_null(target_gap_of(&s->j, 1));
        s = made(cases[i].preset, arena_text(memory, "%s %s", cases[i].words, g->instead));
        assert_null(target_gap_of(&s->j, 0));
    }
}

static void shipped_models_meet_no_gap(void **state)
{
    (void)state;
    static const char *const presets[] = {"tiny",           "deepseek-v3",        "qwen3-30b-a3b",
                                          "mixtral-8x7b",   "qwen3-next-80b-a3b", "gpt-oss-20b",
                                          "qwen3-235b-a22b"};
    for (size_t i = 0; i < sizeof presets / sizeof presets[0]; i++)
        assert_null(target_gap_of(&made(presets[i], "")->j, 0));
    /* nothing is chosen among groups that are all taken */
    const char *all = "moefold.moe_router_group_score=best_two model.moe_router_group_topk=8";
    assert_null(target_gap_of(&made("deepseek-v3", all)->j, 0));
}

/* A rule of Megatron's own says it, and other GPUs have such GEMMs. */
static void narrow_gemms_are_a_gap_of_our_hopper_alone(void **state)
{
    (void)state;
    static const char *const none[] = {"cluster.gpu=H200 mixed_precision=bf16_with_mxfp8_mixed",
                                       "cluster.gpu=B200 mixed_precision=bf16_with_mxfp8_mixed",
                                       "cluster.gpu=cpu mixed_precision=bf16_with_nvfp4_mixed"};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
        assert_null(target_gap_of(&made("tiny", none[i])->j, 0));
}

static void what_is_there_depends_on_the_target(void **state)
{
    (void)state;
    assert_false(target_has(&made("tiny", "")->j, K_LATENT_RING));
    assert_true(target_has(&made("tiny", "")->j, K_EP_OVERLAP));
    assert_true(target_has(&made("tiny", "cluster.gpu=cpu")->j, K_LATENT_RING));
    assert_false(
        target_has(&made("tiny", "cluster.gpu=cpu moefold.target=megatron")->j, K_LATENT_RING));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(gpus_are_megatrons_and_cpus_ours, begin, end),
        cmocka_unit_test_setup_teardown(every_gap_is_met_once_and_closed, begin, end),
        cmocka_unit_test_setup_teardown(shipped_models_meet_no_gap, begin, end),
        cmocka_unit_test_setup_teardown(narrow_gemms_are_a_gap_of_our_hopper_alone, begin, end),
        cmocka_unit_test_setup_teardown(what_is_there_depends_on_the_target, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_model.c - naming a model, what knobs imply, and sizes that no model has. */
#include "config/models/models.h"
#include "testing.h"

#define CUSTOM                                                                                     \
    "model.num_layers=4 model.hidden_size=64 model.num_attention_heads=4 model.vocab_size=128 "

/* ---- moefold.model */

static void every_preset_is_a_model(void **state)
{
    (void)state;
    int n;
    const char *const *presets = model_presets(&n);
    assert_true(n >= 11);
    for (int i = 0; i < n; i++) {
        made x;
        assert_true(model_is_preset(presets[i]));
        made_good(&x, presets[i], NULL);
        assert_string_equal(x.m.name, presets[i]);
        assert_int_equal(x.m.n_mtp, 0);
        for (int k = 0; k < K_COUNT; k++) {
            value nearest;
            if (!knob_in_range(x.a, (knob_id)k, x.r.knob[k].v, &nearest))
                fail_msg("%s: %s", presets[i], knobs[k].key);
        }
        made_release(&x);
    }
}

static void unknown_models_name_the_nearest(void **state)
{
    (void)state;
    static const struct {
        const char *name, *says;
    } rows[] = {
        {"deepseek-v33", "the nearest preset is deepseek-v3;"},
        {"deepseek-ai/DeepSeek-V4x", "the nearest preset is deepseek-v3;"},
        {"Qwen/Qwen3-30B-A3", "the nearest preset is qwen3-30b-a3b;"},
        {"x", "presets are deepseek-v3, kimi-k2"},
        {"", "presets are deepseek-v3"},
        {"/no/such/folder", "presets are"},
        {"tests/data/golden/no-such", "presets are"},
        {"tests/data/golden", "has no config.json"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        made x;
        assert_int_equal(made_init(&x, rows[i].name, NULL), ERR_INPUT);
        assert_has(x.err.text, "moefold.model=");
        assert_has(x.err.text, rows[i].says);
        made_release(&x);
    }
    made x;
    char name[5000];
    memset(name, 'a', sizeof name - 1);
    name[sizeof name - 1] = 0;
    assert_int_equal(made_init(&x, name, NULL), ERR_INPUT);
    made_release(&x);
}

static void folders_are_relative_to_the_recipe_first(void **state)
{
    (void)state;
    made x;
    memset(&x, 0, sizeof x);
    x.a = arena_create();
    recipe_init(&x.r, x.a, "test");
    x.r.folder = GOLDEN;
    recipe_set(&x.r, K_MODEL, value_of_text("mixtral-tiny"), "test");
    assert_int_equal(model_fill(&x.r, &x.err), OK);
    assert_int_equal(recipe_int(&x.r, K_HIDDEN), 64);
    made_release(&x);
    made_good(&x, GOLDEN "mixtral-tiny/", NULL);
    made_release(&x);
    made_good(&x, GOLDEN "mixtral-tiny/config.json", NULL);
    assert_string_equal(x.m.family, "mixtral");
    made_release(&x);
}

static void no_model_is_no_error(void **state)
{
    (void)state;
    made x;
    made_good(&x, NULL, CUSTOM);
    assert_string_equal(x.m.name, "custom");
    made_release(&x);
}

static void family_follows_the_knobs(void **state)
{
    (void)state;
    static const struct {
        const char *model, *family;
    } rows[] = {{"deepseek-v3", "deepseek_v3"},
                {"moonlight-16b", "deepseek_v3"},
                {"qwen3-next-80b-a3b", "qwen3_next"},
                {"gpt-oss-20b", "gpt_oss"},
                {"tiny", "qwen3_moe"},
                {"mixtral-8x22b", "mixtral"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        made x;
        made_good(&x, rows[i].model, NULL);
        assert_string_equal(x.m.family, rows[i].family);
        made_release(&x);
    }
}

/* ---- layers */

static void kinds(const made *x, char *out)
{
    for (int64_t i = 0; i < x->m.n_layers + x->m.n_mtp; i++)
        *out++ = (char)('0' + model_layer_has(&x->m, i, BLOCK_MOE) +
                        2 * model_layer_has(&x->m, i, BLOCK_GDN) +
                        4 * (model_layer_window(&x->m, i) > 0));
    *out = 0;
}

static void knobs_give_kinds_of_layers(void **state)
{
    (void)state;
    static const struct {
        const char *model, *overrides, *kinds; /* sums of MoE 1, linear 2, window 4 */
    } rows[] = {
        {"tiny", NULL, "1111"},
        {"tiny", "model.moe_layer_freq=2", "1010"},
        {"tiny", "model.moe_layer_freq=[0,1,0,1]", "0101"},
        {"tiny", "model.num_moe_experts=null", "0000"},
        {"tiny", "model.window_size=[7,0]", "5555"},
        {"tiny", "model.window_size=8 model.window_attn_skip_freq=2", "5151"},
        {"tiny", "model.window_size=8 model.window_attn_skip_freq=[1,0,0,1]", "5115"},
        {"tiny", "model.window_size=[-1,0]", "1111"},
        {"tiny", "model.mtp_num_layers=2", "111111"},
        {"tiny", "model.moe_layer_freq=[1,1,1,0] model.mtp_num_layers=1", "11100"},
        {"gpt-oss-20b", "model.num_layers=4", "5151"},
        {"deepseek-v3", "model.num_layers=5 model.mtp_num_layers=1", "000111"},
        {"deepseek-v3", "model.num_layers=2", "00"},
        {"qwen3-next-80b-a3b", "model.num_layers=5", "33313"},
        {"qwen3-next-80b-a3b", "model.num_layers=4 model.linear_attention_freq=[0,1,0,1]", "1313"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        made x;
        char found[64];
        made_good(&x, rows[i].model, rows[i].overrides);
        kinds(&x, found);
        if (strcmp(found, rows[i].kinds) != 0)
            fail_msg("%s %s: %s", rows[i].model, rows[i].overrides, found);
        made_release(&x);
    }
}

static void lists_of_the_wrong_length_are_refused(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "model.moe_layer_freq=[1,1,1]", "model.moe_layer_freq=[]",
        "model.window_attn_skip_freq=[1] model.window_size=8",
        "model.linear_attention_freq=[1,1,1,1,1] model.experimental_attention_variant=gdn"};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        made x;
        assert_int_equal(made_init(&x, "tiny", rows[i]), ERR_INPUT);
        assert_has(x.err.text, "_freq has ");
        assert_has(x.err.text, "model.num_layers is 4");
        made_release(&x);
    }
}

/* ---- what knobs imply */

static void open_sizes_are_derived_with_a_reason(void **state)
{
    (void)state;
    made x;
    made_good(&x, NULL, CUSTOM "model.num_moe_experts=8 model.seq_length=256");
    assert_int_equal(x.m.mlp->ffn, 256);
    assert_int_equal(x.m.moe->ffn, 256);
    assert_int_equal(x.m.attention->kv_heads, 4);
    assert_int_equal(x.m.attention->head_dim, 16);
    assert_int_equal(recipe_int(&x.r, K_MAX_POSITIONS), 256);
    assert_int_equal(x.r.knob[K_FFN].from, FROM_DERIVED);
    assert_has(x.r.knob[K_FFN].why, "4 x hidden_size");
    made_release(&x);
    made_good(&x, NULL, CUSTOM "model.kv_channels=null model.num_query_groups=null");
    assert_int_equal(x.m.attention->head_dim, 16); /* the user's null is no hole in the model */
    assert_int_equal(x.m.attention->kv_heads, 4);
    made_release(&x);
}

static void megatron_lm_narrows_a_gated_mlp(void **state)
{
    (void)state;
    made x;
    memset(&x, 0, sizeof x);
    x.a = arena_create();
    recipe_init(&x.r, x.a, "test");
    recipe_set_system(&x.r, MEGATRON_LM, "test");
    made_override(&x, "model.hidden_size=4096 model.gated_linear_unit=true");
    job j;
    model_resolve(&x.r, &j);
    assert_int_equal(recipe_int(&x.r, K_FFN), 10880);
    made_release(&x);
}

static void vocabulary_is_padded_as_asked(void **state)
{
    (void)state;
    static const struct {
        const char *overrides;
        int64_t padded;
    } rows[] = {
        {"model.vocab_size=1000", 1000},
        {"model.vocab_size=1000 model.should_pad_vocab=true", 1024},
        {"model.vocab_size=1000 model.should_pad_vocab=true model.tensor_model_parallel_size=3",
         1152},
        {"model.vocab_size=1024 model.should_pad_vocab=true model.tensor_model_parallel_size=8",
         1024},
        {"model.vocab_size=1000 model.should_pad_vocab=true model.make_vocab_size_divisible_by=0",
         1000},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        made x;
        made_good(&x, "tiny", rows[i].overrides);
        assert_int_equal(x.m.padded_vocab, rows[i].padded);
        made_release(&x);
    }
}

static void missing_sizes_are_named(void **state)
{
    (void)state;
    static const char *const keys[] = {"model.num_layers", "model.hidden_size",
                                       "model.num_attention_heads", "model.vocab_size"};
    static const char *const overrides[] = {
        "model.hidden_size=64 model.num_attention_heads=4 model.vocab_size=128",
        "model.num_layers=4 model.num_attention_heads=4 model.vocab_size=128",
        "model.num_layers=4 model.hidden_size=64 model.vocab_size=128",
        "model.num_layers=4 model.hidden_size=64 model.num_attention_heads=4"};
    for (int i = 0; i < 4; i++) {
        made x;
        assert_int_equal(made_init(&x, NULL, overrides[i]), ERR_INPUT);
        assert_has(x.err.text, keys[i]);
        assert_has(x.err.text, "moefold.model");
        made_release(&x);
    }
}

/* ---- hostile sizes */

static void use_everything(const made *x)
{
    param_totals n = param_count(&x->t);
    assert_true(n.total >= 0 && n.active >= 0 && n.expert >= 0 && n.embedding >= 0);
    for (int i = 0; i < x->t.n_rows; i++) {
        assert_true(param_elements(&x->t.rows[i]) >= 0);
        assert_true(param_local(&x->t.rows[i], 3, 0, INT64_MAX) >= 0);
    }
    assert_true(model_flops_per_token(&x->m, 4096) >= 0);
    assert_true(model_flops_per_token(&x->m, 0) >= 0);
    assert_true(x->m.n_layers <= MODEL_LAYERS_MAX && x->m.n_mtp <= MODEL_MTP_MAX);
}

static void no_size_breaks_a_model(void **state)
{
    (void)state;
    static const char *const sizes[] = {
        "0", "-1", "1", "1000000000000000000", "9223372036854775807", "-9223372036854775807"};
    static const char *const models[] = {"tiny", "deepseek-v3", "qwen3-next-80b-a3b",
                                         "gpt-oss-20b"};
    for (int k = 0; k < K_COUNT; k++)
        for (size_t i = 0; knobs[k].kind == INT && i < sizeof sizes / sizeof sizes[0]; i++)
            for (size_t j = 0; j < sizeof models / sizeof models[0]; j++) {
                made x;
                char text[256];
                if (k == K_MODEL) continue;
                snprintf(text, sizeof text, "%s=%s model.should_pad_vocab=true", knobs[k].key,
                         sizes[i]);
                if (!made_init(&x, models[j], text)) use_everything(&x);
                made_release(&x);
            }
}

static void all_sizes_at_once_break_no_model(void **state)
{
    (void)state;
    static const char *const sizes[] = {"0", "-5", "1000000000000000000"};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        made x;
        memset(&x, 0, sizeof x);
        x.a = arena_create();
        recipe_init(&x.r, x.a, "test");
        made_override(&x, "model.multi_latent_attention=true model.should_pad_vocab=true "
                          "model.experimental_attention_variant=gdn "
                          "model.position_embedding_type=learned_absolute");
        for (int k = 0; k < K_COUNT; k++)
            if (knobs[k].kind == INT && knobs[k].form != LIST)
                made_override(&x, arena_text(x.a, "%s=%s", knobs[k].key, sizes[i]));
        job j;
        model_resolve(&x.r, &j);
        assert_int_equal(model_init(&x.m, &j, x.a, &x.err), OK);
        param_table_init(&x.t, &x.m, x.a);
        use_everything(&x);
        made_release(&x);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_preset_is_a_model),
        cmocka_unit_test(unknown_models_name_the_nearest),
        cmocka_unit_test(folders_are_relative_to_the_recipe_first),
        cmocka_unit_test(no_model_is_no_error),
        cmocka_unit_test(family_follows_the_knobs),
        cmocka_unit_test(knobs_give_kinds_of_layers),
        cmocka_unit_test(lists_of_the_wrong_length_are_refused),
        cmocka_unit_test(open_sizes_are_derived_with_a_reason),
        cmocka_unit_test(megatron_lm_narrows_a_gated_mlp),
        cmocka_unit_test(vocabulary_is_padded_as_asked),
        cmocka_unit_test(missing_sizes_are_named),
        cmocka_unit_test(no_size_breaks_a_model),
        cmocka_unit_test(all_sizes_at_once_break_no_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

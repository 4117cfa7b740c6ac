/* test_names.c - every spelling of a model: presets, names on the hub, files, folders. */
#include "config/models/models.h"
#include "testing.h"

#include <sys/stat.h>
#include <unistd.h>

static void assert_layers(const char *name, int64_t layers)
{
    made x;
    made_good(&x, name, NULL);
    assert_int_equal(x.m.n_layers, layers);
    made_release(&x);
}

static void names_on_the_hub_are_presets_in_any_case(void **state)
{
    (void)state;
    assert_layers("deepseek-ai/DeepSeek-V3", 61);
    assert_layers("DEEPSEEK-AI/deepseek-v3-BASE", 61);
    assert_layers("DeepSeek-R1", 61);
    assert_layers("Qwen/Qwen3-235B-A22B", 94);
    assert_layers("QWEN3-30B-A3B", 48);
    assert_layers("openai/gpt-oss-20b", 24);
}

static void every_hub_name_has_an_owner_and_leads_to_its_preset(void **state)
{
    (void)state;
    int n, n_names = 0;
    const char *const *presets = model_presets(&n);
    arena *a = arena_create();
    for (int i = 0; i < n; i++) {
        made own;
        made_good(&own, presets[i], NULL);
        for (const char *h = model_hub_names(presets[i]); *h;) {
            size_t length = strcspn(h, "|");
            const char *name = arena_copy(a, h, length);
            made x;
            if (!strchr(name, '/')) fail_msg("%s has no owner", name);
            made_good(&x, name, NULL);
            assert_int_equal(param_count(&x.t).total, param_count(&own.t).total);
            made_release(&x);
            h += length + (h[length] == '|');
            n_names++;
        }
        made_release(&own);
    }
    assert_true(n_names >= 20);
    arena_destroy(a);
}

static void refuses(const char *name, const char *part, const char *second)
{
    made x;
    assert_int_equal(made_init(&x, name, NULL), ERR_INPUT);
    assert_has(x.err.text, part);
    assert_has(x.err.text, second);
    made_release(&x);
}

static void a_refused_model_names_the_missing_block(void **state)
{
    (void)state;
    refuses("deepseek-ai/DeepSeek-V3.2-Exp", "sparse attention", "indexer");
    refuses("meta-llama/Llama-4-Scout-17B-16E", "chunked attention", "rotary");
    refuses("nobody/knows-this", "nobody/knows-this", "presets are");
    assert_true(model_is_named("deepseek-ai/DeepSeek-V3.2-Exp"));
    assert_false(model_is_named("nobody/knows-this"));
}

static void a_refused_model_type_names_the_missing_block(void **state)
{
    (void)state;
    static const char *const rows[][2] = {{"deepseek_v32", "sparse attention (DSA)"},
                                          {"llama4", "chunked attention"},
                                          {"qwen3_vl_moe", "vision encoder"},
                                          {"nemotron_h", "state-space"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        made x = {.a = arena_create()};
        recipe_init(&x.r, x.a, "test");
        const char *text = arena_text(x.a, "{\"model_type\": \"%s\"}", rows[i][0]);
        assert_int_equal(model_parse_config(&x.r, "config.json", text, strlen(text), &x.err),
                         ERR_INPUT);
        assert_has(x.err.text, rows[i][0]);
        assert_has(x.err.text, rows[i][1]);
        made_release(&x);
    }
}

/* A copy of a reference configuration under another name, without weights beside it. */
static void a_config_may_be_named_itself(void **state)
{
    (void)state;
    assert_layers(GOLDEN "qwen3-moe-tiny/config.json", 4);
    assert_layers(GOLDEN "qwen3-moe-tiny", 4);
    char folder[] = "/tmp/moefold-names-XXXXXX", path[64];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/mine.json", folder);
    json_t *root = json_load_file(GOLDEN "qwen3-moe-tiny/config.json", 0, NULL);
    assert_int_equal(json_dump_file(root, path, 0), 0);
    json_decref(root);
    assert_true(model_is_named(path));
    assert_layers(path, 4);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
    assert_false(model_is_named(path));
}

/* A folder that has the name of a model on the hub is the folder. */
static void a_path_comes_before_another_spelling(void **state)
{
    (void)state;
    char folder[] = "/tmp/moefold-names-XXXXXX", here[4096];
    assert_non_null(getcwd(here, sizeof here));
    json_t *root = json_load_file(GOLDEN "qwen3-moe-tiny/config.json", 0, NULL);
    assert_non_null(mkdtemp(folder));
    assert_int_equal(chdir(folder), 0);
    assert_layers("DeepSeek-V3", 61);
    assert_int_equal(mkdir("DeepSeek-V3", 0700), 0);
    assert_int_equal(json_dump_file(root, "DeepSeek-V3/config.json", 0), 0);
    assert_layers("DeepSeek-V3", 4);
    assert_int_equal(unlink("DeepSeek-V3/config.json"), 0);
    assert_int_equal(rmdir("DeepSeek-V3"), 0);
    assert_int_equal(chdir(here), 0);
    assert_int_equal(rmdir(folder), 0);
    json_decref(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_on_the_hub_are_presets_in_any_case),
        cmocka_unit_test(every_hub_name_has_an_owner_and_leads_to_its_preset),
        cmocka_unit_test(a_refused_model_names_the_missing_block),
        cmocka_unit_test(a_refused_model_type_names_the_missing_block),
        cmocka_unit_test(a_config_may_be_named_itself),
        cmocka_unit_test(a_path_comes_before_another_spelling),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

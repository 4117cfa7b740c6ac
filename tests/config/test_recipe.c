/* test_recipe.c - values, the knob table, layers of a recipe, derivations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "config/export.h"
#include "config/megatron.h"
#include "config/megatron_table.h"
#include "config/precision.h"
#include "config/recipe.h"

static arena *a;
static recipe *r;
static error err;

static int begin(void **state)
{
    (void)state;
    a = arena_create();
    r = ARENA_NEW(a, recipe);
    recipe_init(r, a, "test");
    return 0;
}

static int end(void **state)
{
    (void)state;
    arena_destroy(a);
    return 0;
}

static void set(const char *assignment)
{
    status s = recipe_override(r, assignment, "test", &err);
    if (s) fail_msg("%s: %s", assignment, err.text);
}

static void refuse(const char *assignment, const char *part)
{
    assert_int_equal(recipe_override(r, assignment, "test", &err), ERR_INPUT);
    if (!strstr(err.text, part)) fail_msg("'%s' has no '%s'", err.text, part);
}

/* ---- values */

static void values_read_back(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "null",      "true",          "false",       "0",       "-7",     "9223372036854775807",
        "0.1",       "1e-08",         "3.0",         "10000.0", "1e+300", "word",
        "a2a+p2p",   "'4096'",        "'two words'", "'null'",  "[]",     "[1,2,3]",
        "[a,[b,c]]", "Et|(tt|)*30mL", "'it\\'s'"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        value v, again;
        assert_int_equal(value_parse(a, texts[i], &v, &err), OK);
        const char *printed = value_text(a, v);
        assert_string_equal(printed, texts[i]);
        assert_int_equal(value_parse(a, printed, &again, &err), OK);
        assert_true(value_equal(v, again));
    }
}

static void numbers_that_do_not_fit_are_errors(void **state)
{
    (void)state;
    value v;
    assert_int_equal(value_parse(a, "9223372036854775808", &v, &err), ERR_INPUT);
    assert_int_equal(value_parse(a, "1e999", &v, &err), ERR_INPUT);
    assert_int_equal(value_parse(a, "[1,2", &v, &err), ERR_INPUT);
    assert_int_equal(value_parse(a, "[1,,2]", &v, &err), ERR_INPUT);
    assert_int_equal(value_parse(a, "'open", &v, &err), ERR_INPUT);
    assert_int_equal(value_parse(a, "[[[[[1]]]]]", &v, &err), ERR_INPUT);
    assert_int_equal(value_parse(a, "[1] 2", &v, &err), ERR_INPUT);
}

/* ---- the table */

static void every_row_is_complete(void **state)
{
    (void)state;
    for (int k = 0; k < K_COUNT; k++) {
        assert_non_null(knobs[k].help);
        assert_int_equal(knob_find(knobs[k].key, NULL), k); /* keys are unique */
        if (knobs[k].kind == ENUM) assert_non_null(knobs[k].allowed);
        for (int system = MOEFOLD; system <= MEGATRON_BRIDGE; system++) {
            value v = knob_default(a, (knob_id)k, (knob_system)system), near;
            if (!knob_in_range(a, (knob_id)k, v, &near))
                fail_msg("%s: default %s is out of range", knobs[k].key, value_text(a, v));
        }
    }
}

static void flags_belong_to_one_meaning(void **state)
{
    (void)state;
    for (int k = 0; k < K_COUNT; k++)
        for (const char *p = knobs[k].flag; p && *p;) {
            size_t n = strcspn(p, " ");
            const char *flag = p + strspn(p, "+!?");
            assert_true(strncmp(flag, "--", 2) == 0);
            p += n + strspn(p + n, " ");
        }
}

static void ranges_have_two_ends(void **state)
{
    (void)state;
    value near;
    assert_true(knob_in_range(a, K_CP, value_of_int(65536), &near));
    assert_false(knob_in_range(a, K_CP, value_of_int(65537), &near));
    assert_int_equal(near.whole, 65536);
    assert_false(knob_in_range(a, K_CP, value_of_int(0), &near));
    assert_int_equal(near.whole, 1);
    assert_false(knob_in_range(a, K_DISPATCHER, value_of_text("alltoal"), &near));
    assert_string_equal(near.text, "alltoall");
    assert_true(knob_in_range(a, K_LR, value_of_float(1e9), &near)); /* open above */
}

static void nearest_key_knows_sections(void **state)
{
    (void)state;
    assert_string_equal(knob_nearest("model.context_paralell_size"), "model.context_parallel_size");
    assert_string_equal(knob_nearest("context_parallel_size"), "model.context_parallel_size");
    assert_string_equal(knob_nearest("train.lr"), "optimizer.lr");
    assert_string_equal(knob_nearest("cluster.n_gpu"), "cluster.n_gpus");
}

/* ---- text: what looks like a number, a switch or nothing is kept as it is written */

static const char *const spellings[] = {
    "1.10",    "1e3",        "007",   "1_000", "+5",  ".5",
    "2026.10", "0x10",       "1:30",  "0",     "-1",  "1.",
    "1E-3",    "none",       "None",  "yes",   "no",  "on",
    "off",     "true",       "True",  "FALSE", "nan", ".inf",
    "y",       "nUll",       "1,000", "0o17",  "12h", "9223372036854775808",
    "1e999",   "2026-11-19",
};
enum { N_SPELLINGS = sizeof spellings / sizeof spellings[0] };

static void is_text(const char *how, knob_id k, const char *want)
{
    value v = recipe_item(r, k, 0);
    if (v.kind != V_TEXT || strcmp(v.text, want) != 0)
        fail_msg("%s: %s=%s became %s", how, knobs[k].key, want, value_text(a, v));
}

static void write_back(knob_id k, const char *want)
{
    recipe other = *r;
    textbuf yaml = text_init(a);
    export_yaml(r, false, &yaml);
    set(arena_text(a, "%s=%s", knobs[k].key, value_text(a, r->knob[k].v)));
    is_text("an override of show", k, want);
    recipe_init(r, a, "test");
    assert_int_equal(recipe_parse_yaml(r, "out.yaml", yaml.s, yaml.n, &err), OK);
    is_text("the exported recipe", k, want);
    *r = other;
}

static void text_stays_as_it_is_written(void **state)
{
    (void)state;
    int n_flags = 0;
    for (knob_id k = 0; k < K_COUNT; k++)
        for (int i = 0; knobs[k].kind == TEXT && i < N_SPELLINGS; i++) {
            const char *word = spellings[i], *dot = strchr(knobs[k].key, '.');
            recipe_init(r, a, "test");
            set(arena_text(a, "%s=%s", knobs[k].key, word));
            is_text("an override", k, word);
            write_back(k, word);
            recipe_init(r, a, "test");
            const char *yaml = arena_text(a, "%.*s:\n  %s: %s\n", (int)(dot - knobs[k].key),
                                          knobs[k].key, dot + 1, word);
            assert_int_equal(recipe_parse_yaml(r, "in.yaml", yaml, strlen(yaml), &err), OK);
            is_text("a recipe", k, word);
            char mark;
            const char *flag = knobs[k].flag;
            if (!flag || !knob_has_flag(k, flag, &mark) || mark) continue;
            char *words[] = {arena_copy(a, flag, strlen(flag)), arena_copy(a, word, strlen(word))};
            int used;
            recipe_init(r, a, "test");
            assert_int_equal(megatron_flag(r, 2, words, "test", &used, &err), OK);
            is_text("a flag", k, word);
            n_flags++;
        }
    assert_true(n_flags > 5 * N_SPELLINGS);
}

static void items_of_text_stay_as_they_are_written(void **state)
{
    (void)state;
    const char *yaml = "dataset:\n  data_path: [0.30, 1.10, 007, yes]\n";
    set("dataset.data_path=[0.30, 1.10,007,yes]");
    const char *from_line = value_text(a, r->knob[K_DATA_PATH].v);
    assert_string_equal(from_line, "['0.30','1.10','007',yes]");
    assert_int_equal(recipe_parse_yaml(r, "in.yaml", yaml, strlen(yaml), &err), OK);
    assert_string_equal(value_text(a, r->knob[K_DATA_PATH].v), from_line);
}

static void text_has_spaces_and_quotes_and_may_be_taken_back(void **state)
{
    (void)state;
    set("checkpoint.save= a ");
    is_text("spaces", K_SAVE, " a ");
    set("checkpoint.save='1.10'");
    is_text("quotes", K_SAVE, "1.10");
    set("checkpoint.save=~");
    is_text("a tilde is null in YAML alone", K_SAVE, "~");
    set("checkpoint.save=null");
    assert_int_equal(r->knob[K_SAVE].v.kind, V_NULL);
    set("checkpoint.save='null'");
    is_text("a quoted null", K_SAVE, "null");
    set("cluster.gpu=./1.10");
    is_text("a file", K_GPU, "./1.10");
    set("cluster.gpu=1.10");
    is_text("a file of this folder", K_GPU, "./1.10");
}

/* ---- layers */

static void later_layers_win(void **state)
{
    (void)state;
    const char *yaml = "model:\n  seq_length: 1024\n  context_parallel_size: 2\n";
    assert_int_equal(recipe_parse_yaml(r, "a.yaml", yaml, strlen(yaml), &err), OK);
    assert_string_equal(r->knob[K_CP].why, "a.yaml:3");
    set("model.context_parallel_size=4");
    assert_int_equal(recipe_int(r, K_CP), 4);
    assert_int_equal(recipe_int(r, K_SEQ), 1024);
    assert_false(recipe_fill(r, K_CP, value_of_int(8), FROM_MODEL, "the model"));
    assert_int_equal(recipe_int(r, K_CP), 4);
}

static void null_reopens_or_means_none(void **state)
{
    (void)state;
    set("model.tensor_model_parallel_size=4");
    set("model.tensor_model_parallel_size=null");
    assert_int_equal(r->knob[K_TP].from, FROM_NOTHING); /* its default is a number: open again */
    set("model.moe_router_topk_scaling_factor=null");
    assert_int_equal(r->knob[K_SCALING].from,
                     FROM_USER); /* none is a choice that a preset respects */
}

static void spellings_of_the_guides_are_taken(void **state)
{
    (void)state;
    set("model.recompute_modules=[norm,up_proj,moe_act]");
    assert_string_equal(value_text(a, r->knob[K_RECOMPUTE_MODULES].v),
                        "[layernorm,mla_up_proj,moe_act]");
    set("model.recompute_modules=moe_act,layernorm");
    assert_int_equal(recipe_count(r, K_RECOMPUTE_MODULES), 2);
    set("mixed_precision=fp8_sc");
    assert_true(recipe_is(r, K_PRECISION, "bf16_with_fp8_subchannel_scaling_mixed"));
    set("mixed_precision=bf16-mixed");
    assert_true(recipe_is(r, K_PRECISION, "bf16_mixed"));
    set("cluster.gpu=gb200");
    assert_true(recipe_is(r, K_GPU, "GB200"));
    set("model.cp_comm_type=allgather");
    assert_true(recipe_is(r, K_CP_COMM, "all_gather"));
    set("++model.moe_router_load_balancing_type=none");
    assert_true(recipe_is(r, K_BALANCING, "none"));
}

static void aliases_are_remembered(void **state)
{
    (void)state;
    set("dataset.seq_length=8192");
    assert_int_equal(recipe_int(r, K_SEQ), 8192); /* alone: it sets the knob */
    set("model.seq_length=4096");
    assert_int_equal(recipe_int(r, K_SEQ), 4096);
    assert_int_equal(r->n_aliases, 1);
    assert_int_equal(r->aliases[0].v.whole, 8192); /* for the rule that compares */
    set("dataset.seq_length=4096");
    assert_int_equal(r->n_aliases, 1);
}

static void wrong_input_is_named(void **state)
{
    (void)state;
    refuse("model.seq_lenght=1", "model.seq_length");
    refuse("model.seq_length=many", "whole number");
    refuse("model.seq_length=true", "whole number");
    refuse("model.sequence_parallel=1", "true or false");
    refuse("optimizer.lr=fast", "number");
    refuse("model.seq_length=[1]", "list");
    refuse("model.recompute_modules=[[moe]]", "list");
    refuse("model.seq_length", "key=value");
    refuse("=1", "key=value");
}

static void yaml_mistakes_have_lines(void **state)
{
    (void)state;
    static const struct {
        const char *yaml, *part;
    } cases[] = {
        {"model:\n  seq_length: [1\n", "x.yaml:"},
        {"model:\n  a: 1\n", "x.yaml:2: unknown knob 'model.a'"},
        {"model:\n  seq_length: 1\n  seq_length: 2\n", "x.yaml:3"},
        {"model: {seq_length: {deep: 1}}\n", "unknown knob 'model.seq_length.deep'"},
        {"model:\n  recompute_modules: [{a: b}]\n", "x.yaml:2"},
        {"? [a]\n: b\n", "x.yaml:1"},
        {"a: 1\n---\nb: 2\n", "several documents"},
        {"model: 3\n", "unknown knob 'model'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        status s = recipe_parse_yaml(r, "x.yaml", cases[i].yaml, strlen(cases[i].yaml), &err);
        assert_int_equal(s, ERR_INPUT);
        if (!strstr(err.text, cases[i].part)) fail_msg("'%s' has no '%s'", err.text, cases[i].part);
    }
}

static void yaml_aliases_share_values(void **state)
{
    (void)state;
    const char *yaml =
        "model:\n  recompute_modules: &m [moe_act]\n  offload_modules: *m\noptimizer:\n";
    assert_int_equal(recipe_parse_yaml(r, "x.yaml", yaml, strlen(yaml), &err), OK);
    assert_true(recipe_has(r, K_OFFLOAD_MODULES, "moe_act"));
}

/* ---- derivations */

static void precision_names_set_their_parts(void **state)
{
    (void)state;
    set("mixed_precision=fp8_mx");
    precision_derive(r);
    assert_true(recipe_on(r, K_BF16));
    assert_true(recipe_is(r, K_FP8_RECIPE, "mxfp8"));
    assert_true(recipe_on(r, K_REUSE_GRAD));
    assert_string_equal(r->knob[K_FP8_PARAMS].why, "mixed_precision=bf16_with_mxfp8_mixed");
}

static void precision_parts_name_the_recipe(void **state)
{
    (void)state;
    recipe_set_system(r, MEGATRON_LM, "test");
    set("mixed_precision.bf16=true");
    set("mixed_precision.fp8=hybrid");
    set("mixed_precision.fp8_recipe=blockwise");
    precision_derive(r);
    assert_true(recipe_is(r, K_PRECISION, "bf16_with_fp8_subchannel_scaling_mixed"));
}

static void precision_follows_the_machine(void **state)
{
    (void)state;
    set("cluster.gpu=cpu");
    precision_derive(r);
    assert_true(recipe_is(r, K_PRECISION, "fp32"));
    assert_false(recipe_on(r, K_BF16));
}

static void selective_without_modules_is_megatrons(void **state)
{
    (void)state;
    set("model.recompute_granularity=selective");
    recipe_derive(r);
    assert_string_equal(value_text(a, r->knob[K_RECOMPUTE_MODULES].v), "[core_attn]");
    assert_int_equal(r->knob[K_RECOMPUTE_MODULES].from, FROM_DERIVED);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(values_read_back),
        TEST(numbers_that_do_not_fit_are_errors),
        TEST(every_row_is_complete),
        TEST(flags_belong_to_one_meaning),
        TEST(ranges_have_two_ends),
        TEST(nearest_key_knows_sections),
        TEST(text_stays_as_it_is_written),
        TEST(items_of_text_stay_as_they_are_written),
        TEST(text_has_spaces_and_quotes_and_may_be_taken_back),
        TEST(later_layers_win),
        TEST(null_reopens_or_means_none),
        TEST(spellings_of_the_guides_are_taken),
        TEST(aliases_are_remembered),
        TEST(wrong_input_is_named),
        TEST(yaml_mistakes_have_lines),
        TEST(yaml_aliases_share_values),
        TEST(precision_names_set_their_parts),
        TEST(precision_parts_name_the_recipe),
        TEST(precision_follows_the_machine),
        TEST(selective_without_modules_is_megatrons),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

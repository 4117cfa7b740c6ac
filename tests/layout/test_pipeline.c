/* Stages: Megatron's published layouts, every kind of split, every reason why not, broken
 * strings. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "layout/pipeline.h"

static arena *scratch;

static int set_up(void **state)
{
    (void)state;
    scratch = arena_create();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    arena_destroy(scratch);
    return 0;
}

/* A recipe from overrides, separated by blanks; a layout string among them is quoted. */
static recipe recipe_of(const char *overrides)
{
    recipe r;
    error err = {""};
    recipe_init(&r, scratch, "test");
    char *text = arena_copy(scratch, overrides, strlen(overrides)), *rest = NULL;
    for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        status s = recipe_override(&r, word, "test", &err);
        if (s) print_message("%s\n", err.text);
        assert_int_equal(s, OK);
    }
    return r;
}

#define LAYERS "model.num_layers="
#define PP     " model.pipeline_model_parallel_size="
#define VPP    " model.virtual_pipeline_model_parallel_size="
#define MTP    " model.mtp_num_layers="
#define LAYOUT " model.pipeline_model_parallel_layout="
#define FIRST  " model.num_layers_in_first_pipeline_stage="
#define LAST   " model.num_layers_in_last_pipeline_stage="
#define WITH_E " model.account_for_embedding_in_pipeline_split="
#define WITH_L " model.account_for_loss_in_pipeline_split="
#define EACH   " moefold.num_layers_per_virtual_pipeline_stage="

static status derive(recipe *r)
{
    job j;
    error err = {""};
    job_of(&j, r);
    return pipeline_derive(&(resolving){r, &j}, &err);
}

static status init(pipeline *p, recipe *r)
{
    job j;
    error err = {""};
    recipe_fill_defaults(r);
    job_of(&j, r);
    return pipeline_init(p, &j, r->a, &err);
}

static pipeline resolve(recipe *r)
{
    pipeline p;
    assert_int_equal(derive(r), OK);
    assert_int_equal(init(&p, r), OK);
    return p;
}

static pipeline pipeline_of(const char *overrides)
{
    recipe r = recipe_of(overrides);
    return resolve(&r);
}

static void check_whole(const pipeline *p, int64_t layers, int64_t mtp)
{
    int64_t next = 0, n_mtp = 0, n_stages = p->pp * p->vpp;
    assert_null(p->why_not);
    assert_non_null(p->stages);
    for (int64_t i = 0; i < n_stages; i++) {
        assert_int_equal(p->stages[i].first_layer, next);
        assert_true(p->stages[i].n_layers >= 0);
        next += p->stages[i].n_layers;
        n_mtp += p->stages[i].n_mtp;
        assert_int_equal(p->stages[i].embedding, i == 0);
        assert_int_equal(p->stages[i].loss, i == n_stages - 1);
    }
    assert_int_equal(next, layers);
    assert_int_equal(n_mtp, mtp);
}

/* ---- layout strings */

typedef struct example {
    const char *overrides, *text;
    int64_t pp, vpp, layers, mtp;
} example;

static void published_layouts(void **state)
{
    (void)state;
    static const example examples[] = {
        {LAYERS "61" MTP "1" PP "16" LAYOUT "'Et*3|(tt|)*29,m|L'", "Ettt|(tt|)*29m|L", 16, 2, 61,
         1},
        {LAYERS "61" MTP "1" PP "8" LAYOUT "Et|(tt|)*30mL", "Et|(tt|)*30mL", 8, 4, 61, 1},
        {LAYERS "61" MTP "1" PP "4" LAYOUT "Et*4|(tttt|)*14tmL", "Et*4|(t*4|)*14tmL", 4, 4, 61, 1},
        {LAYERS "48" MTP "1" PP "2" LAYOUT "Et*4|(t*7|)*5t*8|tmL", "Et*4|(t*7|)*5t*8|tmL", 2, 4, 48,
         1},
        {LAYERS "3" PP "3" LAYOUT "Et|tt|L", "Et|tt|L", 3, 1, 3, 0},
        {LAYERS "2" PP "8" LAYOUT "E|t|t|||||L", "E|t|t|||||L", 8, 1, 2, 0},
    };
    for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++) {
        const example *e = &examples[i];
        recipe r = recipe_of(e->overrides);
        pipeline p = resolve(&r);
        check_whole(&p, e->layers, e->mtp);
        assert_int_equal(p.pp, e->pp);
        assert_int_equal(p.vpp, e->vpp);
        assert_int_equal(recipe_int(&r, K_VPP), e->vpp);
        assert_int_equal(r.knob[K_VPP].from, FROM_DERIVED);
        assert_string_equal(pipeline_text(scratch, &p), e->text);
    }
}

static void a_stage_knows_its_layers(void **state)
{
    (void)state;
    pipeline p = pipeline_of(LAYERS "61" MTP "1" PP "16" LAYOUT "'Et*3|(tt|)*29,m|L'");
    assert_int_equal(p.stages[0].n_layers, 3);
    assert_int_equal(p.stages[16].first_layer, 33); /* chunk 1 of rank 0 */
    assert_int_equal(p.stages[29].first_layer, 59);
    assert_int_equal(p.stages[30].n_mtp, 1); /* chunk 1 of rank 14, apart from the loss */
    assert_int_equal(p.stages[30].n_layers, 0);
    assert_false(p.stages[30].loss);
    assert_true(p.stages[31].loss);
}

static void text_and_parse_are_inverse(void **state)
{
    (void)state;
    uint64_t seed = 7;
    for (int round = 0; round < 500; round++) {
        int64_t n_stages = 2 + (int64_t)(seed >> 33) % 30;
        stage *stages = ARENA_ARRAY(scratch, stage, n_stages);
        for (int64_t i = 0; i < n_stages; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            if (i && seed >> 62)
                stages[i] = stages[i - 1]; /* repetitions are the rule */
            else
                stages[i].n_layers = (int64_t)(seed >> 40) % 14;
        }
        for (int64_t i = 0; i < n_stages; i++) stages[i].embedding = i == 0;
        stages[n_stages - 1].loss = true;
        stages[n_stages - 1].n_mtp = (int64_t)(seed >> 35) % 3;
        pipeline p = {.pp = n_stages, .vpp = 1, .stages = stages};
        const char *text = pipeline_text(scratch, &p), **parts;
        int n;
        error err = {""};
        assert_int_equal(pipeline_parse(scratch, text, &parts, &n, &err), OK);
        assert_int_equal(n, n_stages);
        for (int64_t i = 0; i < n_stages; i++) {
            const stage *s = &stages[i];
            assert_int_equal(strlen(parts[i]), s->n_layers + s->n_mtp + s->embedding + s->loss);
            assert_int_equal(strspn(parts[i] + s->embedding, "t"), s->n_layers);
        }
    }
}

static void nested_repetitions_unfold(void **state)
{
    (void)state;
    const char **parts;
    int n;
    error err = {""};
    assert_int_equal(pipeline_parse(scratch, " E , ((t*2|)*2 m|)*2 L", &parts, &n, &err), OK);
    assert_int_equal(n, 7);
    static const char *const expected[] = {"Ett", "tt", "m", "tt", "tt", "m", "L"};
    for (int i = 0; i < n; i++) assert_string_equal(parts[i], expected[i]);
}

typedef struct broken {
    const char *text, *part; /* of the message */
} broken;

static void broken_strings_name_the_column(void **state)
{
    (void)state;
    static const broken cases[] = {
        {"", "column 1: the layout is empty"},
        {"Et|xL", "column 4: stages are made of"},
        {"Et|(tt|*30L", "column 4: this parenthesis is never closed"},
        {"Et|(tt|", "column 4: this parenthesis is never closed"},
        {"Et|tt)*2L", "column 6: this parenthesis was never opened"},
        {"Et|(tt|)L", "column 4: these parentheses need *n"},
        {"Et|()*3L", "column 4: these parentheses are empty"},
        {"Et*|L", "column 3: a number belongs after *"},
        {"Et*0|L", "column 3: a repetition is a number"},
        {"Et*-1|L", "column 3: a number belongs"},
        {"Et*99999999999999999999999|L", "column 3: a repetition is a number"},
        {"Et*2*2|L", "column 5: stages are made of"},
        {"*2", "column 1: stages are made of"},
        {"2*t", "column 1: stages are made of"},
        {"E(((t*1000)*1000)*1000)*1000L", "more stages and layers"},
        {"E(|)*65536L", "more stages than any model"},
        {"((((((((((((((((((t)*1)*1)*1)*1)*1)*1)*1)*1)*1)*1)*1)*1)*1)*1)*1)*1)*1)*1",
         "column 17: too many parentheses"},
        {"Et\xff", "column 3: stages are made of"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char **parts = NULL;
        int n = -1;
        error err = {""};
        assert_int_equal(pipeline_parse(scratch, cases[i].text, &parts, &n, &err), ERR_INPUT);
        if (!strstr(err.text, cases[i].part)) print_message("%s\n", err.text);
        assert_non_null(strstr(err.text, cases[i].part));
        assert_null(parts);
        assert_int_equal(n, -1);
    }
    recipe r = recipe_of(LAYERS "2" PP "2");
    recipe_set(&r, K_PP_LAYOUT, value_of_text("Et|(tL"), "test");
    pipeline p;
    assert_int_equal(derive(&r), ERR_INPUT);
    assert_int_equal(init(&p, &r), ERR_INPUT);
}

/* ---- splits */

static void expect_layers(const char *overrides, const int64_t *layers, int64_t n_stages)
{
    pipeline p = pipeline_of(overrides);
    if (p.why_not) print_message("%s: %s\n", overrides, p.why_not);
    assert_null(p.why_not);
    assert_int_equal(p.pp * p.vpp, n_stages);
    int64_t sum = 0;
    for (int64_t i = 0; i < n_stages; i++) {
        assert_int_equal(p.stages[i].n_layers, layers[i]);
        sum += layers[i];
    }
    check_whole(&p, sum, p.stages[n_stages - 1].n_mtp);
}

#define EXPECT(overrides, ...)                                                                     \
    expect_layers(overrides, (const int64_t[]){__VA_ARGS__},                                       \
                  sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

static void splits_are_those_of_megatron(void **state)
{
    (void)state;
    EXPECT(LAYERS "8" PP "4", 2, 2, 2, 2);
    EXPECT(LAYERS "8" PP "2" VPP "2", 2, 2, 2, 2);
    EXPECT(LAYERS "8" PP "2" EACH "2", 2, 2, 2, 2);
    EXPECT(LAYERS "8" PP "2" EACH "4", 4, 4);
    EXPECT(LAYERS "7" PP "1" MTP "1", 7);
    EXPECT(LAYERS "7" PP "3" FIRST "3", 3, 2, 2);
    EXPECT(LAYERS "7" PP "3" LAST "1", 3, 3, 1);
    EXPECT(LAYERS "7" PP "3" FIRST "4" LAST "1", 4, 2, 1);
    EXPECT(LAYERS "5" PP "2" FIRST "4" LAST "1", 4, 1);
    EXPECT(LAYERS "12" PP "3" VPP "2" FIRST "2" LAST "4", 1, 3, 2, 1, 3, 2);
    EXPECT(LAYERS "6" PP "4" WITH_E "true" WITH_L "true", 1, 2, 2, 1);
    EXPECT(LAYERS "7" PP "4" WITH_E "true", 1, 2, 2, 2);
    EXPECT(LAYERS "7" PP "4" WITH_L "true", 2, 2, 2, 1);
    EXPECT(LAYERS "6" PP "2" VPP "2" WITH_E "true" WITH_L "true", 1, 2, 2, 1);
    EXPECT(LAYERS "6" PP "2" EACH "2" WITH_E "true" WITH_L "true", 1, 2, 2, 1);
    EXPECT(LAYERS "2" PP "4" WITH_E "true" WITH_L "true", 0, 1, 1, 0);
    EXPECT(LAYERS "4" PP "2" VPP "1", 2, 2);
}

static void refused(const char *overrides, const char *part)
{
    recipe r = recipe_of(overrides);
    pipeline p;
    recipe_set_system(&r, MEGATRON_LM, "test"); /* which derives no other split */
    assert_int_equal(derive(&r), OK);
    assert_int_equal(init(&p, &r), OK);
    if (!p.why_not || !strstr(p.why_not, part))
        print_message("%s: %s\n", overrides, p.why_not ? p.why_not : "not refused");
    assert_non_null(p.why_not);
    assert_non_null(strstr(p.why_not, part));
    assert_null(p.stages);
    assert_true(p.vpp >= 1);
}

static void forbidden_splits_say_why(void **state)
{
    (void)state;
    refused(LAYERS "0" PP "2", "model.num_layers=0");
    refused(LAYERS "-3" PP "2", "model.num_layers=-3");
    refused(LAYERS "8" PP "0", "model.pipeline_model_parallel_size=0");
    refused(LAYERS "8" PP "-2", "model.pipeline_model_parallel_size=-2");
    refused(LAYERS "8" PP "2" VPP "0", "model.virtual_pipeline_model_parallel_size=0");
    refused(LAYERS "8" PP "2" MTP "-1", "model.mtp_num_layers=-1");
    refused(LAYERS "8" PP "9223372036854775807" VPP "9223372036854775807",
            "more than 65536 stages");
    refused(LAYERS "61" PP "8", "61 layers (model.num_layers=61) do not divide by");
    refused(LAYERS "61" PP "8" WITH_E "true", "62 layers with the embedding");
    refused(LAYERS "61" PP "8" WITH_L "true", "62 layers with the loss");
    refused(LAYERS "61" PP "8" WITH_E "true" WITH_L "true", "63 layers with embedding and loss");
    refused(LAYERS "62" PP "8" VPP "3" WITH_E "true" WITH_L "true", "8 layers a pipeline rank");
    refused(LAYERS "8" PP "4" VPP "3", "2 layers a pipeline rank");
    refused(LAYERS "8" PP "4" FIRST "0", "stage=0; at least one layer");
    refused(LAYERS "8" PP "4" LAST "-1", "stage=-1; at least one layer");
    refused(LAYERS "8" PP "4" VPP "2" FIRST "3", "is not a multiple of");
    refused(LAYERS "8" PP "4" FIRST "9", "first_pipeline_stage=9 is more than model.num_layers=8");
    refused(LAYERS "8" PP "4" LAST "9223372036854775807",
            "last_pipeline_stage=9223372036854775807");
    refused(LAYERS "8" PP "4" FIRST "4" LAST "4", "0 layers remain for 2 pipeline ranks");
    refused(LAYERS "8" PP "2" FIRST "4" LAST "3", "1 layers remain for 0 pipeline ranks");
    refused(LAYERS "8" PP "1" FIRST "4" LAST "4", "0 layers remain for -1 pipeline ranks");
    refused(LAYERS "8" PP "4" FIRST "6" LAST "5", "-3 layers remain");
    refused(LAYERS "8" PP "4" FIRST "1", "7 layers do not divide by 3");
    refused(LAYERS "11" PP "4" VPP "2" FIRST "2", "3 layers of a rank in the middle");
    refused(LAYERS "8" PP "4" FIRST "2" WITH_E "true", "exclude each other");
    refused(LAYERS "8" PP "4" LAST "2" WITH_L "true", "exclude each other");
    refused(LAYERS "8" PP "4" EACH "1" FIRST "2", "exclude each other");
    refused(LAYERS "8" PP "4" EACH "0", "stage=0");
    refused(LAYERS "9" PP "4" EACH "1", "9 layers do not divide");
    refused(LAYERS "8" PP "4" EACH "3", "2 layers a pipeline rank do not divide");
}

static void forbidden_layouts_say_why(void **state)
{
    (void)state;
    refused(LAYERS "4" PP "2" LAYOUT "Ett|ttL" FIRST "2", "exclude each other");
    refused(LAYERS "4" PP "2" LAYOUT "Ett|ttL" WITH_L "true", "exclude each other");
    refused(LAYERS "4" PP "2" LAYOUT "Ett|t|tL", "has 3 stages, not a multiple of");
    refused(LAYERS "4" PP "2" VPP "4" LAYOUT "Et|t|t|tL", "has 4 stages, 2 for each of");
    refused(LAYERS "4" PP "0" LAYOUT "Ett|ttL", "model.pipeline_model_parallel_size=0");
    refused(LAYERS "4" PP "2" LAYOUT "'|'", "has bars only");
    refused(LAYERS "4" PP "2" LAYOUT "tEt|ttL", "begins with t, not with E");
    refused(LAYERS "4" PP "2" LAYOUT "Ett|tLt", "ends with t, not with L");
    refused(LAYERS "4" PP "2" LAYOUT "Ett|EttL", "has 2 E; there is one");
    refused(LAYERS "4" PP "2" LAYOUT "EttL|ttL", "has 2 L; there is one");
    refused(LAYERS "5" PP "2" LAYOUT "Ett|ttL", "count(t)=4 in");
    refused(LAYERS "61" PP "2" LAYOUT "Et*30|t*30L", "but model.num_layers=61");
    refused(LAYERS "4" PP "2" MTP "1" LAYOUT "Ett|ttL", "count(m)=0 in");
    refused(LAYERS "4" PP "2" LAYOUT "Ett|ttmL", "but model.mtp_num_layers=0");
    refused(LAYERS "4" PP "2" MTP "1" LAYOUT "Ett|mttL", "has a t after an m");
    refused(LAYERS "4" PP "3" MTP "2" LAYOUT "Etttt|m|mL", "has m in 2 stages");
    refused(LAYERS "4" PP "2" MTP "1" LAYOUT "Etttt|m||L", "in chunk 0 of pipeline rank 1");
    refused(LAYERS "4" PP "2" MTP "1" LAYOUT "Ett|tt|m|L", "m on pipeline rank 0");
}

/* ---- what is derived */

static void derived(const char *overrides, bool e, bool l, const char *layout)
{
    recipe r = recipe_of(overrides);
    pipeline p = resolve(&r);
    assert_null(p.why_not);
    assert_int_equal(recipe_on(&r, K_ACCOUNT_EMBEDDING), e);
    assert_int_equal(recipe_on(&r, K_ACCOUNT_LOSS), l);
    if (layout)
        assert_string_equal(recipe_word(&r, K_PP_LAYOUT), layout);
    else
        assert_null(recipe_word(&r, K_PP_LAYOUT));
    if (e) assert_int_equal(r.knob[K_ACCOUNT_EMBEDDING].from, FROM_DERIVED);
    if (layout) assert_int_equal(r.knob[K_PP_LAYOUT].from, FROM_DERIVED);
    if (layout) assert_non_null(strstr(r.knob[K_PP_LAYOUT].why, "do not divide"));
    check_whole(&p, recipe_int(&r, K_LAYERS), recipe_int(&r, K_MTP));
}

static void what_does_not_divide_is_split_and_said(void **state)
{
    (void)state;
    derived(LAYERS "64" PP "8", false, false, NULL);
    derived(LAYERS "62" PP "8", true, true, NULL);
    derived(LAYERS "62" PP "8" VPP "4", true, true, NULL);
    derived(LAYERS "63" PP "8", true, false, NULL);
    derived(LAYERS "61" PP "8" VPP "4", false, false, "Et|(tt|)*30L");
    derived(LAYERS "61" PP "8" VPP "4" MTP "1", false, false, "Et|(tt|)*30mL");
    derived(LAYERS "61" PP "3", true, true, NULL);
    derived(LAYERS "62" PP "8" WITH_E "false", false, false, "Et*7|(t*8|)*6t*7L");
    derived(LAYERS "2" PP "8", false, false, "E|t|t|||||L");
    derived(LAYERS "1" PP "2" VPP "2", false, false, "E|t||L");
}

static void what_was_said_is_kept(void **state)
{
    (void)state;
    pipeline p;
    static const char *const said[] = {LAYERS "61" PP "8" FIRST "3",
                                       LAYERS "61" PP "8" WITH_L "true",
                                       LAYERS "61" PP "8" EACH "2"};
    for (int i = 0; i < 3; i++) {
        recipe r = recipe_of(said[i]);
        assert_int_equal(derive(&r), OK);
        assert_int_equal(r.knob[K_PP_LAYOUT].from, FROM_NOTHING);
        assert_int_equal(r.knob[K_ACCOUNT_EMBEDDING].from, FROM_NOTHING);
        assert_int_equal(init(&p, &r), OK);
        assert_non_null(p.why_not);
    }
    recipe lm = recipe_of(LAYERS "61" PP "8");
    recipe_set_system(&lm, MEGATRON_LM, "test");
    assert_int_equal(derive(&lm), OK);
    assert_int_equal(lm.knob[K_PP_LAYOUT].from, FROM_NOTHING);
}

/* No stage is more than one unit above another, unless what must be last alone exceeds the
 * share. */
static void balanced_is_balanced(void **state)
{
    (void)state;
    assert_string_equal(pipeline_balanced(scratch, 61, 1, 32), "Et|(tt|)*30mL");
    assert_string_equal(pipeline_balanced(scratch, 61, 0, 32), "Et|(tt|)*30L");
    assert_string_equal(pipeline_balanced(scratch, 61, 1, 1), "Et*61mL");
    for (int64_t layers = 1; layers < 40; layers++) {
        for (int64_t mtp = 0; mtp < 4; mtp++) {
            for (int64_t n_stages = 1; n_stages < 20; n_stages++) {
                recipe r = recipe_of("");
                recipe_set(&r, K_LAYERS, value_of_int(layers), "");
                recipe_set(&r, K_MTP, value_of_int(mtp), "");
                recipe_set(&r, K_PP, value_of_int(n_stages), "");
                const char *text = pipeline_balanced(scratch, layers, mtp, n_stages);
                recipe_set(&r, K_PP_LAYOUT, value_of_text(text), "");
                pipeline p = resolve(&r);
                check_whole(&p, layers, mtp);
                int64_t most = 0, least = INT64_MAX;
                for (int64_t i = 0; i < n_stages; i++) {
                    const stage *s = &p.stages[i];
                    int64_t load = s->n_layers + s->n_mtp + s->embedding + s->loss;
                    if (load == mtp + 1 && s->loss) continue;
                    if (load > most) most = load;
                    if (load < least) least = load;
                }
                assert_true(most == 0 || most - least <= 1);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_layouts),
        cmocka_unit_test(a_stage_knows_its_layers),
        cmocka_unit_test(text_and_parse_are_inverse),
        cmocka_unit_test(nested_repetitions_unfold),
        cmocka_unit_test(broken_strings_name_the_column),
        cmocka_unit_test(splits_are_those_of_megatron),
        cmocka_unit_test(forbidden_splits_say_why),
        cmocka_unit_test(forbidden_layouts_say_why),
        cmocka_unit_test(what_does_not_divide_is_split_and_said),
        cmocka_unit_test(what_was_said_is_kept),
        cmocka_unit_test(balanced_is_balanced),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

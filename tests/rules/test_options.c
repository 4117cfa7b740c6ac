/* Every flag of Megatron-LM and key of Megatron-Bridge that sets no knob, and every knob with one
 * value that our runtime runs: with a value that would change weights, data or what runs, a run of
 * ours is refused by that name, and the repair repairs it. */
#include "config/models/models.h"
#include "rules/testing.h"

#include <stdlib.h>

#include "config/megatron.h"
#include "config/megatron_table.h"
#include "config/target.h"

#define ALL  IDLE_ALL
#define NONE IDLE_NONE
static const idle_option options[] = {
#define F(flag, arity, why, harmless) {flag, ARITY_##arity, WHY_##why, harmless},
#define K(key, why, harmless)         F(key, 1, why, harmless)
#define O(section, name, arity, why, harmless)                                                     \
    F("--" name, arity, why, harmless) K(section "." name, why, harmless)
#define N(section, name, why) F("--no-" name, 0, why, ALL) K(section "." name, why, ALL)
#define D(section, name, why) N(section, name, why) F("--disable-" name, 0, why, ALL)
#include "config/megatron_options.def"
};
enum { N_OPTIONS = sizeof options / sizeof options[0] };

/* Of the tables; a key has _ where its row has a dash. */
static idle_option option_at(arena *a, int i)
{
    idle_option o = options[i];
    if (text_starts(o.name, "--")) return o;
    char *key = arena_copy(a, o.name, strlen(o.name));
    for (char *c = key; *c; c++)
        if (*c == '-') *c = '_';
    o.name = key;
    return o;
}

/* A recipe for our own runtime or Megatron's, and what its rules say of one option. */
typedef struct asked {
    arena *a;
    recipe r;
    setup s;
    violations found;
} asked;

static asked *ask(const char *runtime)
{
    asked *x = calloc(1, sizeof *x);
    error err;
    x->a = arena_create();
    recipe_init(&x->r, x->a, "option");
    recipe_set(&x->r, K_MODEL, value_of_text("tiny"), "test");
    recipe_set(&x->r, K_TARGET, value_of_text(runtime), "test");
    if (text_equal(runtime, "moefold")) recipe_set(&x->r, K_GPU, value_of_text("cpu"), "test");
    if (model_fill(&x->r, &err)) fail_msg("%s", err.text);
    return x;
}

static void forget(asked *x)
{
    arena_destroy(x->a);
    free(x);
}

/* As the command line or a file would give it. */
static void give(asked *x, const idle_option *o, const char *text)
{
    error err;
    int used;
    char *words[] = {(char *)o->name, (char *)text};
    status s;
    if (!text_starts(o->name, "--"))
        s = recipe_override(&x->r, arena_text(x->a, "%s=%s", o->name, text), "test", &err);
    else
        s = megatron_flag(&x->r, o->arity == ARITY_0 ? 1 : 2, words, "test", &used, &err);
    if (s) fail_msg("%s %s: %s", o->name, text, err.text);
}

/* The error that names it; NULL: none. */
static const violation *refusal(asked *x, const char *name)
{
    error err;
    if (setup_init(&x->s, &x->r, x->a, &err)) fail_msg("%s: %s", name, err.text);
    rules_check(&x->found, &x->s, false, x->a);
    for (int i = 0; i < x->found.n_errors; i++)
        if (strcmp(x->found.list[i].rule->id, "target-can-run") == 0 &&
            text_starts(x->found.list[i].message, name))
            return &x->found.list[i];
    return NULL;
}

static void repairs(const violation *v, asked *x, const char *name)
{
    error err;
    if (v->n_repairs != 1) fail_msg("%s: %d repairs", name, v->n_repairs);
    const char *const *words = edits_words(v->repairs[0], x->r.a);
    for (const char *const *p = words; *p; p++)
        if (recipe_override(&x->r, *p, "repair", &err)) fail_msg("%s: %s", name, err.text);
    if (refusal(x, name)) fail_msg("%s: %s does not repair it", name, words[0]);
}

/* A value that no table knows. */
static const char other[] = "17.25";

static void options_that_change_results_are_refused(void **state)
{
    (void)state;
    int n_refused = 0;
    for (int i = 0; i < N_OPTIONS; i++) {
        asked *ours = ask("moefold"), *megatron = ask("megatron");
        const idle_option option = option_at(ours->a, i), *o = &option;
        give(ours, o, other);
        give(megatron, o, other);
        const violation *v = refusal(ours, o->name);
        if (!v != !o->harmless) fail_msg("%s: %s", o->name, v ? v->message : "not refused");
        if (refusal(megatron, o->name)) fail_msg("%s is refused for Megatron", o->name);
        if (v) repairs(v, ours, o->name);
        n_refused += v != NULL;
        forget(ours);
        forget(megatron);
    }
    assert_true(n_refused >= 160);
}

static void harmless_values_are_not_refused(void **state)
{
    (void)state;
    for (int i = 0; i < N_OPTIONS; i++) {
        arena *a = arena_create();
        const idle_option option = option_at(a, i), *o = &option;
        for (const char *p = o->harmless; p && *p && o->arity != ARITY_0; p += *p == '|') {
            asked *x = ask("moefold");
            size_t n = strcspn(p, "|");
            give(x, o, other);
            give(x, o, arena_copy(x->a, p, n)); /* the later one counts */
            if (refusal(x, o->name)) fail_msg("%s: %s is refused", o->name, p);
            forget(x);
            p += n;
        }
        arena_destroy(a);
    }
}

static void false_is_harmless_unless_true_is(void **state)
{
    (void)state;
    const struct {
        const char *key, *text;
        bool refused;
    } cases[] = {
        {"dataset.do_validation", "false", true},
        {"dataset.do_validation", "True", false},
        {"model.qk_clip", "False", false},
        {"model.qk_clip", "true", true},
        {"peft", "null", false},
        {"peft.dim", "8", true},
        {"dataset.dataset_kwargs", "{}", false},
        {"dataset.dataset_kwargs", "{a:1}", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        asked *x = ask("moefold");
        give(x, &(idle_option){.name = cases[i].key, .arity = ARITY_1}, cases[i].text);
        if (!refusal(x, cases[i].key) == cases[i].refused)
            fail_msg("%s=%s", cases[i].key, cases[i].text);
        forget(x);
    }
}

/* ---- knobs with one value that is run */

static const char *other_value(asked *x, knob_id k)
{
    static const struct {
        knob_id k;
        const char *text;
    } given[] = {{K_RAMPUP, "[1,1,4]"}, {K_SKIP_ITERS, "[2]"}, {K_WANDB, "x"}, {K_RETAIN, "7"}};
    for (size_t i = 0; i < sizeof given / sizeof given[0]; i++)
        if (given[i].k == k) return given[i].text;
    if (knobs[k].kind == BOOL) return text_equal(knobs[k].only, "true") ? "false" : "true";
    if (knobs[k].kind == FLOAT) return "0.25";
    return arena_text(x->a, "%d", 3);
}

static void knobs_with_one_value_are_refused_with_others(void **state)
{
    (void)state;
    for (int k = 0; k < K_COUNT; k++) {
        error err;
        if (!knobs[k].only) continue;
        asked *x = ask("moefold");
        const char *word = arena_text(x->a, "%s=%s", knobs[k].key, other_value(x, (knob_id)k));
        if (recipe_override(&x->r, word, "test", &err)) fail_msg("%s: %s", word, err.text);
        const violation *v = refusal(x, knobs[k].key);
        if (!v) fail_msg("%s is not refused", word);
        repairs(v, x, knobs[k].key);
        forget(x);
    }
}

/* Megatron-LM's dropout, where nobody says a word of it: one line, no error. */
static void unset_defaults_are_one_line(void **state)
{
    (void)state;
    error err;
    asked *x = ask("moefold");
    recipe_init(&x->r, x->a, "defaults");
    if (recipe_read_yaml(&x->r, "tests/data/megatron-defaults.yaml", &err))
        fail_msg("%s", err.text);
    assert_null(refusal(x, "model."));
    int n = 0;
    for (int i = 0; i < x->found.n; i++)
        if (strcmp(x->found.list[i].rule->id, "default-is-left-out") == 0) {
            n++;
            assert_int_equal(x->found.list[i].rule->severity, WARNING);
            assert_non_null(strstr(x->found.list[i].message,
                                   "model.attention_dropout=0.1, model.hidden_dropout=0.1 (default "
                                   "of Megatron-LM)"));
        }
    assert_int_equal(n, 1);
    forget(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_that_change_results_are_refused),
        cmocka_unit_test(harmless_values_are_not_refused),
        cmocka_unit_test(false_is_harmless_unless_true_is),
        cmocka_unit_test(knobs_with_one_value_are_refused_with_others),
        cmocka_unit_test(unset_defaults_are_one_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

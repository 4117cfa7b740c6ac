/* testing.h - a recipe, resolved as far as the model needs it, in one call. */
#ifndef TESTS_MODEL_TESTING_H
#define TESTS_MODEL_TESTING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "config/models/models.h"
#include "model/model.h"
#include "model/params.h"

#define GOLDEN "tests/data/golden/"

static const char *const golden_cases[] = {
    "qwen3-moe-tiny", "deepseek-v3-tiny", "qwen3-next-tiny",
    "mixtral-tiny",   "gpt-oss-tiny",     "mtp-tiny",
    "glm4-moe-tiny",  "deepseek-v2-tiny", "deepseek-v2-lite-tiny",
    "qwen2-moe-tiny", "olmoe-tiny",       "minimax-m2-tiny",
    "qwen3-tiny",     "llama-tiny",       "starcoder2-tiny",
    "qwen2-tiny",     "mistral-tiny"};
enum { N_GOLDEN = sizeof golden_cases / sizeof golden_cases[0] };

typedef struct made {
    arena *a;
    recipe r;
    model m;
    param_table t;
    error err;
} made;

/* Overrides are separated by spaces. */
static inline void made_override(made *x, const char *overrides)
{
    for (const char *p = overrides; p && *p;) {
        size_t n = strcspn(p, " ");
        if (recipe_override(&x->r, arena_copy(x->a, p, n), "test", &x->err))
            fail_msg("%s", x->err.text);
        p += n + strspn(p + n, " ");
    }
}

/* Model and overrides (both may be NULL) to a model and its table, or the first failure. */
static inline status made_init(made *x, const char *name, const char *overrides)
{
    memset(x, 0, sizeof *x);
    x->a = arena_create();
    recipe_init(&x->r, x->a, "test");
    if (name) recipe_set(&x->r, K_MODEL, value_of_text(name), "test");
    made_override(x, overrides);
    status s = model_fill(&x->r, &x->err);
    if (s) return s;
    job j;
    model_resolve(&x->r, &j);
    s = model_init(&x->m, &j, x->a, &x->err);
    if (!s) param_table_init(&x->t, &x->m, x->a);
    return s;
}

static inline void made_good(made *x, const char *name, const char *overrides)
{
    if (made_init(x, name, overrides)) fail_msg("%s: %s", name ? name : "custom", x->err.text);
}

static inline void made_release(made *x)
{
    arena_destroy(x->a);
}

/* Single quotes spare the reader of a test a thousand backslashes. */
static inline char *with_quotes(arena *a, const char *text)
{
    char *copy = arena_copy(a, text, strlen(text));
    for (char *p = copy; *p; p++)
        if (*p == '\'') *p = '"';
    return copy;
}

/* A reference case's config.json with some fields replaced; the value 'REMOVED' takes one out. */
static inline char *patched(arena *a, const char *name, const char *patch)
{
    json_t *root = json_load_file(arena_text(a, GOLDEN "%s/config.json", name), 0, NULL);
    json_t *changes = json_loads(with_quotes(a, patch), 0, NULL), *v;
    const char *field;
    if (!root || !changes) fail_msg("%s: %s", name, patch);
    json_object_foreach(changes, field, v)
    {
        const char *word = json_string_value(v);
        if (word && strcmp(word, "REMOVED") == 0)
            json_object_del(root, field);
        else
            json_object_set(root, field, v);
    }
    char *text = json_dumps(root, 0), *copy = arena_copy(a, text, strlen(text));
    free(text);
    json_decref(root);
    json_decref(changes);
    return copy;
}

static inline void assert_has(const char *text, const char *part)
{
    if (!strstr(text, part)) fail_msg("'%s' does not hold '%s'", text, part);
}

/* Billions of parameters, as text: of a model, and of those that work for each token. */
typedef struct totals {
    const char *model, *total, *active;
} totals;

static inline void assert_totals(const totals *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        made x;
        char total[32], active[32];
        made_good(&x, list[i].model, NULL);
        param_totals counted = param_count(&x.t);
        snprintf(total, sizeof total, "%.2f", (double)counted.total / 1e9);
        snprintf(active, sizeof active, "%.2f", (double)counted.active / 1e9);
        assert_string_equal(total, list[i].total);
        assert_string_equal(active, list[i].active);
        made_release(&x);
    }
}

#endif

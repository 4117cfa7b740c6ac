/* testing.h - a recipe as the command line makes it, checked, in one call.
 *
 * A base is "[lm] preset|recipe.yaml|arguments.txt [ID=value ...]": a .txt file is an argument list
 * of Megatron-LM, and `lm` reads anything else as if it were one. Settings are written with the
 * short names of knobs.def or with keys. */
#ifndef TESTS_RULES_TESTING_H
#define TESTS_RULES_TESTING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "config/models/models.h"
#include "config/megatron.h"
#include "rules/rules.h"

typedef struct made {
    arena *a;
    recipe wrote; /* as people wrote it, before model_fill */
    recipe r;
    setup s;
    violations found;
    error err;
} made;

/* "TP=2" -> "model.tensor_model_parallel_size=2" */
static inline const char *with_key(arena *a, const char *assignment)
{
    size_t n = strcspn(assignment, "=");
    for (int k = 0; k < K_COUNT; k++)
        if (strlen(knobs[k].id) == n && strncmp(knobs[k].id, assignment, n) == 0)
            return arena_text(a, "%s%s", knobs[k].key, assignment + n);
    return assignment;
}

static inline status made_name(made *x, const char *name)
{
    if (strstr(name, ".yaml")) return recipe_read_yaml(&x->wrote, name, &x->err);
    if (strstr(name, ".txt")) return megatron_read(&x->wrote, name, &x->err);
    recipe_set(&x->wrote, K_MODEL, value_of_text(name), "test");
    return OK;
}

/* Words of a base or of overrides, separated by blanks. */
static inline status made_words(made *x, const char *words)
{
    status st = OK;
    for (const char *p = words + strspn(words, " "); *p && !st;) {
        size_t n = strcspn(p, " ");
        const char *word = arena_copy(x->a, p, n);
        if (strcmp(word, "lm") == 0)
            recipe_set_system(&x->wrote, MEGATRON_LM, "test");
        else if (strchr(word, '='))
            st = recipe_override(&x->wrote, with_key(x->a, word), "test", &x->err);
        else
            st = made_name(x, word);
        p += n + strspn(p + n, " ");
    }
    return st;
}

static inline void made_begin(made *x)
{
    memset(x, 0, sizeof *x);
    x->a = arena_create();
    recipe_init(&x->wrote, x->a, "test");
}

/* Fills and resolves what was written. Everything is taken from `a`. */
static inline status made_resolve(made *x)
{
    x->r = x->wrote;
    status st = model_fill(&x->r, &x->err);
    return st ? st : setup_init(&x->s, &x->r, x->a, &x->err);
}

static inline status made_init(made *x, const char *base, const char *overrides)
{
    made_begin(x);
    status st = made_words(x, base);
    if (!st) st = made_words(x, overrides);
    if (!st) st = made_resolve(x);
    if (!st) rules_check(&x->found, &x->s, false, x->a);
    return st;
}

static inline void made_good(made *x, const char *base, const char *overrides)
{
    if (made_init(x, base, overrides)) fail_msg("%s | %s: %s", base, overrides, x->err.text);
}

static inline void made_release(made *x)
{
    arena_destroy(x->a);
}

static inline int times_reported(const violations *found, const char *id)
{
    int n = 0;
    for (int i = 0; i < found->n; i++) n += strcmp(found->list[i].rule->id, id) == 0;
    return n;
}

static inline const violation *find_violation(const violations *found, const char *id)
{
    for (int i = 0; i < found->n; i++)
        if (strcmp(found->list[i].rule->id, id) == 0) return &found->list[i];
    return NULL;
}

static inline int count_words(const char *const *list)
{
    int n = 0;
    while (list && list[n]) n++;
    return n;
}

/* The recipe with overrides after all others, as `moefold check RECIPE ... overrides` has it. The
 * result lives in its own arena; release it. */
static inline status made_again(made *out, const made *x, const char *const *overrides)
{
    memset(out, 0, sizeof *out);
    out->a = arena_create();
    out->wrote = x->wrote;
    out->wrote.a = out->a;
    status st = OK;
    for (; *overrides && !st; overrides++)
        st = recipe_override(&out->wrote, *overrides, "repair", &out->err);
    if (!st) st = made_resolve(out);
    if (!st) rules_check(&out->found, &out->s, false, out->a);
    return st;
}

static inline void print_errors(const violations *found)
{
    for (int i = 0; i < found->n; i++)
        if (found->list[i].rule->severity == ERROR)
            print_message("    %s: %s\n", found->list[i].rule->id, found->list[i].message);
}

/* What rules_fix finds, as words; NULL: nothing. */
static inline const char *const *fix_words(const recipe *given, arena *a)
{
    edits e;
    return rules_fix(given, a, &e) ? edits_words(e, a) : NULL;
}

#endif

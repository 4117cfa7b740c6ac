/* testing.h - a program from a few words. */
#ifndef TESTS_IR_TESTING_H
#define TESTS_IR_TESTING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "config/models/models.h"
#include "ir/program.h"

/* The reference cases of all families, and the tiny preset with options of its own. */
static const char *const family_cases[] = {
    "tests/data/golden/qwen3-moe-tiny",  "tests/data/golden/deepseek-v3-tiny",
    "tests/data/golden/qwen3-next-tiny", "tests/data/golden/mixtral-tiny",
    "tests/data/golden/gpt-oss-tiny",    "tests/data/golden/mtp-tiny"};
enum { N_FAMILY_CASES = sizeof family_cases / sizeof family_cases[0] };

/* `words` are overrides separated by spaces. Fails the test where they cannot be read. */
static inline void setup_of_words(setup *s, arena *a, const char *model_name, const char *words)
{
    recipe *r = ARENA_NEW(a, recipe);
    error err = {{0}};
    recipe_init(r, a, model_name);
    recipe_set(r, K_MODEL, value_of_text(model_name), "test");
    status st = recipe_override(r, "cluster.gpu=cpu", "test", &err);
    for (const char *w = words; *w && !st;) {
        size_t n = strcspn(w, " ");
        if (n) st = recipe_override(r, arena_copy(a, w, n), "test", &err);
        w += n + strspn(w + n, " ");
    }
    if (!st) st = model_fill(r, &err);
    if (!st) st = setup_init(s, r, a, &err);
    if (st) fail_msg("%s %s: %s", model_name, words, err.text);
}

/* The program of the first rank. */
static inline void program_of(program *p, setup *s, arena *a, const char *model_name,
                              const char *words)
{
    setup_of_words(s, a, model_name, words);
    program_build(p, s, 0, a);
}

/* How many operations of each kind the first rank's program has. */
static inline void count_kinds(int by_kind[OP_COUNT], const char *model_name, const char *words)
{
    arena *a = arena_create();
    setup *s = ARENA_NEW(a, setup);
    program p;
    memset(by_kind, 0, sizeof *by_kind * OP_COUNT);
    program_of(&p, s, a, model_name, words);
    for (int i = 0; i < p.n_segments; i++)
        for (int phase = 0; phase < 2; phase++)
            for (int k = 0; k < p.segments[i]->n_ops[phase]; k++)
                by_kind[p.segments[i]->ops[phase][k].kind]++;
    arena_destroy(a);
}

#endif

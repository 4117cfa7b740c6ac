/* fuzz_fix.c - from a recipe file to its repair.
 *
 * I1  What rules_fix gives are overrides that can be read and that leave no error. */
#include "fuzz/mutate.h"

#include "config/models/models.h"
#include "rules/rules.h"

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned int seed)
{
    return mutate_recipe(data, n, max, seed);
}

/* The number of errors that rules find, or -1 when the recipe cannot be read. */
static int errors_of(const recipe *given, arena *a, bool shown)
{
    recipe *r = ARENA_NEW(a, recipe);
    setup *s = ARENA_NEW(a, setup);
    error err = {0};
    *r = *given;
    if (model_fill(r, &err) || setup_init(s, r, a, &err)) {
        if (shown) fprintf(stderr, "%s\n", err.text);
        return -1;
    }
    violations found;
    rules_check(&found, s, false, a);
    for (int i = 0; shown && i < found.n; i++) {
        const violation *v = &found.list[i];
        fprintf(stderr, "%s: %s: %s\n", severity_name(v->rule->severity), v->rule->id, v->message);
    }
    return found.n_errors;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    arena *a = arena_create();
    recipe *r = ARENA_NEW(a, recipe);
    recipe_init(r, a, "fuzz.yaml");
    error err = {0};
    status st = recipe_parse_yaml(r, "fuzz.yaml", (const char *)data, n, &err);
    recipe *filled = ARENA_NEW(a, recipe);
    *filled = *r;
    if (!st) st = model_fill(filled, &err);
    edits fix;
    if (!st && errors_of(r, a, false) > 0 && rules_fix(filled, a, &fix)) { /* I1 */
        const char *const *overrides = edits_words(fix, a);
        for (const char *const *o = overrides; *o; o++)
            MUST(recipe_override(r, *o, "fix", &err) == OK);
        bool autofitted = errors_of(r, a, false) == 0;
        if (!autofitted) {
            for (const char *const *o = overrides; *o; o++) fprintf(stderr, "fix: %s\n", *o);
            errors_of(r, a, true);
        }
        MUST(autofitted);
    }
    arena_destroy(a);
    return 0;
}

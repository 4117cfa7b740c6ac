/* fuzz_recipe.c - recipe files. */
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    arena *a = arena_create();
    recipe *r = ARENA_NEW(a, recipe);
    recipe_init(r, a, "fuzz.yaml");
    error err = {0};
    status s = recipe_parse_yaml(r, "fuzz.yaml", (const char *)data, n, &err);
    if (fuzz_accepted(s, &err)) fuzz_settings(r);
    arena_destroy(a);
    return 0;
}

/* fuzz_override.c - overrides on the command line, one a line. */
#include "fuzz/fuzz.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    arena *a = arena_create();
    char *line = arena_copy(a, (const char *)data, n);
    recipe *r = ARENA_NEW(a, recipe);
    recipe_init(r, a, "fuzz");
    for (char *next; line; line = next) {
        next = strchr(line, '\n');
        if (next) *next++ = 0;
        error err = {0};
        fuzz_accepted(recipe_override(r, line, "command line", &err), &err);
    }
    fuzz_settings(r);
    arena_destroy(a);
    return 0;
}

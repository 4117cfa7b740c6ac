/* fuzz_megatron.c - files with a Megatron-LM argument list. */
#include "fuzz/fuzz.h"

#include "config/megatron.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    arena *a = arena_create();
    recipe *r = ARENA_NEW(a, recipe);
    recipe_init(r, a, "args.txt");
    error err = {0};
    status s = megatron_parse(r, "args.txt", (const char *)data, n, &err);
    if (fuzz_accepted(s, &err)) fuzz_settings(r);
    arena_destroy(a);
    return 0;
}

/* fuzz_profile.c - profiles of other programs: PyTorch traces, packed or not, and Megatron's logs.
 * What is taken adds up. One of four inputs is a whole trace, or one with a single fault. */
#include "fuzz/adds_up.h"
#include "fuzz/mutate_json.h"
#include "fuzz/whole_trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    arena *a = arena_create();
    profile p;
    error err = {0};
    status s = profile_parse(&p, "fuzz.json", (const char *)data, n, a, &err);
    if (fuzz_accepted(s, &err)) fuzz_adds_up(&p, a);
    arena_destroy(a);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned int seed)
{
    char *text = mutate_random(&seed, 4) ? NULL : whole_trace(&seed, max);
    if (text) {
        n = strlen(text);
        memcpy(data, text, n);
        free(text);
        if (mutate_random(&seed, 2)) return n; /* whole */
    }
    return mutate_json(data, n, max, 0, seed);
}

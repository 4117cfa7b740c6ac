/* fuzz_profile.c - profiles of other programs: PyTorch traces, packed or not, and Megatron's logs.
 * What is taken adds up. */
#include "fuzz/mutate_json.h"

#include <math.h>

#include "profile/profile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    arena *a = arena_create();
    profile p;
    error err = {0};
    status s = profile_parse(&p, "fuzz.json", (const char *)data, n, a, &err);
    if (fuzz_accepted(s, &err)) {
        double sum = p.mixed;
        for (int k = 0; k < PROFILE_KINDS; k++) {
            MUST(isfinite(p.busy[k]) && p.busy[k] >= 0);
            sum += p.busy[k];
        }
        for (int c = 0; c < CAUSE_COUNT; c++) {
            MUST(isfinite(p.idle[c]));
            sum += p.idle[c];
        }
        MUST(isfinite(p.span) && p.span >= 0 && p.steps >= 1);
        if (p.source != SOURCE_LOG) MUST(fabs(sum - p.span) <= 1e-6 * p.span + 1e-9);
        price predicted = {.usable = 1 << 30, .peak_bytes = 1 << 20, .fits = true, .step_s = 1};
        price m;
        profile_as_price(&m, &p, &predicted, a);
    }
    arena_destroy(a);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned int seed)
{
    return mutate_json(data, n, max, 0, seed);
}

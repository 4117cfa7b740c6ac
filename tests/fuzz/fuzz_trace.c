/* fuzz_trace.c - traces, packed or not. What is taken is whole, has sums, and can be written. */
#include "fuzz/mutate_json.h"

#include <math.h>
#include <string.h>

#include "predict/trace/trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    arena *a = arena_create();
    trace t;
    error err = {0};
    status s = trace_parse(&t, "fuzz.json", (const char *)data, n, a, &err);
    if (fuzz_accepted(s, &err)) {
        MUST(t.n > 0 && t.span > 0);
        for (int64_t i = 0; i < t.n; i++) {
            const trace_op *o = &t.ops[i];
            MUST(o->name && o->kind && o->rank >= 0 && o->start >= 0 && isfinite(o->end));
            MUST(o->stream >= 0 && o->stream < t.n_streams && t.streams[o->stream]);
        }
        trace_sum *sums;
        MUST(trace_sums(&t, &sums, a) > 0);
        trace_match(&t, a);
    }
    arena_destroy(a);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned int seed)
{
    return mutate_json(data, n, max, 0, seed);
}

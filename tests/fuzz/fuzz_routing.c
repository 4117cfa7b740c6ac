/* fuzz_routing.c - recorded loads of experts. What is taken has shares and means for every EP. */
#include "fuzz/fuzz.h"

#include <math.h>

#include "predict/routing.h"

static void whole_loads(const routing *r, int64_t layer, int64_t ep, arena *a)
{
    expert_loads l = routing_of_layer(r, layer, ep, a);
    MUST(isfinite(l.skew) && l.skew > 1 - 1e-9 && l.skew < (double)ep * (1 + 1e-9));
    MUST(l.n == r->experts / ep);
    for (int64_t i = 0; l.loads && i < l.n; i++) MUST(isfinite(l.loads[i]) && l.loads[i] >= 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    arena *a = arena_create();
    routing r;
    error err = {0};
    status s = routing_parse(&r, "fuzz.json", (const char *)data, n, a, &err);
    if (fuzz_accepted(s, &err)) {
        MUST(r.experts >= 1 && r.n >= 1);
        for (int64_t ep = 1; ep <= r.experts; ep *= 2) {
            double mean = routing_skew(&r, ep);
            MUST(isfinite(mean) && mean > 1 - 1e-9);
            for (int64_t i = 0; i < r.n && r.experts % ep == 0; i++)
                whole_loads(&r, r.layers[i].layer, ep, a);
        }
    }
    arena_destroy(a);
    return 0;
}

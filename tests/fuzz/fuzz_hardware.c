/* fuzz_hardware.c - hardware files. What is taken has numbers that prices can be made of. */
#include "fuzz/fuzz.h"

#include <math.h>

#include "hardware/hardware.h"

static void whole_curve(const curve *c)
{
    MUST(c->n >= 1 && c->n <= CURVE_MAX);
    for (int i = 0; i < c->n; i++) {
        double y = curve_at(c, c->x[i]);
        MUST(isfinite(y) && y > 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    arena *a = arena_create();
    hardware h;
    error err = {0};
    status s = hardware_parse(&h, "fuzz.yaml", (const char *)data, n, a, &err);
    if (fuzz_accepted(s, &err)) {
        MUST(h.name && h.name[0] && h.n_stacks >= 1 && h.n_stacks <= CURVE_MAX);
        gpu g = hardware_gpu(&h);
        MUST(g.arch >= ARCH_CPU && g.arch <= ARCH_BLACKWELL);
        MUST(g.gpus_per_node >= 1 && g.nvlink_domain >= 1 && g.memory_bytes > 0);
        MUST(h.usable > 0 && h.usable <= h.memory);
        MUST(h.memory_bandwidth > 0 && h.node.bandwidth > 0 && h.across.bandwidth > 0);
        whole_curve(&h.memory_efficiency);
        whole_curve(&h.gemm[NUMBER_BF16]);
        whole_curve(&h.attention[0]);
        if (h.peak[NUMBER_FP8] > 0) whole_curve(&h.grouped[NUMBER_FP8]);
    }
    arena_destroy(a);
    return 0;
}

/* cluster.h - what must be known of a GPU before prices are asked: architecture, memory,
 * neighbours. */
#ifndef LAYOUT_CLUSTER_H
#define LAYOUT_CLUSTER_H

#include "recipe/recipe.h"

typedef enum gpu_arch { ARCH_CPU, ARCH_AMPERE, ARCH_HOPPER, ARCH_BLACKWELL } gpu_arch;

typedef struct gpu {
    const char *name;
    gpu_arch arch;
    int64_t memory_bytes; /* that a program sees; 0: whatever the host has */
    int64_t gpus_per_node, nvlink_domain;
} gpu;

/* NULL for an unknown name. */
const gpu *gpu_find(const char *name);

/* Fills cluster.gpus_per_node, nvlink_domain, n_gpus, ETP, sequence parallel, microbatch and
 * batch. */
void cluster_derive(recipe *r);

#endif

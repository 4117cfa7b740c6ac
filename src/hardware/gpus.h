/* gpus.h - what must be known of a GPU before prices are asked: architecture, memory,
 * neighbours. */
#ifndef HARDWARE_GPUS_H
#define HARDWARE_GPUS_H

#include <stdbool.h>
#include <stdint.h>

typedef enum gpu_arch { ARCH_CPU, ARCH_AMPERE, ARCH_HOPPER, ARCH_BLACKWELL } gpu_arch;

typedef struct gpu {
    const char *name;
    const char *path; /* the hardware file that describes it; NULL: one of the shipped names */
    gpu_arch arch;
    int64_t memory_bytes; /* that a program sees; 0: whatever the host has */
    int64_t gpus_per_node, nvlink_domain;
} gpu;

/* A shipped name, in any case; NULL for an unknown name. */
const gpu *gpu_find(const char *name);

/* The i-th of them; NULL: no more. */
const gpu *gpu_at(int i);

/* "hopper" and the like, as a hardware file writes them; false: an unknown word. */
bool gpu_arch_find(const char *word, gpu_arch *arch);
const char *gpu_arch_word(gpu_arch arch);
extern const char gpu_arch_words[]; /* for messages: "ampere, hopper, ..." */

#endif

/* probe.h - kernels of the device itself: looking at memory, and faults for tests. */
#ifndef BACKEND_CUDA_DEVICE_PROBE_H
#define BACKEND_CUDA_DEVICE_PROBE_H

#include <cuda_runtime.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* map[(bytes + 31) / 32]: bit i % 32 of word i / 32 says that byte i is not `byte`. The host may be
 * the owner of `at`, if it is pinned. */
void gpu_differ(cudaStream_t s, const void *at, int byte, int64_t bytes, uint32_t *map);

/* A kernel that ends with a fault of the GPU. */
void gpu_trap(cudaStream_t s);

#ifdef __cplusplus
}
#endif

#endif

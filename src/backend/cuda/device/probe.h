/* probe.h - a kernel of the device itself: looking at memory. */
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

#ifdef __cplusplus
}
#endif

#endif

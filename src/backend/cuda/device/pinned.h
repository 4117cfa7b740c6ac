/* pinned.h - memory of the host that the GPU copies from and to, in any size. */
#ifndef BACKEND_CUDA_DEVICE_PINNED_H
#define BACKEND_CUDA_DEVICE_PINNED_H

#include <cuda_runtime.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pinned {
    unsigned char *at; /* NULL: none */
    int64_t bytes;
    bool registered; /* memory of ours that was registered, not the driver's own */
} pinned;

/* All zeros. The calling thread's OpenMP threads help. Where it fails, *p is empty. */
cudaError_t pinned_take(pinned *p, int64_t bytes);
void pinned_give(pinned *p);

#ifdef __cplusplus
}
#endif

#endif

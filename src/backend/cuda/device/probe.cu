/* probe.cu - looking at memory. */
#include "backend/cuda/device/probe.h"

static __global__ void differ_kernel(const unsigned char *at, unsigned char byte, int64_t bytes,
                                     uint32_t *map)
{
    const int64_t words = (bytes + 31) / 32, step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t w = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; w < words; w += step) {
        uint32_t bits = 0;
        for (int i = 0; i < 32; i++)
            if (w * 32 + i < bytes && at[w * 32 + i] != byte) bits |= 1u << i;
        map[w] = bits;
    }
}

void gpu_differ(cudaStream_t s, const void *at, int byte, int64_t bytes, uint32_t *map)
{
    differ_kernel<<<1056, 256, 0, s>>>((const unsigned char *)at, (unsigned char)byte, bytes, map);
}

/* grouped_tail.cuh - zeros behind the last expert's rows of a GEMM's result. */
#ifndef BACKEND_CUDA_KERNELS_GROUPED_TAIL_CUH
#define BACKEND_CUDA_KERNELS_GROUPED_TAIL_CUH

#include "backend/cuda/kernels/device.cuh"

/* From the last expert's end on, 8 BF16 numbers a thread; blocks leave at once where there are
 * none. `wide`: 8 numbers each, of a row. */
static __global__ void clear_tail(uint4 *y, const int32_t *end, int64_t room, int64_t wide)
{
    const int64_t past = room * wide, step = (int64_t)gridDim.x * BLOCK;
    const int64_t first = (*end < room ? *end : room) * wide;
    for (int64_t i = first + (int64_t)blockIdx.x * BLOCK + threadIdx.x; i < past; i += step)
        y[i] = make_uint4(0, 0, 0, 0);
}

#endif

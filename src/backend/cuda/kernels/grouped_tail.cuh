/* grouped_tail.cuh - zeros behind the last expert's rows of a GEMM's result. */
#ifndef BACKEND_CUDA_KERNELS_GROUPED_TAIL_CUH
#define BACKEND_CUDA_KERNELS_GROUPED_TAIL_CUH

#include "backend/cuda/kernels/device.cuh"

/* From the last expert's end on, 8 BF16 numbers a thread; blocks leave at once where there are
 * none. `wide`: 8 numbers each, of a row. */
static __global__ void clear_tail_kernel(uint4 *y, const int32_t *end, int64_t room, int64_t wide)
{
    const int64_t past = room * wide, step = (int64_t)gridDim.x * BLOCK;
    const int64_t first = (*end < room ? *end : room) * wide;
    for (int64_t i = first + (int64_t)blockIdx.x * BLOCK + threadIdx.x; i < past; i += step)
        y[i] = make_uint4(0, 0, 0, 0);
}

/* Of y[rows][columns], whose last expert ends at `end`. */
static void clear_tail(const kernel_call *c, void *y, const int32_t *end, int64_t rows,
                       int64_t columns)
{
    clear_tail_kernel<<<264, BLOCK, 0, stream_of(c)>>>((uint4 *)y, end, rows, columns / 8);
}

#endif

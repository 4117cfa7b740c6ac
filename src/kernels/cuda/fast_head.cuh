/* fast_head.cuh - rows of BF16 logits: what the whole head and one that is cut over ranks share.
 *
 * A block of ROW_THREADS threads takes a row, WIDE logits a thread at a time. */
#ifndef KERNELS_CUDA_FAST_HEAD_CUH
#define KERNELS_CUDA_FAST_HEAD_CUH

#include "kernels/cuda/loss.cuh"
#include "kernels/cuda/lt.h"

enum { ROW_THREADS = 1024, ROW_WARPS = ROW_THREADS / WARP, WIDE = 8 };

/* The largest of some numbers, and the sum of the exponentials of their distances to it. */
struct tops {
    float top, sum;
};

static __device__ __forceinline__ tops join(tops a, tops b)
{
    if (a.top < b.top) {
        const tops c = a;
        a = b;
        b = c;
    }
    if (b.sum > 0) a.sum += b.sum * __expf(b.top - a.top);
    return a;
}

/* Of all threads; each gets it. */
static __device__ tops join_block(tops t)
{
    __shared__ tops parts[ROW_WARPS];
    for (int step = WARP / 2; step > 0; step /= 2) {
        const tops other = {__shfl_xor_sync(ALL_LANES, t.top, step),
                            __shfl_xor_sync(ALL_LANES, t.sum, step)};
        t = join(t, other);
    }
    if (threadIdx.x % WARP == 0) parts[threadIdx.x / WARP] = t;
    __syncthreads();
    t = parts[0];
    for (int i = 1; i < ROW_WARPS; i++) t = join(t, parts[i]);
    return t;
}

static __device__ tops tops_of_row(numbers l, int64_t n_v)
{
    tops t = {-CUDART_INF_F, 0};
#pragma unroll 4
    for (int64_t v = threadIdx.x * WIDE; v < n_v; v += ROW_THREADS * WIDE) {
        const lanes<WIDE> x = load<WIDE>(l, v);
        float top = t.top;
#pragma unroll
        for (int k = 0; k < WIDE; k++) top = fmaxf(top, x.v[k]);
        if (top > t.top) t = {top, t.sum * __expf(t.top - top)};
#pragma unroll
        for (int k = 0; k < WIDE; k++) t.sum += __expf(x.v[k] - top);
    }
    return join_block(t);
}

/* Logits become their gradient, scale * (exp(l - lse) - is label), last ones first (H2). `label`
 * may be no word of this row. */
static __device__ void row_gradient(numbers l, int64_t n_v, float lse, int64_t label, float scale)
{
    const int64_t last = (n_v / WIDE - 1) * WIDE;
#pragma unroll 4
    for (int64_t at = threadIdx.x * WIDE; at < n_v; at += ROW_THREADS * WIDE) {
        const int64_t v = last - at;
        lanes<WIDE> x = {};
        if (scale != 0) {
            x = load<WIDE>(l, v);
#pragma unroll
            for (int k = 0; k < WIDE; k++)
                x.v[k] = scale * (__expf(x.v[k] - lse) - (v + k == label ? 1.f : 0.f));
        }
        store(l, v, x);
    }
}

#endif

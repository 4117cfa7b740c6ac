/* fast_head.cuh - rows of BF16 logits: what the whole head and one that is cut over ranks share.
 *
 * A block of ROW_THREADS threads takes a row, WIDE logits a thread at a time. */
#ifndef BACKEND_CUDA_KERNELS_FAST_HEAD_CUH
#define BACKEND_CUDA_KERNELS_FAST_HEAD_CUH

#include "backend/cuda/kernels/loss.cuh"
#include "backend/cuda/kernels/lt.h"

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

/* e^x is 2^(x log2 e), whose GEMM rides on the difference: one multiply-add and one 2^x for a
 * logit, which is what binds a pass over logits beside memory. Results below 2^-126 are 0. */
#define LOG2_E 1.4426950408889634f

static __device__ __forceinline__ float two_to(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* WIDE neighbours of a row as they lie. */
static __device__ __forceinline__ uint4 neighbours(numbers l, int64_t v)
{
    return *(const uint4 *)((const __nv_bfloat16 *)l.p + v);
}

static __device__ __forceinline__ float low_of(uint32_t pair)
{
    return __uint_as_float(pair << 16);
}

static __device__ __forceinline__ float high_of(uint32_t pair)
{
    return __uint_as_float(pair & 0xffff0000u);
}

static __device__ __forceinline__ uint32_t larger_pair(uint32_t a, uint32_t b)
{
    const __nv_bfloat162 most = __hmax2(*(const __nv_bfloat162 *)&a, *(const __nv_bfloat162 *)&b);
    return *(const uint32_t *)&most;
}

static __device__ __forceinline__ tops tops_of_row(numbers l, int64_t n_v)
{
    tops t = {-CUDART_INF_F, 0};
    float minus = 0; /* - top log2 e */
#pragma unroll 4
    for (int64_t v = threadIdx.x * WIDE; v < n_v; v += ROW_THREADS * WIDE) {
        const uint4 x = neighbours(l, v);
        const uint32_t pair[WIDE / 2] = {x.x, x.y, x.z, x.w};
        const uint32_t most = larger_pair(larger_pair(x.x, x.y), larger_pair(x.z, x.w));
        const float top = fmaxf(low_of(most), high_of(most));
        if (top > t.top) {
            minus = -top * LOG2_E;
            t = {top, t.sum * two_to(t.top * LOG2_E + minus)};
        }
#pragma unroll
        for (int k = 0; k < WIDE / 2; k++)
            t.sum += two_to(low_of(pair[k]) * LOG2_E + minus) +
                     two_to(high_of(pair[k]) * LOG2_E + minus);
    }
    return join_block(t);
}

/* Logits become their gradient, scale * (exp(l - lse) - is label), last ones first (H2). `label`
 * may be no word of this row. */
static __device__ __forceinline__ void row_gradient(numbers l, int64_t n_v, float lse,
                                                    int64_t label, float scale)
{
    const int64_t last = (n_v / WIDE - 1) * WIDE;
    const float minus = -lse * LOG2_E;
#pragma unroll 4
    for (int64_t at = threadIdx.x * WIDE; at < n_v; at += ROW_THREADS * WIDE) {
        const int64_t v = last - at;
        lanes<WIDE> x = {};
        if (scale != 0) {
            const uint4 now = neighbours(l, v);
            const uint32_t pair[WIDE / 2] = {now.x, now.y, now.z, now.w};
#pragma unroll
            for (int k = 0; k < WIDE; k++) {
                const float own = k % 2 ? high_of(pair[k / 2]) : low_of(pair[k / 2]);
                x.v[k] = scale * two_to(own * LOG2_E + minus);
            }
            if (label >= v && label < v + WIDE)
#pragma unroll
                for (int k = 0; k < WIDE; k++)
                    if (v + k == label) x.v[k] -= scale;
        }
        store(l, v, x);
    }
}

#endif

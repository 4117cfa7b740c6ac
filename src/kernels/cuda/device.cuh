/* device.cuh - what every plain kernel is made of: numbers of two formats, sums of fixed order, and
 * loops over any count.
 *
 * The format of a tensor is a fact about its address here, not a type of the kernel: the branch on
 * it is the same for all threads, products and attention take it once when they fill shared memory,
 * and every mix of formats is one kernel. */
#ifndef KERNELS_CUDA_DEVICE_CUH
#define KERNELS_CUDA_DEVICE_CUH

#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <math_constants.h>

#include "kernels/cuda/cuda_rows.h"
#include "kernels/cuda/parts.h"

enum { WARP = 32, BLOCK = 256, WARPS = BLOCK / WARP };

#define ALL_LANES 0xffffffffu

/* ---- numbers */

typedef struct numbers {
    void *p; /* NULL: missing */
    bool bf16;
} numbers;

static __device__ __forceinline__ float get(numbers x, int64_t i)
{
    return x.bf16 ? __bfloat162float(((const __nv_bfloat16 *)x.p)[i]) : ((const float *)x.p)[i];
}

static __device__ __forceinline__ void put(numbers x, int64_t i, float v)
{
    if (x.bf16)
        ((__nv_bfloat16 *)x.p)[i] = __float2bfloat16(v);
    else
        ((float *)x.p)[i] = v;
}

/* Writes, or adds to what is there. */
static __device__ __forceinline__ void put_or_add(numbers x, int64_t i, float v, bool add)
{
    put(x, i, add ? get(x, i) + v : v);
}

static inline numbers in_of(const cuda_call *c, int i)
{
    return {c->in[i], c->types->in[i] == DTYPE_BF16};
}

static inline numbers out_of(const cuda_call *c, int i)
{
    return {c->out[i], c->types->out[i] == DTYPE_BF16};
}

static inline float *floats_in(const cuda_call *c, int i)
{
    return (float *)c->in[i];
}

static inline float *floats_out(const cuda_call *c, int i)
{
    return (float *)c->out[i];
}

static inline int32_t *ints_in(const cuda_call *c, int i)
{
    return (int32_t *)c->in[i];
}

static inline int32_t *ints_out(const cuda_call *c, int i)
{
    return (int32_t *)c->out[i];
}

static inline cudaStream_t stream_of(const cuda_call *c)
{
    return (cudaStream_t)c->stream;
}

/* `x`, n elements on. */
static inline __host__ __device__ numbers from(numbers x, int64_t n)
{
    return {(char *)x.p + n * (x.bf16 ? 2 : 4), x.bf16};
}

/* ---- sums; every thread gets the result */

static __device__ __forceinline__ float sum_warp(float v)
{
    for (int step = WARP / 2; step > 0; step /= 2) v += __shfl_xor_sync(ALL_LANES, v, step);
    return v;
}

static __device__ __forceinline__ float most_warp(float v)
{
    for (int step = WARP / 2; step > 0; step /= 2)
        v = fmaxf(v, __shfl_xor_sync(ALL_LANES, v, step));
    return v;
}

static __device__ __forceinline__ double sum_warp(double v)
{
    for (int step = WARP / 2; step > 0; step /= 2) v += __shfl_xor_sync(ALL_LANES, v, step);
    return v;
}

/* Over THREADS threads, a warp or a block of BLOCK: warps in their order. All must call it. */
template <int THREADS, class V> static __device__ V sum_over(V v)
{
    v = sum_warp(v);
    if (THREADS == WARP) return v;
    __shared__ V parts[WARPS];
    __syncthreads(); /* who still reads the last sum */
    if (threadIdx.x % WARP == 0) parts[threadIdx.x / WARP] = v;
    __syncthreads();
    V all = 0;
    for (int i = 0; i < WARPS; i++) all += parts[i];
    return all;
}

template <int THREADS> static __device__ float most_over(float v)
{
    v = most_warp(v);
    if (THREADS == WARP) return v;
    __shared__ float parts[WARPS];
    __syncthreads();
    if (threadIdx.x % WARP == 0) parts[threadIdx.x / WARP] = v;
    __syncthreads();
    float all = parts[0];
    for (int i = 1; i < WARPS; i++) all = fmaxf(all, parts[i]);
    return all;
}

/* ---- loops over any count: as many blocks as help, each takes every so many-th */

static inline int64_t ceil_of(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static inline unsigned blocks_of(int64_t n)
{
    const int64_t most = 1 << 16; /* enough to fill any GPU many times over */
    return (unsigned)(n < 1 ? 1 : n < most ? n : most);
}

template <class F> __global__ void each_kernel(int64_t n, F f)
{
    const int64_t step = (int64_t)gridDim.x * BLOCK;
    for (int64_t i = (int64_t)blockIdx.x * BLOCK + threadIdx.x; i < n; i += step) f(i);
}

/* f(i) for every i < n, a thread each. */
template <class F> static void for_each(const cuda_call *c, int64_t n, F f)
{
    if (n > 0) each_kernel<<<blocks_of(ceil_of(n, BLOCK)), BLOCK, 0, stream_of(c)>>>(n, f);
}

template <int THREADS, class F> __global__ void rows_kernel(int64_t n, F f)
{
    const int64_t each = BLOCK / THREADS;
    for (int64_t i = blockIdx.x * each + threadIdx.x / THREADS; i < n; i += gridDim.x * each)
        f.template row<THREADS>(i, (int)threadIdx.x % THREADS);
}

/* f.row<THREADS>(i, thread) for every row i < n: a warp a row where rows are short, else a
 * block. */
template <class F> static void for_rows(const cuda_call *c, int64_t n, int64_t width, F f)
{
    if (n <= 0) return;
    if (width <= 1024)
        rows_kernel<WARP><<<blocks_of(ceil_of(n, WARPS)), BLOCK, 0, stream_of(c)>>>(n, f);
    else
        rows_kernel<BLOCK><<<blocks_of(n), BLOCK, 0, stream_of(c)>>>(n, f);
}

/* ---- functions */

static __device__ __forceinline__ float sigmoid(float x)
{
    return 1 / (1 + expf(-x));
}

static __device__ __forceinline__ float silu(float x)
{
    return x * sigmoid(x);
}

static __device__ __forceinline__ float silu_slope(float x)
{
    const float s = sigmoid(x);
    return s * (1 + x * (1 - s));
}

static __device__ __forceinline__ float softplus(float x)
{
    return fmaxf(x, 0) + log1pf(expf(-fabsf(x)));
}

/* Room of n bytes in a workspace: what follows is aligned again. */
static inline int64_t room_of(int64_t bytes)
{
    return ceil_of(bytes, 256) * 256;
}

#define PART(rows)                                                                                 \
    {                                                                                              \
        rows, (int)(sizeof rows / sizeof rows[0])                                                  \
    }

#endif

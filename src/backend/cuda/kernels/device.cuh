/* device.cuh - what every plain kernel is made of: numbers of two formats, sums of fixed order, and
 * loops over any count.
 *
 * The format of a tensor is a fact about its address here, not a type of the kernel: the branch on
 * it is the same for all threads, GEMMs and attention take it once when they fill shared memory,
 * and every mix of formats is one kernel. */
#ifndef BACKEND_CUDA_KERNELS_DEVICE_CUH
#define BACKEND_CUDA_KERNELS_DEVICE_CUH

#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <math_constants.h>

#include "backend/cuda/kernels/cuda_rows.h"
#include "backend/cuda/kernels/parts.h"

enum { WARP = 32, BLOCK = 256, WARPS = BLOCK / WARP };

#define ALL_LANES 0xffffffffu

/* ---- numbers */

typedef struct numbers {
    void *p; /* NULL: missing */
    bool bf16;
    /* What is FP32 always, though others of its kind need not be: gradients of weights. */
    __host__ __device__ float *floats() const
    {
        return (float *)p;
    }
} numbers;

/* An FP32 operand among others. */
static inline __host__ __device__ numbers as_numbers(const float *p)
{
    return {(void *)p, false};
}

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

/* W neighbours at once, as one access of memory where W is more than one: then i must be a multiple
 * of W, and the tensor lie at a multiple of 16 bytes. */
template <int W> struct lanes {
    float v[W];
};

template <int W> static __device__ __forceinline__ lanes<W> load(numbers x, int64_t i)
{
    lanes<W> a;
    if constexpr (W == 1) {
        a.v[0] = get(x, i);
    } else if (x.bf16) {
        uint32_t pair[W / 2];
        if constexpr (W == 8)
            *(uint4 *)pair = *(const uint4 *)((const __nv_bfloat16 *)x.p + i);
        else
            *(uint2 *)pair = *(const uint2 *)((const __nv_bfloat16 *)x.p + i);
#pragma unroll
        for (int k = 0; k < W; k++)
            a.v[k] = __uint_as_float(k % 2 ? pair[k / 2] & 0xffff0000u : pair[k / 2] << 16);
    } else {
#pragma unroll
        for (int k = 0; k < W; k += 4)
            *(float4 *)(a.v + k) = *(const float4 *)((const float *)x.p + i + k);
    }
    return a;
}

template <int W> static __device__ __forceinline__ void store(numbers x, int64_t i, lanes<W> a)
{
    if constexpr (W == 1) {
        put(x, i, a.v[0]);
    } else if (x.bf16) {
        uint32_t pair[W / 2];
#pragma unroll
        for (int k = 0; k < W / 2; k++) {
            const __nv_bfloat162 two = __floats2bfloat162_rn(a.v[2 * k], a.v[2 * k + 1]);
            pair[k] = *(const uint32_t *)&two;
        }
        if constexpr (W == 8)
            *(uint4 *)((__nv_bfloat16 *)x.p + i) = *(const uint4 *)pair;
        else
            *(uint2 *)((__nv_bfloat16 *)x.p + i) = *(const uint2 *)pair;
    } else {
#pragma unroll
        for (int k = 0; k < W; k += 4)
            *(float4 *)((float *)x.p + i + k) = *(const float4 *)(a.v + k);
    }
}

/* Writes, or adds to what is there. */
template <int W>
static __device__ __forceinline__ void store_or_add(numbers x, int64_t i, lanes<W> a, bool add)
{
    if (add) {
        const lanes<W> old = load<W>(x, i);
#pragma unroll
        for (int k = 0; k < W; k++) a.v[k] += old.v[k];
    }
    store(x, i, a);
}

/* Operands by name: op_norm_of(c) is a struct with those of a NORM (op/op_launch.h). A functor that
 * begins with one is launched on it, and filled by operands(c, &functor): `struct norm_rows :
 * op_norm`. */
static inline numbers in_of(const kernel_call *c, int i)
{
    return {c->in[i], c->types->in[i] == DTYPE_BF16};
}

static inline numbers out_of(const kernel_call *c, int i)
{
    return {c->out[i], c->types->out[i] == DTYPE_BF16};
}

#include "op/op_launch.h"

static inline cudaStream_t stream_of(const kernel_call *c)
{
    return (cudaStream_t)c->stream;
}

/* Where a weight gradient of n elements is written whole by a kernel that adds: zeros first. */
static inline void clear_first(const kernel_call *c, int64_t n)
{
    if (c->o->flags & OVERWRITE)
        cudaMemsetAsync(c->out[0], 0, (size_t)n * (c->types->out[0] == DTYPE_BF16 ? 2 : 4),
                        stream_of(c));
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

static __device__ __forceinline__ float warp_max(float v)
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
    v = warp_max(v);
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
template <class F> static void for_each(const kernel_call *c, int64_t n, F f)
{
    if (n > 0) each_kernel<<<blocks_of(ceil_of(n, BLOCK)), BLOCK, 0, stream_of(c)>>>(n, f);
}

template <int THREADS, int W, class F> __global__ void rows_kernel(int64_t n, F f)
{
    const int64_t each = BLOCK / THREADS;
    for (int64_t i = blockIdx.x * each + threadIdx.x / THREADS; i < n; i += gridDim.x * each)
        f.template row<THREADS, W>(i, (int)threadIdx.x % THREADS);
}

template <int W, class F>
static void for_rows_by(const kernel_call *c, int64_t n, int64_t width, F f)
{
    if (width <= WARP * 32 * (W > 1 ? 4 : 1))
        rows_kernel<WARP, W><<<blocks_of(ceil_of(n, WARPS)), BLOCK, 0, stream_of(c)>>>(n, f);
    else
        rows_kernel<BLOCK, W><<<blocks_of(n), BLOCK, 0, stream_of(c)>>>(n, f);
}

/* Can all of an operation's tensors be read W at a time? Rows then begin at multiples of W. */
static inline bool all_aligned(const kernel_call *c)
{
    uintptr_t all = 0;
    for (int i = 0; i < OP_IN_MAX; i++) all |= (uintptr_t)c->in[i];
    for (int i = 0; i < OP_OUT_MAX; i++) all |= (uintptr_t)c->out[i];
    return all % 16 == 0;
}

/* f.row<THREADS, W>(i, thread) for every row i < n, W neighbours a thread where all rows of
 * `width` allow it: a warp a row where rows are short, else a block. */
template <class F> static void for_rows(const kernel_call *c, int64_t n, int64_t width, F f)
{
    if (n <= 0) return;
    if (width % 8 == 0 && width >= WARP * 8 && all_aligned(c))
        for_rows_by<8>(c, n, width, f);
    else if (width % 4 == 0 && all_aligned(c))
        for_rows_by<4>(c, n, width, f);
    else
        for_rows_by<1>(c, n, width, f);
}

/* f.row for rows that are read one number at a time. */
template <class F> static void for_narrow_rows(const kernel_call *c, int64_t n, int64_t width, F f)
{
    if (n > 0) for_rows_by<1>(c, n, width, f);
}

/* to[row][j] = from[row][j], j < width, of rows that lie so many numbers apart. */
struct row_copy {
    numbers to, from;
    int64_t to_step, from_step, width;
    template <int THREADS, int W> __device__ void row(int64_t i, int thread) const
    {
        for (int64_t j = thread * W; j < width; j += THREADS * W)
            store(to, i * to_step + j, load<W>(from, i * from_step + j));
    }
};

static inline void copy_rows(const kernel_call *c, int64_t n, const row_copy &r)
{
    const uintptr_t places = (uintptr_t)r.to.p | (uintptr_t)r.from.p;
    const bool wide = places % 16 == 0 && (r.to_step | r.from_step | r.width) % 8 == 0;
    if (n > 0 && wide)
        for_rows_by<8>(c, n, r.width, r);
    else if (n > 0)
        for_rows_by<1>(c, n, r.width, r);
}

/* ---- functions */

static __device__ __forceinline__ float sigmoid(float x)
{
    return __fdividef(1, 1 + expf(-x)); /* two units in the last place, a third of the time */
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

/* A library refused what it had accepted before: CUDA's last error then says so, which whoever
 * launches looks at. */
static inline void launch_failed(const kernel_call *c)
{
    (void)cudaLaunchKernel((const void *)NULL, dim3(1), dim3(1), NULL, 0, stream_of(c));
}

/* A row's answer to `prepare`: `what` this GPU was to do for the operation. */
static inline status gpu_can(const char *what, cudaError_t e, const op *o, error *err)
{
    if (e == cudaSuccess) return OK;
    return error_set(err, ERR_MACHINE, "%s: this GPU cannot %s: %s",
                     o->name ? o->name : op_infos[o->kind].name, what, cudaGetErrorString(e));
}

/* `row` for another kind that it implements. */
static inline kernel row_of(op_kind kind, kernel row)
{
    row.kind = kind;
    return row;
}

#define PART(rows)                                                                                 \
    {                                                                                              \
        rows, (int)(sizeof rows / sizeof rows[0])                                                  \
    }

/* Rows rounded up to a multiple of ALIGN; 0 and 1 leave them. */
static __host__ __device__ inline int64_t aligned_rows(int64_t rows, int64_t align)
{
    return align > 1 ? (rows + align - 1) / align * align : rows;
}

#endif

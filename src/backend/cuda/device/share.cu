/* share.cu - see share.h. A thread reads all that it needs of an element before it writes one. */
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "backend/cuda/device/share.h"

enum { THREADS = 256, MOST_COPIES = 32, MOST_BLOCKS = 264 };

struct copies {
    issue_copy list[MOST_COPIES];
};

template <class WORD>
static __device__ void copy_words(const issue_copy &c, int64_t first, int64_t step)
{
    const int64_t n = c.bytes / (int64_t)sizeof(WORD);
    const WORD *from = (const WORD *)c.from;
    WORD *to = (WORD *)c.to;
    for (int64_t i = first; i < n; i += step) to[i] = from[i];
}

/* Blocks (x, y): x of those that are at copy y. */
static __global__ void move_kernel(const __grid_constant__ copies all)
{
    const issue_copy &c = all.list[blockIdx.y];
    const int64_t first = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    const uintptr_t odd = (uintptr_t)c.to | (uintptr_t)c.from | (uintptr_t)c.bytes;
    if (odd % 16 == 0)
        copy_words<uint4>(c, first, step);
    else if (odd % 4 == 0)
        copy_words<uint32_t>(c, first, step);
    else
        copy_words<unsigned char>(c, first, step);
}

static unsigned blocks_for(int64_t units, int shares)
{
    int64_t n = (units + THREADS - 1) / THREADS, most = MOST_BLOCKS / shares;
    if (most < 1) most = 1;
    return (unsigned)(n < 1 ? 1 : n < most ? n : most);
}

void share_move(cudaStream_t s, const issue_copy *list, int n)
{
    for (int first = 0; first < n; first += MOST_COPIES) {
        copies c;
        int64_t most = 0;
        const int count = n - first < MOST_COPIES ? n - first : MOST_COPIES;
        for (int i = 0; i < count; i++) {
            c.list[i] = list[first + i];
            if (c.list[i].bytes > most) most = c.list[i].bytes;
        }
        const dim3 grid(blocks_for((most + 15) / 16, count), (unsigned)count);
        move_kernel<<<grid, THREADS, 0, s>>>(c);
    }
}

/* ---- sums */

template <class T> struct wide {
    typedef T type;
    static __device__ T from(T x)
    {
        return x;
    }
    static __device__ T to(T x)
    {
        return x;
    }
};

template <> struct wide<__nv_bfloat16> {
    typedef float type;
    static __device__ float from(__nv_bfloat16 x)
    {
        return __bfloat162float(x);
    }
    static __device__ __nv_bfloat16 to(float x)
    {
        return __float2bfloat16_rn(x);
    }
};

template <> struct wide<__half> {
    typedef float type;
    static __device__ float from(__half x)
    {
        return __half2float(x);
    }
    static __device__ __half to(float x)
    {
        return __float2half_rn(x);
    }
};

template <class T> static __global__ void sum_kernel(const __grid_constant__ issue_sum x)
{
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < x.n; i += step) {
        typename wide<T>::type sum = wide<T>::from(((const T *)x.from[0])[i]);
        for (int q = 1; q < x.n_from; q++) sum += wide<T>::from(((const T *)x.from[q])[i]);
        const T result = wide<T>::to(sum);
        for (int q = 0; q < x.n_to; q++) ((T *)x.to[q])[i] = result;
    }
}

void share_sum(cudaStream_t s, const issue_sum *x)
{
    const unsigned blocks = blocks_for(x->n, 1);
    switch (x->type) {
    case DTYPE_F32:
        sum_kernel<float><<<blocks, THREADS, 0, s>>>(*x);
        break;
    case DTYPE_F64:
        sum_kernel<double><<<blocks, THREADS, 0, s>>>(*x);
        break;
    case DTYPE_I32:
        sum_kernel<uint32_t><<<blocks, THREADS, 0, s>>>(*x);
        break;
    case DTYPE_BF16:
        sum_kernel<__nv_bfloat16><<<blocks, THREADS, 0, s>>>(*x);
        break;
    default: /* comm_can lets no other pass */
        sum_kernel<__half><<<blocks, THREADS, 0, s>>>(*x);
    }
}

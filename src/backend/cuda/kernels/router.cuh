/* router.cuh - scores of experts and the choice among them, a warp a token.
 *
 * Ties go to the lowest index, and ids are different experts whatever the scores are, as on the
 * CPU: so the best are found as there, one expert after another, by one lane. The other lanes
 * make the scores. A token's scores and lists lie in shared memory, SCRATCH times E words. */
#ifndef BACKEND_CUDA_KERNELS_ROUTER_CUH
#define BACKEND_CUDA_KERNELS_ROUTER_CUH

#include "backend/cuda/kernels/device.cuh"

enum { SCRATCH = 4, EXPERTS_MOST = 4096 };

/* The guard of a sum of scores. */
#define TINY 1e-20f

static __device__ bool own_scores(unsigned flags)
{
    return flags & (SIGMOID | SQRT_SOFTPLUS);
}

static __device__ float score_of(unsigned flags, float logit)
{
    if (flags & SIGMOID) return sigmoid(logit);
    return sqrtf(logit > 20 ? logit : log1pf(expf(logit)));
}

static __device__ float score_slope(unsigned flags, float logit, float score)
{
    if (flags & SIGMOID) return score * (1 - score);
    return score > 0 ? sigmoid(logit) / (2 * score) : 0;
}

/* The largest of x[n], or not a number if the first is not; and the sum of exponentials below it.
 * `at(i)` gives x[i]. */
struct softmax {
    float top, sum;
};

template <class X> static __device__ softmax softmax_of(int64_t n, int lane, const X &at)
{
    float top = at(0), sum = 0;
    for (int64_t i = lane; i < n; i += WARP) top = at(i) > top ? at(i) : top;
    top = warp_max(top);
    for (int64_t i = lane; i < n; i += WARP) sum += expf(at(i) - top);
    return {top, sum_warp(sum)};
}

/* The k <= n largest of v[n], best first, equal ones by index; for one lane. */
static __device__ void best_of(const float *v, int64_t n, int64_t k, int32_t *ids)
{
    for (int64_t e = 0; e < n; e++) {
        int64_t place = e < k ? e : k;
        for (; place > 0 && v[e] > v[ids[place - 1]]; place--)
            if (place < k) ids[place] = ids[place - 1];
        if (place < k) ids[place] = (int32_t)e;
    }
}

/* How many experts count for the score of their group: at least one. */
static inline int64_t experts_scored(const op_router &o)
{
    if (o.GROUP_TOPK <= 0) return 0;
    const int64_t size = o.E / o.GROUPS;
    int64_t n = o.flags & BEST_TWO ? 2 : o.flags & BEST_ONE ? 1 : o.K / o.GROUP_TOPK;
    if (n < 1) n = 1;
    return n < size ? n : size;
}

/* f.token(t, lane, scratch) for every token, with SCRATCH * E words of shared memory. */
template <class F> __global__ void tokens_kernel(int64_t n, int64_t n_experts, F f)
{
    extern __shared__ float scratch[];
    const int64_t warps = blockDim.x / WARP, warp = threadIdx.x / WARP;
    for (int64_t t = blockIdx.x * warps + warp; t < n; t += gridDim.x * warps) {
        f.token(t, (int)threadIdx.x % WARP, scratch + warp * SCRATCH * n_experts);
        __syncwarp();
    }
}

template <class F>
static void for_tokens(const kernel_call *c, int64_t n, int64_t n_experts, const F &f)
{
    const int64_t bytes = SCRATCH * 4 * n_experts, room = 48 << 10;
    const int64_t fit = bytes > 0 ? room / bytes : WARPS;
    const int64_t warps = fit < 1 ? 1 : fit < WARPS ? fit : WARPS;
    if (n <= 0) return;
    cudaFuncSetAttribute(tokens_kernel<F>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         SCRATCH * 4 * EXPERTS_MOST);
    tokens_kernel<<<blocks_of(ceil_of(n, warps)), (unsigned)(warps * WARP), (size_t)(warps * bytes),
                    stream_of(c)>>>(n, n_experts, f);
}

#endif

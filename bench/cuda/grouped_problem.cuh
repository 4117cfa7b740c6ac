/* grouped_problem.cuh - what the programs of the expert GEMMs share: a GEMM and its data, the
 * launch of our kernel, row counts, random numbers. */
#ifndef BENCH_CUDA_GROUPED_PROBLEM_CUH
#define BENCH_CUDA_GROUPED_PROBLEM_CUH

#include "common.h"
#include "backend/cuda/kernels/grouped_launch.cuh"

typedef __nv_bfloat16 bf16;

typedef struct {
    const char *name;
    int kind, m, n, k; /* k: summed over (forward, data gradient); m: weight gradient's rows */
} gemm;

typedef struct {
    const bf16 *a, *b;
    void *c;
    const int *first_row; /* [n_experts + 1], device */
    const int *host_counts;
    int n_experts, n_rows;
    gemm p;
} problem;

/* ---- launches ---- */

template <int KIND, int OUT, int CLUSTER, int STAGES>
static void ours(void *problem_, cudaStream_t stream)
{
    const problem *q = (const problem *)problem_;
    const grouped_call call = {
        q->a, q->b, {q->first_row, q->c, q->n_experts, q->n_rows, q->p.m, q->p.n, q->p.k}};
    CHECK((grouped_launch<KIND, OUT, CLUSTER, STAGES>(call, stream)));
}

/* ---- random numbers ---- */

__device__ __forceinline__ uint32_t hash(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return (uint32_t)(x ^ (x >> 31));
}

/* Sums of four uniform numbers: near enough to normal, deviation 1. */
__global__ void fill_random(bf16 *x, size_t n, uint64_t seed)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
         i += (size_t)gridDim.x * blockDim.x) {
        uint32_t h = hash(i + (seed << 40)), g = hash(i + (seed << 40) + (1ull << 39));
        float s = (float)(h & 0xffff) + (float)(h >> 16) + (float)(g & 0xffff) + (float)(g >> 16);
        x[i] = __float2bfloat16((s / 65536.0f - 2.0f) * 1.7320508f);
    }
}

/* ---- row counts ---- */

/* Rows of expert e. */
static int even_rows(int e)
{
    (void)e;
    return 2048;
}

static int skewed_rows(int e)
{
    const int left = 262144 - 32 * 4005, light = e - e / 4 - 1;
    return e % 4 ? left * (light + 1) / 96 - left * light / 96 : 4005;
}

#endif

/* grouped_problem.cuh - what the programs of the expert GEMMs share: a product and its data, the
 * launch of our kernel, row counts, random numbers. */
#ifndef BENCH_CUDA_GROUPED_PROBLEM_CUH
#define BENCH_CUDA_GROUPED_PROBLEM_CUH

#include "common.h"
#include "tensor_map.h"
#include "grouped_gemm.cuh"

typedef __nv_bfloat16 bf16;

typedef struct {
    const char *name;
    int kind, m, n, k; /* k: summed over (forward, data gradient); m: weight gradient's rows */
} product;

typedef struct {
    const bf16 *a, *b;
    void *c;
    const int *counts; /* device */
    const int *host_counts;
    int n_experts, n_rows;
    product p;
} problem;

/* ---- launches ---- */

template <int KIND, int CLUSTER> static void make_maps(const problem *q, CUtensorMap map[3])
{
    const product p = q->p;
    uint64_t t = (uint64_t)q->n_rows, n = (uint64_t)p.n, k = (uint64_t)p.k, m = (uint64_t)p.m;
    uint64_t e = (uint64_t)q->n_experts;
    const uint32_t part = TILE_N / CLUSTER;
    tensor_shape a, b, c;
    if (KIND == GEMM_WEIGHT)
        a = {3, {64, t, m / 64}, {1, m, 64}, {64, TILE_K, TILE_M / 64}};
    else
        a = {2, {k, t}, {1, k}, {TILE_K, TILE_M}};
    if (KIND == GEMM_FORWARD)
        b = {3, {k, n, e}, {1, k, n * k}, {TILE_K, part, 1}};
    else if (KIND == GEMM_DATA)
        b = {4, {64, k, n / 64, e}, {1, n, 64, n * k}, {64, TILE_K, part / 64, 1}};
    else
        b = {3, {64, t, n / 64}, {1, n, 64}, {64, TILE_K, part / 64}};
    if (KIND == GEMM_WEIGHT)
        c = {3, {n, m, e}, {1, n, n * m}, {64, HALF_M, 1}};
    else
        c = {2, {n, t}, {1, n}, {64, HALF_M}};
    map[0] = tensor_map((void *)q->a, a);
    map[1] = tensor_map((void *)q->b, b);
    map[2] = tensor_map(q->c, c);
}

/* A persistent grid; `n_clusters`, 0 at first, keeps how many run at the same time. */
template <int CLUSTER, typename KERNEL, typename... ARGS>
static void launch(KERNEL kernel, int *n_clusters, int bytes, cudaStream_t stream, ARGS... args)
{
    cudaLaunchAttribute cluster = {};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = CLUSTER;
    cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(CLUSTER);
    config.blockDim = dim3(GEMM_THREADS);
    config.dynamicSmemBytes = (size_t)bytes;
    config.stream = stream;
    config.attrs = &cluster;
    config.numAttrs = 1;
    if (!*n_clusters) {
        CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
        CHECK(cudaOccupancyMaxActiveClusters(n_clusters, kernel, &config));
    }
    config.gridDim = dim3((unsigned)(*n_clusters * CLUSTER));
    CHECK(cudaLaunchKernelEx(&config, kernel, args...));
}

template <int KIND, int OUT, int CLUSTER, int STAGES>
static void ours(void *problem_, cudaStream_t stream)
{
    static int n_clusters;
    const problem *q = (const problem *)problem_;
    CUtensorMap map[3];
    make_maps<KIND, CLUSTER>(q, map);
    gemm_args g = {q->counts, q->c, q->n_experts, q->p.m, q->p.n, q->p.k};
    launch<CLUSTER>(grouped_gemm<KIND, OUT, CLUSTER, STAGES>, &n_clusters,
                    (int)sizeof(gemm_shared<STAGES>), stream, map[0], map[1], map[2], g);
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

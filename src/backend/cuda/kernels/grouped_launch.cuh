/* grouped_launch.cuh - from addresses and sizes to a launch of grouped_gemm.cuh. */
#ifndef BACKEND_CUDA_KERNELS_GROUPED_LAUNCH_CUH
#define BACKEND_CUDA_KERNELS_GROUPED_LAUNCH_CUH

#include "backend/cuda/kernels/grouped_gemm.cuh"
#include "backend/cuda/kernels/tensor_map.cuh"

/* Dimensions as grouped_gemm.cuh has them: m only for the weight gradient, k for the others. The
 * copy engine wants addresses at multiples of 16 bytes, rows of multiples of 8 numbers and, of what
 * lies with the result's dimension contiguous, multiples of 64. */
typedef struct {
    const void *a, *b;
    gemm_args g;
} grouped_call;

/* Columns of a tile: the narrower one where that leaves at least 3 % less to compute. */
static inline int tile_width(int64_t n)
{
    const int64_t wide = (n + TILE_N - 1) / TILE_N * TILE_N,
                  narrow = (n + NARROW_N - 1) / NARROW_N * NARROW_N;
    return 100 * narrow <= 97 * wide ? NARROW_N : TILE_N;
}

template <int KIND, int CLUSTER, int WIDTH = TILE_N>
static bool make_maps(const grouped_call &q, CUtensorMap map[3])
{
    const uint64_t t = (uint64_t)q.g.rows, n = (uint64_t)q.g.n, k = (uint64_t)q.g.k;
    const uint64_t m = (uint64_t)q.g.m, e = (uint64_t)q.g.n_experts;
    const uint32_t part = TILE_N / CLUSTER;
    tensor_shape a, b, c;
    if (KIND == GEMM_WEIGHT)
        a = {3, {64, t, m / 64}, {1, m, 64}, {64, TILE_K, TILE_M / 64}};
    else if (KIND == GEMM_WEIGHT_FP8)
        a = {2, {t / 2, m}, {1, t / 2}, {TILE_K, TILE_M}};
    else
        a = {2, {k, t}, {1, k}, {TILE_K, TILE_M}};
    if (in_boxes(KIND, WIDTH) && KIND == GEMM_DATA)
        b = {3, {n, k, e}, {1, n, n * k}, {64, TILE_K, 1}};
    else if (in_boxes(KIND, WIDTH))
        b = {2, {n, t}, {1, n}, {64, TILE_K}};
    else if (KIND == GEMM_FORWARD)
        b = {3, {k, n, e}, {1, k, n * k}, {TILE_K, part, 1}};
    else if (KIND == GEMM_DATA)
        b = {4, {64, k, n / 64, e}, {1, n, 64, n * k}, {64, TILE_K, part / 64, 1}};
    else if (KIND == GEMM_WEIGHT_FP8)
        b = {2, {t / 2, n}, {1, t / 2}, {TILE_K, part}};
    else
        b = {3, {64, t, n / 64}, {1, n, 64}, {64, TILE_K, part / 64}};
    if (is_weight(KIND))
        c = {3, {n, m, e}, {1, n, n * m}, {64, HALF_M, 1}};
    else
        c = {2, {n, t}, {1, n}, {64, HALF_M}};
    return tensor_map(&map[0], q.a, a) && tensor_map(&map[1], q.b, b) &&
           tensor_map(&map[2], q.g.c, c);
}

/* A persistent grid: as many clusters as run at the same time, which `n_clusters`, 0 at first,
 * keeps. Without arguments nothing is launched, only prepared. */
template <int CLUSTER, typename KERNEL, typename... ARGS>
static cudaError_t launch_clusters(KERNEL kernel, int *n_clusters, int bytes, cudaStream_t stream,
                                   ARGS... args)
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
        cudaError_t e =
            cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
        if (e == cudaSuccess) e = cudaOccupancyMaxActiveClusters(n_clusters, kernel, &config);
        if (e != cudaSuccess) return e;
    }
    if constexpr (sizeof...(args) == 0) {
        return cudaSuccess;
    } else {
        config.gridDim = dim3((unsigned)(*n_clusters * CLUSTER));
        return cudaLaunchKernelEx(&config, kernel, args...);
    }
}

template <int KIND, int OUT, int CLUSTER, int STAGES, int WIDTH> static int *clusters_kept(void)
{
    static int n;
    return &n;
}

template <int KIND, int OUT, int CLUSTER, int STAGES, int WIDTH, typename... ARGS>
static cudaError_t launch_width(cudaStream_t stream, ARGS... args)
{
    return launch_clusters<CLUSTER>(grouped_gemm<KIND, OUT, CLUSTER, STAGES, WIDTH>,
                                    clusters_kept<KIND, OUT, CLUSTER, STAGES, WIDTH>(),
                                    (int)sizeof(gemm_shared<STAGES>), stream, args...);
}

/* Once before the first launch: none may be made in the middle of a capture. */
template <int KIND, int OUT, int CLUSTER = 2, int STAGES = 4>
static cudaError_t grouped_prepare(void)
{
    if (!tensor_map_encoder()) return cudaErrorNotSupported;
    const cudaError_t e = launch_width<KIND, OUT, CLUSTER, STAGES, NARROW_N>(0);
    return e != cudaSuccess ? e : launch_width<KIND, OUT, CLUSTER, STAGES, TILE_N>(0);
}

template <int KIND, int OUT, int CLUSTER = 2, int STAGES = 4>
static cudaError_t grouped_launch(const grouped_call &q, cudaStream_t stream)
{
    CUtensorMap map[3];
    const bool narrow = tile_width(q.g.n) == NARROW_N;
    if (narrow ? !make_maps<KIND, CLUSTER, NARROW_N>(q, map) : !make_maps<KIND, CLUSTER>(q, map))
        return cudaErrorInvalidValue;
    return narrow ? launch_width<KIND, OUT, CLUSTER, STAGES, NARROW_N>(stream, map[0], map[1],
                                                                       map[2], q.g)
                  : launch_width<KIND, OUT, CLUSTER, STAGES, TILE_N>(stream, map[0], map[1], map[2],
                                                                     q.g);
}

/* ---- by kind: weight gradients are FP32, and added where they are not written */

template <int KIND> static cudaError_t gemm_prepare(bool writes)
{
    if constexpr (KIND != GEMM_WEIGHT) return grouped_prepare<KIND, OUT_BF16>();
    return writes ? grouped_prepare<GEMM_WEIGHT, OUT_FP32>()
                  : grouped_prepare<GEMM_WEIGHT, OUT_FP32_ADD>();
}

template <int KIND>
static cudaError_t gemm_launch(const grouped_call &q, bool writes, cudaStream_t stream)
{
    if constexpr (KIND != GEMM_WEIGHT) return grouped_launch<KIND, OUT_BF16>(q, stream);
    return writes ? grouped_launch<GEMM_WEIGHT, OUT_FP32>(q, stream)
                  : grouped_launch<GEMM_WEIGHT, OUT_FP32_ADD>(q, stream);
}

/* Of experts' rows [rows][k] to [rows][n], whatever the gradient. */
template <int KIND>
static gemm_args gemm_args_of(const int32_t *offsets, void *to, int64_t experts, int64_t rows,
                              int64_t n, int64_t k)
{
    const int e = (int)experts, r = (int)rows, across = (int)n, in = (int)k;
    return KIND == GEMM_FORWARD ? gemm_args{offsets, to, e, r, 0, across, in}
           : KIND == GEMM_DATA  ? gemm_args{offsets, to, e, r, 0, in, across}
                                : gemm_args{offsets, to, e, r, across, in, 0};
}

#endif

/* fast_wgmma.cuh - which dense GEMMs our own kernel takes, and where it is the faster one.
 *
 * At Qwen3-30B-A3B's and DeepSeek-V3's sizes it is level with cuBLASLt or up to 11 % faster where
 * its tiles fill the last round of blocks, and 5 % slower where they do not (docs/GPU.md). */
#ifndef BACKEND_CUDA_KERNELS_FAST_WGMMA_CUH
#define BACKEND_CUDA_KERNELS_FAST_WGMMA_CUH

#include "backend/cuda/kernels/device.cuh"
#include "backend/cuda/kernels/grouped_launch.cuh"

/* What the copy engine can describe. */
static inline bool wgmma_takes(const op *o, const op_types *t)
{
    const int64_t m = o->dim[DIM_GEMM_M], n = o->dim[DIM_GEMM_N], k = o->dim[DIM_GEMM_K];
    const bool weight = o->kind == OP_GEMM_W;
    const int64_t n_of = weight ? 64 : 8, k_of = o->kind == OP_GEMM ? 8 : 64;
    return all_bf16(o, t, 2, weight ? 0 : 1) &&
           (weight ? t->out[0] == DTYPE_F32 : !(o->flags & ACCUMULATE)) && m > 0 && n > 0 &&
           k > 0 && n % n_of == 0 && k % k_of == 0 && m <= INT32_MAX && n <= INT32_MAX &&
           k <= INT32_MAX;
}

/* Do the tiles of pairs of blocks fill their rounds by 85 %? An H200 has room for 66 pairs. */
static inline bool wgmma_fills(const op *o)
{
    const int64_t m = o->dim[DIM_GEMM_M], n = o->dim[DIM_GEMM_N], k = o->dim[DIM_GEMM_K];
    const int64_t pairs = 66, down = o->kind == OP_GEMM_W ? n : m,
                  across = o->kind == OP_GEMM ? n : k;
    const int64_t tiles = ceil_of(down, 2 * TILE_M) * ceil_of(across, tile_width(across));
    return 100 * tiles >= 85 * ceil_of(tiles, pairs) * pairs;
}

#endif

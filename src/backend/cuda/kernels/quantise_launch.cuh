/* quantise_launch.cuh - from a source and what is to be made of it to launches of
 * quantise_tile.cuh. */
#ifndef BACKEND_CUDA_KERNELS_QUANTISE_LAUNCH_CUH
#define BACKEND_CUDA_KERNELS_QUANTISE_LAUNCH_CUH

#include "backend/cuda/kernels/quantise_tile.cuh"

/* Shared memory for the pieces of SOURCE: more than a kernel has unless it asks for it. */
template <class SOURCE, class KERNEL>
static status pieces_prepare(KERNEL kernel, const op *o, error *err)
{
    const cudaError_t e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                               SOURCE::PIECES * PIECE_BYTES);
    if (e == cudaSuccess) return OK;
    return error_set(err, ERR_MACHINE, "%s: this GPU cannot quantise by tiles: %s",
                     o->name ? o->name : op_infos[o->kind].name, cudaGetErrorString(e));
}

template <class SOURCE, int SCALED, bool WIDE>
static status tiles_prepare(const op *o, const op_types *, void **, error *err)
{
    return pieces_prepare<SOURCE>(tile_kernel<SOURCE, SCALED, WIDE>, o, err);
}

template <int SCALED, bool WIDE, class SOURCE>
static void tiles_launch(const kernel_call *c, const SOURCE &x, const quantising &z, int64_t parts)
{
    const tile_grid all = tiles_of(z, parts, quant_blocks(z.k, SIDE));
    tile_kernel<SOURCE, SCALED, WIDE>
        <<<tile_blocks(all), BLOCK, SOURCE::PIECES * PIECE_BYTES, stream_of(c)>>>(x, z, all);
}

template <class SOURCE>
static status pairs_prepare(const op *o, const op_types *, void **, error *err)
{
    return pieces_prepare<SOURCE>(pair_kernel<SOURCE>, o, err);
}

template <class SOURCE>
static void pairs_launch(const kernel_call *c, const SOURCE &x, const quantising &z, float *sums)
{
    const tile_grid all = tiles_of(z, 1, z.k / 2 / SIDE);
    pair_kernel<<<tile_blocks(all), BLOCK, SOURCE::PIECES * PIECE_BYTES, stream_of(c)>>>(x, z, all,
                                                                                         sums);
}

#endif

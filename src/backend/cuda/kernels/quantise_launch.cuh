/* quantise_launch.cuh - from a source and what is to be made of it to launches of
 * quantise_tile.cuh. */
#ifndef BACKEND_CUDA_KERNELS_QUANTISE_LAUNCH_CUH
#define BACKEND_CUDA_KERNELS_QUANTISE_LAUNCH_CUH

#include "backend/cuda/kernels/quantise_tile.cuh"

/* Shared memory for the pieces of SOURCE: more than a kernel has unless it asks for it. */
template <class SOURCE, class KERNEL>
static status pieces_prepare(KERNEL kernel, const op *o, error *err)
{
    return gpu_can("quantise by tiles",
                   cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                        SOURCE::PIECES * PIECE_BYTES),
                   o, err);
}

/* Where the codes of x[m][k] go, or without offsets of E such. */
template <class O>
static quantising copies_of(const O &o, int64_t m, int64_t k, const int32_t *offsets, int64_t e,
                            bool square = false)
{
    return {offsets ? offsets + e : NULL,
            m,
            k,
            (uint8_t *)o.q.p,
            (uint8_t *)o.qt.p,
            o.s.floats(),
            o.st.floats(),
            quant_scales({QUANT_BLOCK, square, m, k}),
            quant_scales({QUANT_BLOCK, square, k, m}),
            NULL,
            {offsets, e, m}};
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

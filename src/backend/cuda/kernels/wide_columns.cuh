/* wide_columns.cuh - sums over rows as in columns.cuh, 8 columns a thread.
 *
 * Rows are cut into at most PIECES pieces. A thread takes every so many-th row of its block's
 * piece; the sums of a block's lines, and then those of the pieces, are added in order. */
#ifndef BACKEND_CUDA_KERNELS_WIDE_COLUMNS_CUH
#define BACKEND_CUDA_KERNELS_WIDE_COLUMNS_CUH

#include "backend/cuda/kernels/registers.cuh"

enum { PIECES = 528, PIECE_ROWS = 32, SPAN = BLOCK * WIDE };

static inline int64_t pieces_of(int64_t rows)
{
    const int64_t n = ceil_of(rows, PIECE_ROWS);
    return n < 1 ? 1 : n < PIECES ? n : PIECES;
}

static inline bool wide_columns_take(int64_t rows, int64_t columns)
{
    return rows > 0 && columns >= 64 && columns % WIDE == 0;
}

static inline int64_t wide_columns_workspace(int64_t rows, int64_t columns)
{
    return room_of(pieces_of(rows) * columns * 4);
}

/* `across` threads of a block share the columns: all of a row's, as far as a block reaches. */
template <class F>
static __global__ void wide_columns_kernel(int64_t rows, int64_t columns, int across, int64_t each,
                                           float *parts, F f)
{
    __shared__ float sums[BLOCK][WIDE + 1];
    const int lines = BLOCK / across, line = (int)threadIdx.x / across;
    const int64_t j = blockIdx.x * (int64_t)SPAN + (int)threadIdx.x % across * WIDE;
    const int64_t first = blockIdx.y * each, past = first + each < rows ? first + each : rows;
    const bool busy = line < lines && j < columns;
    float sum[WIDE] = {};
#pragma unroll 4
    for (int64_t i = first + line; busy && i < past; i += lines) {
        const lanes<WIDE> v = f(i, j);
#pragma unroll
        for (int k = 0; k < WIDE; k++) sum[k] += v.v[k];
    }
#pragma unroll
    for (int k = 0; k < WIDE; k++) sums[threadIdx.x][k] = sum[k];
    __syncthreads();
    if (line != 0 || j >= columns) return;
    for (int l = 1; l < lines; l++)
#pragma unroll
        for (int k = 0; k < WIDE; k++) sum[k] += sums[threadIdx.x + l * across][k];
#pragma unroll
    for (int k = 0; k < WIDE; k++) parts[blockIdx.y * columns + j + k] = sum[k];
}

/* out[column] += sum over rows of f(row, column), where f gives 8 columns from `column` on. The
 * call's workspace has wide_columns_workspace bytes. */
template <class F>
static void add_wide_columns(const kernel_call *c, int64_t rows, int64_t columns, float *out, F f)
{
    const int64_t pieces = pieces_of(rows);
    const int across = (int)(columns < SPAN ? columns / WIDE : BLOCK);
    float *parts = (float *)c->workspace; /* [pieces][columns] */
    const dim3 grid((unsigned)ceil_of(columns, SPAN), (unsigned)pieces);
    wide_columns_kernel<<<grid, BLOCK, 0, stream_of(c)>>>(rows, columns, across,
                                                          ceil_of(rows, pieces), parts, f);
    add_pieces<WARP><<<(unsigned)ceil_of(columns, WARP), WARP * WARP, 0, stream_of(c)>>>(
        parts, pieces, columns, out);
}

#endif

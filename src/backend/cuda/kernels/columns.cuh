/* columns.cuh - sums over rows, one a column: out[column] += sum over rows of f(row, column).
 *
 * Rows are cut into at most CUTS pieces, whose sums go to the workspace and are added in order. So
 * few columns still fill the GPU, and the order depends on the sizes alone. */
#ifndef BACKEND_CUDA_KERNELS_COLUMNS_CUH
#define BACKEND_CUDA_KERNELS_COLUMNS_CUH

#include "backend/cuda/kernels/device.cuh"

enum { CUTS = 128, CUT_ROWS = 64, COLUMN_ROWS = BLOCK / WARP };

static inline int64_t cuts_of(int64_t rows)
{
    const int64_t n = ceil_of(rows, CUT_ROWS);
    return n < 1 ? 1 : n < CUTS ? n : CUTS;
}

static inline int64_t columns_workspace(int64_t rows, int64_t columns)
{
    return room_of(cuts_of(rows) * columns * (int64_t)sizeof(float));
}

/* A block takes 32 columns of a piece, 8 rows at a time. */
template <class F>
__global__ void columns_kernel(int64_t rows, int64_t each, int64_t columns, float *parts, F f)
{
    __shared__ float sums[COLUMN_ROWS][WARP];
    const int lane = (int)threadIdx.x % WARP, line = (int)threadIdx.x / WARP;
    const int64_t j = (int64_t)blockIdx.x * WARP + lane, first = blockIdx.y * each;
    const int64_t past = first + each < rows ? first + each : rows;
    float sum = 0;
    for (int64_t i = first + line; j < columns && i < past; i += COLUMN_ROWS) sum += f(i, j);
    sums[line][lane] = sum;
    __syncthreads();
    if (line != 0 || j >= columns) return;
    for (int k = 1; k < COLUMN_ROWS; k++) sum += sums[k][lane];
    parts[blockIdx.y * columns + j] = sum;
}

/* `workspace` has columns_workspace bytes. */
template <class F>
static void add_columns(const kernel_call *c, int64_t rows, int64_t columns, void *workspace,
                        float *out, F f)
{
    if (columns <= 0) return;
    const int64_t n = cuts_of(rows), each = ceil_of(rows, n);
    const dim3 grid((unsigned)ceil_of(columns, WARP), (unsigned)n);
    float *parts = (float *)workspace; /* [n][columns] */
    columns_kernel<<<grid, BLOCK, 0, stream_of(c)>>>(rows, each, columns, parts, f);
    for_each(c, columns, [=] __device__(int64_t j) {
        float sum = 0;
        for (int64_t i = 0; i < n; i++) sum += parts[i * columns + j];
        out[j] += sum;
    });
}

#endif

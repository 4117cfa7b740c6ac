/* GEMM.cuh - one tiled GEMM for all: C[m][n] (+)= sum over l of A[m][l] B[n][l].
 *
 * A, B and C have any strides, so that y = x w^T, its two gradients and the logits of a head are
 * the same kernel. A block of 256 threads makes a tile of 64 x 64, 16 of the sum at a time in
 * shared memory; every element is summed in the order of l by one thread. */
#ifndef BACKEND_CUDA_KERNELS_GEMM_CUH
#define BACKEND_CUDA_KERNELS_GEMM_CUH

#include "backend/cuda/kernels/device.cuh"

enum { TILE = 64, DEPTH = 16, EACH = 4 };

/* Element (i, l) lies at i * row + l * column. */
typedef struct matrix {
    numbers x;
    int64_t row, column;
} matrix;

/* Rows or columns of a matrix: first .. past-1. */
typedef struct range {
    int64_t first, past;
} range;

struct gemm_memory {
    float a[DEPTH][TILE + 4], b[DEPTH][TILE + 4];
};

/* to[l][i] = m(i0 + i, l0 + l), zero outside of `rows` and `sum`. Neighbouring threads read
 * neighbouring numbers, whichever way the matrix lies. */
static __device__ void fill_tile(float (*to)[TILE + 4], const matrix &m, int64_t i0, range rows,
                                 int64_t l0, range sum)
{
    const bool along = m.column == 1;
#pragma unroll
    for (int k = 0; k < TILE * DEPTH / BLOCK; k++) {
        const int at = (int)threadIdx.x + k * BLOCK;
        const int i = along ? at / DEPTH : at % TILE, l = along ? at % DEPTH : at / TILE;
        const bool inside = i0 + i >= rows.first && i0 + i < rows.past && l0 + l < sum.past;
        to[l][i] = inside ? get(m.x, (i0 + i) * m.row + (l0 + l) * m.column) : 0;
    }
}

/* The sums of a tile, 4 x 4 a thread: rows i0 + 4 * (thread / 16) .., columns j0 + 4 * (thread %
 * 16) ... */
static __device__ void gemm_tile(gemm_memory &s, const matrix &a, int64_t i0, range rows,
                                 const matrix &b, int64_t j0, range columns, range sum,
                                 float (&acc)[EACH][EACH])
{
    const int y = (int)threadIdx.x / (TILE / EACH) * EACH;
    const int x = (int)threadIdx.x % (TILE / EACH) * EACH;
#pragma unroll
    for (int r = 0; r < EACH; r++)
#pragma unroll
        for (int q = 0; q < EACH; q++) acc[r][q] = 0;
    for (int64_t l = sum.first; l < sum.past; l += DEPTH) {
        __syncthreads();
        fill_tile(s.a, a, i0, rows, l, sum);
        fill_tile(s.b, b, j0, columns, l, sum);
        __syncthreads();
#pragma unroll
        for (int k = 0; k < DEPTH; k++) {
            const float4 u = *(const float4 *)&s.a[k][y], v = *(const float4 *)&s.b[k][x];
            const float us[EACH] = {u.x, u.y, u.z, u.w}, vs[EACH] = {v.x, v.y, v.z, v.w};
#pragma unroll
            for (int r = 0; r < EACH; r++)
#pragma unroll
                for (int q = 0; q < EACH; q++) acc[r][q] = fmaf(us[r], vs[q], acc[r][q]);
        }
    }
}

static __device__ void store_tile(const matrix &c, int64_t i0, range rows, int64_t j0,
                                  range columns, const float (&acc)[EACH][EACH], bool add)
{
    const int64_t y = i0 + (int)threadIdx.x / (TILE / EACH) * EACH;
    const int64_t x = j0 + (int)threadIdx.x % (TILE / EACH) * EACH;
#pragma unroll
    for (int r = 0; r < EACH; r++)
#pragma unroll
        for (int q = 0; q < EACH; q++)
            if (y + r >= rows.first && y + r < rows.past && x + q < columns.past)
                put_or_add(c.x, (y + r) * c.row + (x + q) * c.column, acc[r][q], add);
}

static __global__ void gemm_kernel(matrix a, matrix b, matrix c, int64_t m, int64_t n, int64_t k,
                                   bool add)
{
    __shared__ gemm_memory s;
    const int64_t i0 = (int64_t)blockIdx.x * TILE, j0 = (int64_t)blockIdx.y * TILE;
    float acc[EACH][EACH];
    gemm_tile(s, a, i0, {0, m}, b, j0, {0, n}, {0, k}, acc);
    store_tile(c, i0, {0, m}, j0, {0, n}, acc, add);
}

/* Columns of the result lie along y of the grid: at most 4 million. */
static void gemm(const kernel_call *call, matrix a, matrix b, matrix c, int64_t m, int64_t n,
                 int64_t k, bool add)
{
    if (m <= 0 || n <= 0) return;
    const dim3 grid((unsigned)ceil_of(m, TILE), (unsigned)ceil_of(n, TILE));
    gemm_kernel<<<grid, BLOCK, 0, stream_of(call)>>>(a, b, c, m, n, k, add);
}

#endif

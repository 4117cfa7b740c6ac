/* mma.cuh - GEMMs of small matrices in shared memory by one warp: BF16 operands, FP32 sums.
 *
 * M1  A warp makes 16 rows by 8 * TILES columns; rows and columns begin at multiples of 16.
 * M2  A matrix lies by rows; read `turned` it is its transpose, which costs nothing more.
 * M3  Rows lie a multiple of 16 bytes apart that is odd in such units: eight neighbours of them are
 *     then in different banks. */
#ifndef BACKEND_CUDA_KERNELS_MMA_CUH
#define BACKEND_CUDA_KERNELS_MMA_CUH

#include "backend/cuda/kernels/copies.cuh"
#include "backend/cuda/kernels/device.cuh"

typedef __nv_bfloat16 bf16;

struct matrix {
    const bf16 *p;
    int stride; /* of rows (M3) */
};

/* Four squares of 8 x 8; lane l names row l % 8 of square l / 8. */
template <bool TURNED>
static __device__ __forceinline__ void load_squares(uint32_t (&r)[4], const bf16 *row)
{
    if constexpr (TURNED)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"(shared_address(row))
                     : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"(shared_address(row))
                     : "memory");
}

static __device__ __forceinline__ void multiply_add(float (&c)[4], const uint32_t (&a)[4],
                                                    uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, "
                 "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* c += A[row ..][n] B[n][column ..]. A is given as [row][n], or turned as [n][row]; B as
 * [n][column], or turned as [column][n]. */
template <bool A_TURNED, bool B_TURNED, int TILES>
static __device__ __forceinline__ void multiply(float (&c)[TILES][4], matrix a, int row, matrix b,
                                                int column, int n)
{
    static_assert(TILES % 2 == 0, "two tiles are loaded at once");
    const int lane = (int)threadIdx.x % WARP, at = lane % 8, square = lane / 8;
    const int low = at + square % 2 * 8, high = square / 2 * 8;
    const int back = at + square / 2 * 8, across = square % 2 * 8;
#pragma unroll 4
    for (int k = 0; k < n; k += 16) {
        uint32_t x[4];
        load_squares<A_TURNED>(x, A_TURNED ? a.p + (k + back) * a.stride + row + across
                                           : a.p + (row + low) * a.stride + k + high);
#pragma unroll
        for (int i = 0; i < TILES; i += 2) {
            uint32_t y[4];
            const int j = column + 8 * i;
            load_squares<!B_TURNED>(y, B_TURNED ? b.p + (j + back) * b.stride + k + across
                                                : b.p + (k + low) * b.stride + j + high);
            multiply_add(c[i], x, y[0], y[1]);
            multiply_add(c[i + 1], x, y[2], y[3]);
        }
    }
}

template <int TILES> static __device__ __forceinline__ void clear_tiles(float (&c)[TILES][4])
{
#pragma unroll
    for (int i = 0; i < TILES; i++) c[i][0] = c[i][1] = c[i][2] = c[i][3] = 0;
}

/* Where the numbers of a warp's GEMM stand: pair `half` (0, 1) of tile i has row() + 8 * half
 * and columns column(i), column(i) + 1 of those 16 rows. */
static __device__ __forceinline__ int tile_row(void)
{
    return (int)threadIdx.x % WARP / 4;
}

static __device__ __forceinline__ int tile_column(int i)
{
    return 8 * i + (int)threadIdx.x % 4 * 2;
}

static __device__ __forceinline__ float2 get_pair(const bf16 *p)
{
    return __bfloat1622float2(*(const __nv_bfloat162 *)p);
}

static __device__ __forceinline__ void put_pair(bf16 *p, float x, float y)
{
    *(__nv_bfloat162 *)p = __floats2bfloat162_rn(x, y);
}

/* Over the four lanes that share a row. */
static __device__ __forceinline__ float sum_row(float v)
{
    v += __shfl_xor_sync(ALL_LANES, v, 1);
    return v + __shfl_xor_sync(ALL_LANES, v, 2);
}

/* Over the eight lanes that share a column. */
static __device__ __forceinline__ float sum_column(float v)
{
    for (int step = 4; step < WARP; step *= 2) v += __shfl_xor_sync(ALL_LANES, v, step);
    return v;
}

/* ---- copies into shared memory that are waited for later */

/* to[ROWS][COLUMNS] = from, whose rows lie `step` apart; zeros past n_rows and n_columns, which is
 * a multiple of 8. All threads of a block of BLOCK take part, each in the same columns of every
 * so many-th row: its addresses are one and what is added to it. */
template <int ROWS, int COLUMNS>
static __device__ __forceinline__ void copy_tile(bf16 *to, int stride, const bf16 *from,
                                                 int64_t step, int64_t n_rows, int64_t n_columns)
{
    enum { PIECES = COLUMNS / 8, EACH = BLOCK / PIECES };
    static_assert(ROWS % EACH == 0, "every thread copies as much");
    const int row = (int)threadIdx.x / PIECES, column = (int)threadIdx.x % PIECES * 8;
    const int rows = column < (int)n_columns ? (int)n_rows : 0;
    const bf16 *p = from + row * step + column;
    to += row * stride + column;
#pragma unroll
    for (int i = 0; i < ROWS / EACH; i++, p += EACH * step, to += EACH * stride) {
        const bool there = row + i * EACH < rows;
        copy_16(to, there ? p : from, there);
    }
}

#endif

/* quantise_tile.cuh - numbers to 8 bits with scales, both copies from one reading.
 *
 * A block of threads has a tile of 128 x 128 BF16 numbers in registers, 8 x 8 a thread, wherever
 * they come from: a source gives eight neighbours of a row. Those of memory are loads of 16 bytes,
 * 256 of a row side by side. The copy along columns leaves in 8 bytes a thread, 128 of a row side
 * by side; the other one goes through shared memory (quantise_places.h) and leaves in 16.
 *
 * Q1  Scales and codes are those of the CPU bit for bit (narrow.h). A maximum ignores what is no
 *     number, as the CPU's does.
 * Q2  What scales are rounded up by is written here, too: no memory is cleared before.
 * Q3  Experts start at multiples of 128 rows, so a tile is one expert's. Factors hold largest
 *     sizes until all codes are made. */
#ifndef KERNELS_CUDA_QUANTISE_TILE_CUH
#define KERNELS_CUDA_QUANTISE_TILE_CUH

#include "kernels/cuda/device.cuh"

#include <cuda_fp8.h>

#include "kernels/cuda/experts.cuh"
#include "kernels/cuda/quant.cuh"
#include "kernels/cuda/quantise_places.h"

enum { SIDE = TURN_SIDE, EACH = TURN_UNIT, THREADS_ACROSS = SIDE / EACH };

struct quantising {
    const int32_t *end; /* rows from here on are zeros, or none */
    int64_t m, k;
    uint8_t *q, *qt; /* [parts][m][k], [parts][k][m], or none */
    float *s, *st;
    int64_t s_part, st_part; /* scales of a part */
    float *g;                /* [E], or none */
    experts of;              /* without offsets a part is one */
};

enum { BY_ROWS, BY_SQUARES, BY_TENSOR };

struct tile_shared {
    alignas(16) uint8_t turned[SIDE * SIDE];
    float most[WARPS][SIDE]; /* of columns, by warp; of a square, [0] by warp */
    alignas(16) float times[SIDE];
};

/* Which tile: of which part, the how-manieth down and across. */
struct tile_place {
    int64_t part, down, across;
};

static __device__ __forceinline__ float number(const uint4 &v, int j)
{
    const uint32_t word = j / 2 == 0 ? v.x : j / 2 == 1 ? v.y : j / 2 == 2 ? v.z : v.w;
    return __uint_as_float(j % 2 ? word & 0xffff0000u : word << 16);
}

/* Widened numbers are made again from what was read: kept, they would take 64 registers. */
static __device__ __forceinline__ void forget_widened(uint4 v[EACH])
{
#pragma unroll
    for (int i = 0; i < EACH; i++)
        asm volatile("" : "+r"(v[i].x), "+r"(v[i].y), "+r"(v[i].z), "+r"(v[i].w));
}

/* What numbers of a power of two's block are multiplied by: 1 / scale, which is one, too. */
static __device__ __forceinline__ float times_of(float scale)
{
    return __uint_as_float((254u << 23) - __float_as_uint(scale));
}

template <bool WIDE> static __device__ __forceinline__ uint32_t two_codes(float a, float b)
{
    return __nv_cvt_float2_to_fp8x2(make_float2(a, b), __NV_SATFINITE,
                                    WIDE ? __NV_E5M2 : __NV_E4M3);
}

template <bool WIDE> static __device__ __forceinline__ uint2 eight_codes(const float f[EACH])
{
    return make_uint2(two_codes<WIDE>(f[0], f[1]) | two_codes<WIDE>(f[2], f[3]) << 16,
                      two_codes<WIDE>(f[4], f[5]) | two_codes<WIDE>(f[6], f[7]) << 16);
}

template <bool WIDE> static __device__ float factor_of_tile(const quantising &z, tile_place at)
{
    const int64_t e = z.of.offsets ? z.of.of(at.down * SIDE) : at.part;
    const float most = z.g[e < z.of.n ? e : z.of.n - 1];
    return factor_of_amax(most, WIDE ? 57344 : 448);
}

/* ---- tiles */

/* Largest sizes of a thread's rows and columns. */
static __device__ __forceinline__ void sizes_of(const uint4 v[EACH], float row[EACH],
                                                float col[EACH])
{
#pragma unroll
    for (int i = 0; i < EACH; i++) row[i] = col[i] = 0;
#pragma unroll
    for (int i = 0; i < EACH; i++)
#pragma unroll
        for (int j = 0; j < EACH; j++) {
            const float a = fabsf(number(v[i], j));
            row[i] = fmaxf(row[i], a);
            col[j] = fmaxf(col[j], a);
        }
}

/* The scale of the whole tile. */
static __device__ float square_scale(tile_shared &t, const float row[EACH])
{
    float most = 0;
#pragma unroll
    for (int i = 0; i < EACH; i++) most = fmaxf(most, row[i]);
    const uint32_t of_warp = __reduce_max_sync(ALL_LANES, __float_as_uint(most));
    if (threadIdx.x % WARP == 0) t.most[0][threadIdx.x / WARP] = __uint_as_float(of_warp);
    __syncthreads();
#pragma unroll
    for (int w = 0; w < WARPS; w++) most = fmaxf(most, t.most[0][w]);
    return scale_of_amax(most, 448);
}

/* Scales of both copies of a square, and zeros behind the last of a row of squares (Q2). */
static __device__ void put_squares(const quantising &z, tile_place at, float scale)
{
    const int64_t down = quant_blocks(z.m, SIDE), across = quant_blocks(z.k, SIDE);
    const int64_t i = at.down, j = at.across;
    if (threadIdx.x) return;
    if (z.s) {
        float *to = z.s + at.part * z.s_part + i * quant_up4(across);
        to[j] = scale;
        for (int64_t p = across; j == across - 1 && p < quant_up4(across); p++) to[p] = 0;
    }
    if (z.st) {
        float *to = z.st + at.part * z.st_part + j * quant_up4(down);
        to[i] = scale;
        for (int64_t p = down; i == down - 1 && p < quant_up4(down); p++) to[p] = 0;
    }
}

/* What a thread's rows are multiplied by; their scales are written, eight by eight threads. */
static __device__ __forceinline__ void row_times(const quantising &z, tile_place at, int64_t m0,
                                                 float row[EACH])
{
    const int c = (int)threadIdx.x % THREADS_ACROSS;
    float mine = 0;
#pragma unroll
    for (int i = 0; i < EACH; i++) {
#pragma unroll
        for (int d = THREADS_ACROSS / 2; d; d /= 2)
            row[i] = fmaxf(row[i], __shfl_xor_sync(ALL_LANES, row[i], d));
        const float scale = scale_of_amax(row[i], 448);
        if (c == i) mine = scale;
        row[i] = times_of(scale);
    }
    if (z.s && c < EACH && m0 + c < quant_up4(z.m))
        z.s[at.part * z.s_part + at.across * quant_up4(z.m) + m0 + c] = m0 + c < z.m ? mine : 0;
}

/* The same of columns, over all threads. */
static __device__ void col_times(const quantising &z, tile_shared &t, tile_place at,
                                 float col[EACH])
{
    const int c = (int)threadIdx.x % THREADS_ACROSS, warp = (int)threadIdx.x / WARP;
#pragma unroll
    for (int j = 0; j < EACH; j++) {
        col[j] = fmaxf(col[j], __shfl_xor_sync(ALL_LANES, col[j], THREADS_ACROSS));
        if (threadIdx.x % WARP < THREADS_ACROSS) t.most[warp][c * EACH + j] = col[j];
    }
    __syncthreads();
    if (threadIdx.x < SIDE) {
        float most = 0;
#pragma unroll
        for (int w = 0; w < WARPS; w++) most = fmaxf(most, t.most[w][threadIdx.x]);
        const float scale = scale_of_amax(most, 448);
        const int64_t k = at.across * SIDE + threadIdx.x;
        t.times[threadIdx.x] = times_of(scale);
        if (z.st && k < z.k) z.st[at.part * z.st_part + at.down * quant_up4(z.k) + k] = scale;
    }
    __syncthreads();
#pragma unroll
    for (int j = 0; j < EACH; j += 4)
        *(float4 *)(col + j) = *(const float4 *)(t.times + c * EACH + j);
}

template <bool WIDE>
static __device__ __forceinline__ void put_rows(const quantising &z, int64_t part, int64_t m0,
                                                int64_t k0, const uint4 v[EACH],
                                                const float times[EACH])
{
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        float f[EACH];
#pragma unroll
        for (int j = 0; j < EACH; j++) f[j] = __fmul_rn(number(v[i], j), times[i]);
        if (m0 + i < z.m && k0 < z.k)
            *(uint2 *)(z.q + (part * z.m + m0 + i) * z.k + k0) = eight_codes<WIDE>(f);
    }
}

template <bool WIDE>
static __device__ __forceinline__ void put_turned(const quantising &z, tile_shared &t,
                                                  tile_place at, const uint4 v[EACH],
                                                  const float times[EACH])
{
    const int c = (int)threadIdx.x % THREADS_ACROSS, g = (int)threadIdx.x / THREADS_ACROSS;
#pragma unroll
    for (int j = 0; j < EACH; j++) {
        float f[EACH];
#pragma unroll
        for (int i = 0; i < EACH; i++) f[i] = __fmul_rn(number(v[i], j), times[j]);
        *(uint2 *)(t.turned + turned_store_at(c * EACH + j, g)) = eight_codes<WIDE>(f);
    }
    __syncthreads();
    const int pair = (int)threadIdx.x % 8;
    const int64_t m = at.down * SIDE + pair * 16;
#pragma unroll
    for (int col = (int)threadIdx.x / 8; col < SIDE; col += BLOCK / 8) {
        const int64_t k = at.across * SIDE + col;
        uint4 w = *(const uint4 *)(t.turned + turned_load_at(col, pair));
        if (turned_is_exchanged(col)) w = make_uint4(w.z, w.w, w.x, w.y);
        if (k < z.k && m < z.m) *(uint4 *)(z.qt + (at.part * z.k + k) * z.m + m) = w;
    }
}

/* Scales and codes of the tile that a block has in v. What shared memory held is read. */
template <int SCALED, bool WIDE>
static __device__ __forceinline__ void put_tile(const quantising &z, tile_shared &t, tile_place at,
                                                uint4 v[EACH])
{
    const int c = (int)threadIdx.x % THREADS_ACROSS, g = (int)threadIdx.x / THREADS_ACROSS;
    const int64_t m0 = at.down * SIDE + g * EACH, k0 = at.across * SIDE + c * EACH;
    float row[EACH], col[EACH];
    if (SCALED != BY_TENSOR) {
        sizes_of(v, row, col);
        forget_widened(v);
    }
    if (SCALED == BY_TENSOR) {
        const float factor = factor_of_tile<WIDE>(z, at);
#pragma unroll
        for (int i = 0; i < EACH; i++) row[i] = col[i] = factor;
    } else if (SCALED == BY_SQUARES) {
        const float scale = square_scale(t, row);
        put_squares(z, at, scale);
#pragma unroll
        for (int i = 0; i < EACH; i++) row[i] = col[i] = times_of(scale);
    } else {
        if (z.q) row_times(z, at, m0, row);
        if (z.qt) col_times(z, t, at, col);
    }
    if (z.q) put_rows<WIDE>(z, at.part, m0, k0, v, row);
    forget_widened(v);
    if (z.qt) put_turned<WIDE>(z, t, at, v, col);
}

/* Rows that are there: those before the end of the last expert's. */
static __device__ __forceinline__ int64_t rows_of_all(const quantising &z)
{
    const int64_t past = z.end ? *z.end : z.m;
    return past < z.m ? past : z.m;
}

/* source.eight(part, row, column): eight BF16 numbers of a row. */
template <class SOURCE, int SCALED, bool WIDE>
static __global__ void __launch_bounds__(BLOCK, 2)
    tile_kernel(const SOURCE source, const quantising z)
{
    __shared__ tile_shared t;
    const int c = (int)threadIdx.x % THREADS_ACROSS, g = (int)threadIdx.x / THREADS_ACROSS;
    const tile_place at = {blockIdx.z, blockIdx.y, blockIdx.x};
    const int64_t m0 = at.down * SIDE + g * EACH, k0 = at.across * SIDE + c * EACH;
    const int64_t end = rows_of_all(z);
    uint4 v[EACH];
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        v[i] = make_uint4(0, 0, 0, 0);
        if (m0 + i < end && k0 < z.k) v[i] = source.eight(at.part, m0 + i, k0);
    }
    put_tile<SCALED, WIDE>(z, t, at, v);
}

/* ---- tiles in pairs: a source of two numbers for each place, which lie half a row apart, and of
 * one more whose sum over the row is wanted. The second tile waits in shared memory, of which a
 * thread reads what it wrote. */

struct eight_pairs {
    uint4 first, second;
    float sum;
};

#ifndef PAIR_MEMORY /* the test on the host has its own */
#define PAIR_MEMORY(name) extern __shared__ uint4 name[]
#endif
enum { PAIR_BYTES = EACH * BLOCK * 16 };

/* source.pairs(row, column); sums[tiles of half a row][m], or none. */
template <class SOURCE>
static __global__ void __launch_bounds__(BLOCK, 2)
    pair_kernel(const SOURCE source, const quantising z, float *sums)
{
    PAIR_MEMORY(kept); /* [EACH][BLOCK] */
    __shared__ tile_shared t;
    const int c = (int)threadIdx.x % THREADS_ACROSS, g = (int)threadIdx.x / THREADS_ACROSS;
    const tile_place first = {0, blockIdx.y, blockIdx.x},
                     second = {0, blockIdx.y, blockIdx.x + z.k / 2 / SIDE};
    const int64_t m0 = first.down * SIDE + g * EACH, k0 = first.across * SIDE + c * EACH;
    const int64_t end = rows_of_all(z);
    uint4 v[EACH];
    float mine = 0;
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        eight_pairs p = {make_uint4(0, 0, 0, 0), make_uint4(0, 0, 0, 0), 0};
        if (m0 + i < end) p = source.pairs(m0 + i, k0);
        v[i] = p.first;
        kept[i * BLOCK + threadIdx.x] = p.second;
#pragma unroll
        for (int d = THREADS_ACROSS / 2; d; d /= 2) p.sum += __shfl_xor_sync(ALL_LANES, p.sum, d);
        if (c == i) mine = p.sum;
    }
    if (sums && c < EACH && m0 + c < z.m) sums[first.across * z.m + m0 + c] = mine;
    put_tile<BY_ROWS, false>(z, t, first, v);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < EACH; i++) v[i] = kept[i * BLOCK + threadIdx.x];
    put_tile<BY_ROWS, false>(z, t, second, v);
}

static inline dim3 tiles_of(const quantising &z, int64_t parts)
{
    return dim3((unsigned)quant_blocks(z.k, SIDE), (unsigned)quant_blocks(z.m, SIDE),
                (unsigned)parts);
}

/* What both copies' places and a grid of tiles can take. */
static inline bool tiles_fit(int64_t m, int64_t k, int64_t parts, bool turned)
{
    return m > 0 && k > 0 && k % EACH == 0 && (!turned || m % 16 == 0) && parts > 0 &&
           m <= (int64_t)65535 * SIDE && parts <= 65535;
}

#endif

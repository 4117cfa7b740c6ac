/* quantise_tile.cuh - numbers to 8 bits with scales, both copies from one reading.
 *
 * A block of threads has a tile of 128 x 128 BF16 numbers in registers, 8 x 8 a thread, wherever
 * they come from: a source makes eight neighbours of a row of pieces of 16 bytes. The copy along
 * columns leaves in 8 bytes a thread, 128 of a row side by side; the other one goes through shared
 * memory (quantise_places.h) and leaves in 16.
 *
 * Q1  Scales and codes are those of the CPU bit for bit (narrow.h). A maximum ignores what is no
 *     number, as the CPU's does.
 * Q2  What scales are rounded up by is written here, too: no memory is cleared before.
 * Q3  Experts start at multiples of 128 rows, so a tile is one expert's. Factors hold largest
 *     sizes until all codes are made.
 * Q4  A block takes tiles in turn. While it makes the codes of one, the pieces of the next are on
 *     their way into shared memory, where each thread reads only what it fetched itself. What says
 *     where they lie (who comes to a row) is read one tile earlier still. */
#ifndef BACKEND_CUDA_KERNELS_QUANTISE_TILE_CUH
#define BACKEND_CUDA_KERNELS_QUANTISE_TILE_CUH

#include "backend/cuda/kernels/device.cuh"

#include <cuda_fp8.h>

#include "backend/cuda/kernels/copies.cuh"
#include "backend/cuda/kernels/experts.cuh"
#include "backend/cuda/kernels/pairs.cuh"
#include "backend/cuda/kernels/quant.cuh"
#include "backend/cuda/kernels/quantise_places.h"

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
    union {
        alignas(16) uint8_t turned[SIDE * SIDE];
        uint4 most[WARPS][THREADS_ACROSS]; /* of columns, by warp, before anything is turned */
    };
    alignas(16) float times[SIDE]; /* of columns; of a square its largest sizes, by warp */
};

/* Which tile: of which part, the how-manieth down and across. */
struct tile_place {
    int64_t part, down, across;
};

/* Two neighbours of eight. */
static __device__ __forceinline__ uint32_t two_of(const uint4 &v, int j)
{
    return j == 0 ? v.x : j == 1 ? v.y : j == 2 ? v.z : v.w;
}

static __device__ __forceinline__ float number(const uint4 &v, int j)
{
    return j % 2 ? second_of(two_of(v, j / 2)) : first_of(two_of(v, j / 2));
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

/* Of four pairs of codes the first ones, or the second ones, in a word. */
static __device__ __forceinline__ uint32_t firsts_of_codes(const uint32_t f[4])
{
    return bytes_of(bytes_of(f[0], f[1], 0x0040), bytes_of(f[2], f[3], 0x0040), 0x5410);
}

static __device__ __forceinline__ uint32_t seconds_of_codes(const uint32_t f[4])
{
    return bytes_of(bytes_of(f[0], f[1], 0x0051), bytes_of(f[2], f[3], 0x0051), 0x5410);
}

template <bool WIDE> static __device__ float factor_of_tile(const quantising &z, tile_place at)
{
    const int64_t e = z.of.offsets ? z.of.of(at.down * SIDE) : at.part;
    const float most = z.g[e < z.of.n ? e : z.of.n - 1];
    return factor_of_amax(most, WIDE ? 57344 : 448);
}

/* ---- tiles */

/* Largest sizes of a thread's rows and columns, each with its neighbour. */
static __device__ __forceinline__ void sizes_of(const uint4 v[EACH], uint32_t row[EACH / 2],
                                                uint32_t col[EACH / 2])
{
#pragma unroll
    for (int j = 0; j < EACH / 2; j++) col[j] = 0;
#pragma unroll
    for (int i = 0; i < EACH; i += 2) {
        uint32_t upper = 0, lower = 0;
#pragma unroll
        for (int j = 0; j < EACH / 2; j++) {
            const uint32_t a = sizes_of_two(two_of(v[i], j)), b = sizes_of_two(two_of(v[i + 1], j));
            upper = larger_two(upper, a);
            lower = larger_two(lower, b);
            col[j] = larger_two(col[j], larger_two(a, b));
        }
        row[i / 2] = larger_two(firsts_of(upper, lower), seconds_of(upper, lower));
    }
}

/* The scale of the whole tile. */
static __device__ float square_scale(tile_shared &t, const uint32_t row[EACH / 2])
{
    uint32_t two = 0;
#pragma unroll
    for (int i = 0; i < EACH / 2; i++) two = larger_two(two, row[i]);
    float most = fmaxf(first_of(two), second_of(two));
    const uint32_t of_warp = __reduce_max_sync(ALL_LANES, __float_as_uint(most));
    if (threadIdx.x % WARP == 0) t.times[threadIdx.x / WARP] = __uint_as_float(of_warp);
    __syncthreads();
#pragma unroll
    for (int w = 0; w < WARPS; w++) most = fmaxf(most, t.times[w]);
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
                                                 uint32_t row[EACH / 2], float times[EACH])
{
    const int c = (int)threadIdx.x % THREADS_ACROSS;
    float mine = 0;
#pragma unroll
    for (int i = 0; i < EACH; i++) {
#pragma unroll
        for (int d = i % 2 ? 0 : THREADS_ACROSS / 2; d; d /= 2)
            row[i / 2] = larger_two(row[i / 2], __shfl_xor_sync(ALL_LANES, row[i / 2], d));
        const float scale =
            scale_of_amax(i % 2 ? second_of(row[i / 2]) : first_of(row[i / 2]), 448);
        if (c == i) mine = scale;
        times[i] = times_of(scale);
    }
    if (z.s && c < EACH && m0 + c < quant_up4(z.m))
        z.s[at.part * z.s_part + at.across * quant_up4(z.m) + m0 + c] = m0 + c < z.m ? mine : 0;
}

/* The same of columns, over all threads. */
static __device__ void col_times(const quantising &z, tile_shared &t, tile_place at,
                                 uint32_t col[EACH / 2], float times[EACH])
{
    const int c = (int)threadIdx.x % THREADS_ACROSS, warp = (int)threadIdx.x / WARP;
#pragma unroll
    for (int j = 0; j < EACH / 2; j++)
        col[j] = larger_two(col[j], __shfl_xor_sync(ALL_LANES, col[j], THREADS_ACROSS));
    if (threadIdx.x % WARP < THREADS_ACROSS)
        t.most[warp][c] = make_uint4(col[0], col[1], col[2], col[3]);
    __syncthreads();
    if (threadIdx.x < SIDE) {
        float most = 0;
#pragma unroll
        for (int w = 0; w < WARPS; w++)
            most = fmaxf(most, first_of(((const uint16_t *)t.most[w])[threadIdx.x]));
        const float scale = scale_of_amax(most, 448);
        const int64_t k = at.across * SIDE + threadIdx.x;
        t.times[threadIdx.x] = times_of(scale);
        if (z.st && k < z.k) z.st[at.part * z.st_part + at.down * quant_up4(z.k) + k] = scale;
    }
    __syncthreads();
#pragma unroll
    for (int j = 0; j < EACH; j += 4)
        *(float4 *)(times + j) = *(const float4 *)(t.times + c * EACH + j);
}

/* Codes of two BF16 numbers times a factor each. Where those are powers of two, GEMMs have no
 * more digits than the numbers, and both are made at once. */
template <int SCALED, bool WIDE>
static __device__ __forceinline__ uint32_t two_times(uint32_t two, float by, float by_second)
{
    if (SCALED == BY_TENSOR)
        return two_codes<WIDE>(__fmul_rn(first_of(two), by), __fmul_rn(second_of(two), by_second));
    two = gemm_two(two, two_from(by, by_second));
    return two_codes<WIDE>(first_of(two), second_of(two));
}

template <int SCALED, bool WIDE>
static __device__ __forceinline__ void put_rows(const quantising &z, int64_t part, int64_t m0,
                                                int64_t k0, const uint4 v[EACH],
                                                const float times[EACH])
{
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        uint32_t f[EACH / 2];
#pragma unroll
        for (int j = 0; j < EACH / 2; j++)
            f[j] = two_times<SCALED, WIDE>(two_of(v[i], j), times[i], times[i]);
        if (m0 + i < z.m && k0 < z.k)
            *(uint2 *)(z.q + (part * z.m + m0 + i) * z.k + k0) =
                make_uint2(f[0] | f[1] << 16, f[2] | f[3] << 16);
    }
}

/* Two columns at a time: of neighbours in a row one word has both. */
template <int SCALED, bool WIDE>
static __device__ __forceinline__ void put_turned(const quantising &z, tile_shared &t,
                                                  tile_place at, const uint4 v[EACH],
                                                  const float times[EACH])
{
    const int c = (int)threadIdx.x % THREADS_ACROSS, g = (int)threadIdx.x / THREADS_ACROSS;
#pragma unroll
    for (int j = 0; j < EACH / 2; j++) {
        uint32_t f[EACH];
#pragma unroll
        for (int i = 0; i < EACH; i++)
            f[i] = two_times<SCALED, WIDE>(two_of(v[i], j), times[2 * j], times[2 * j + 1]);
        const uint2 of_first = make_uint2(firsts_of_codes(f), firsts_of_codes(f + 4));
        const uint2 of_second = make_uint2(seconds_of_codes(f), seconds_of_codes(f + 4));
        *(uint2 *)(t.turned + turned_store_at(c * EACH + 2 * j, g)) = of_first;
        *(uint2 *)(t.turned + turned_store_at(c * EACH + 2 * j + 1, g)) = of_second;
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
    if (SCALED == BY_TENSOR) {
        const float factor = factor_of_tile<WIDE>(z, at);
#pragma unroll
        for (int i = 0; i < EACH; i++) row[i] = col[i] = factor;
    } else {
        uint32_t most_row[EACH / 2], most_col[EACH / 2];
        sizes_of(v, most_row, most_col);
        if (SCALED == BY_SQUARES) {
            const float scale = square_scale(t, most_row);
            put_squares(z, at, scale);
#pragma unroll
            for (int i = 0; i < EACH; i++) row[i] = col[i] = times_of(scale);
        } else {
            if (z.q) row_times(z, at, m0, most_row, row);
            if (z.qt) col_times(z, t, at, most_col, col);
        }
    }
    if (z.q) put_rows<SCALED, WIDE>(z, at.part, m0, k0, v, row);
    if (z.qt) put_turned<SCALED, WIDE>(z, t, at, v, col);
}

/* Rows that are there: those before the end of the last expert's. */
static __device__ __forceinline__ int64_t rows_of_all(const quantising &z)
{
    const int64_t past = z.end ? *z.end : z.m;
    return past < z.m ? past : z.m;
}

/* ---- tiles in turn (Q4)
 *
 * source.ahead(row): what is known of a row before its pieces are fetched, and
 * source.piece(part, row of ahead, column, n): where the n-th of PIECES for eight numbers lies. */

struct row_ahead {
    int32_t row; /* of the source's memory; -1: zeros */
    float by;    /* whatever the source wants of it */
};

struct tile_grid {
    uint32_t n, down, across; /* tiles in all */
    __device__ __forceinline__ tile_place place(uint32_t i) const
    {
        return {i / across / down, i / across % down, i % across};
    }
};

/* Of the eight rows of a thread, each by one of eight neighbours. */
template <class SOURCE>
static __device__ __forceinline__ row_ahead look_ahead(const SOURCE &source, const tile_grid &all,
                                                       uint32_t i, int64_t end)
{
    const int64_t g = threadIdx.x / THREADS_ACROSS, c = threadIdx.x % EACH;
    const int64_t row = all.place(i).down * SIDE + g * EACH + c;
    return i < all.n && row < end ? source.ahead(row) : row_ahead{-1, 0};
}

/* Its i-th row's, of the thread that has it. */
static __device__ __forceinline__ row_ahead ahead_of(row_ahead a, int i)
{
    const int from = (int)threadIdx.x % WARP / THREADS_ACROSS * THREADS_ACROSS + i;
    return {__shfl_sync(ALL_LANES, a.row, from), __shfl_sync(ALL_LANES, a.by, from)};
}

/* Of the pieces of a block, fetched[PIECES][EACH][BLOCK], the n-th of this thread's i-th row. */
static __device__ __forceinline__ uint4 *piece_at(uint4 *fetched, int n, int i)
{
    return &fetched[(n * EACH + i) * BLOCK + threadIdx.x];
}

/* Pieces first .. last of a thread. */
template <class SOURCE>
static __device__ __forceinline__ void fetch(const SOURCE &source, const quantising &z,
                                             tile_place at, row_ahead ahead, uint4 *fetched,
                                             int first, int last)
{
    const int64_t k0 = at.across * SIDE + threadIdx.x % THREADS_ACROSS * EACH;
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const int32_t row = ahead_of(ahead, i).row;
        const bool there = row >= 0 && k0 < z.k;
#pragma unroll
        for (int n = first; n <= last; n++)
            copy_16(piece_at(fetched, n, i),
                    source.piece(at.part, there ? row : 0, there ? k0 : 0, n), there);
    }
}

#ifndef FETCHED_MEMORY /* the test on the host has its own */
#define FETCHED_MEMORY(name) extern __shared__ uint4 name[]
#endif
enum { PIECE_BYTES = EACH * BLOCK * 16 };

/* source.eight(pieces, by, column): eight BF16 numbers of a row. */
template <class SOURCE, int SCALED, bool WIDE>
static __global__ void __launch_bounds__(BLOCK, 2)
    tile_kernel(const SOURCE source, const quantising z, const tile_grid all)
{
    FETCHED_MEMORY(fetched);
    __shared__ tile_shared t;
    const int c = (int)threadIdx.x % THREADS_ACROSS, g = (int)threadIdx.x / THREADS_ACROSS;
    const int64_t end = rows_of_all(z);
    const uint32_t step = gridDim.x;
    row_ahead now = look_ahead(source, all, blockIdx.x, end);
    fetch(source, z, all.place(blockIdx.x), now, fetched, 0, SOURCE::PIECES - 1);
    row_ahead next = look_ahead(source, all, blockIdx.x + step, end);
    for (uint32_t tile = blockIdx.x; tile < all.n; tile += step) {
        const tile_place at = all.place(tile);
        const int64_t m0 = at.down * SIDE + g * EACH, k0 = at.across * SIDE + c * EACH;
        uint4 v[EACH];
        copies_wait();
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            const float by = ahead_of(now, i).by;
            uint4 pieces[SOURCE::PIECES];
#pragma unroll
            for (int n = 0; n < SOURCE::PIECES; n++) pieces[n] = *piece_at(fetched, n, i);
            v[i] = make_uint4(0, 0, 0, 0);
            if (m0 + i < end && k0 < z.k) v[i] = source.eight(pieces, by, k0);
        }
        now = next;
        if (tile + step < all.n)
            fetch(source, z, all.place(tile + step), now, fetched, 0, SOURCE::PIECES - 1);
        next = look_ahead(source, all, tile + 2 * step, end);
        put_tile<SCALED, WIDE>(z, t, at, v);
        __syncthreads();
    }
}

/* ---- tiles in pairs: a source of two numbers for each place, which lie half a row apart, and of
 * one more whose sum over the row is wanted. The second tile waits where the first of its pieces
 * was. */

struct eight_pairs {
    uint4 first, second;
    float sum;
};

/* source.pairs(pieces, by); sums[tiles of half a row][m], or none. The grid is of pairs. */
template <class SOURCE>
static __global__ void __launch_bounds__(BLOCK, 2)
    pair_kernel(const SOURCE source, const quantising z, const tile_grid all, float *sums)
{
    FETCHED_MEMORY(fetched);
    __shared__ tile_shared t;
    const int c = (int)threadIdx.x % THREADS_ACROSS, g = (int)threadIdx.x / THREADS_ACROSS;
    const int64_t end = rows_of_all(z);
    const uint32_t step = gridDim.x;
    row_ahead now = look_ahead(source, all, blockIdx.x, end);
    fetch(source, z, all.place(blockIdx.x), now, fetched, 0, SOURCE::PIECES - 1);
    row_ahead next = look_ahead(source, all, blockIdx.x + step, end);
    for (uint32_t tile = blockIdx.x; tile < all.n; tile += step) {
        const tile_place at = all.place(tile), after = all.place(tile + step);
        const bool more = tile + step < all.n;
        const int64_t m0 = at.down * SIDE + g * EACH;
        uint4 v[EACH];
        float mine = 0;
        copies_wait();
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            const float by = ahead_of(now, i).by;
            eight_pairs p = {make_uint4(0, 0, 0, 0), make_uint4(0, 0, 0, 0), 0};
            uint4 pieces[SOURCE::PIECES];
#pragma unroll
            for (int n = 0; n < SOURCE::PIECES; n++) pieces[n] = *piece_at(fetched, n, i);
            if (m0 + i < end) p = source.pairs(pieces, by);
            v[i] = p.first;
            *piece_at(fetched, 0, i) = p.second;
#pragma unroll
            for (int d = THREADS_ACROSS / 2; d; d /= 2)
                p.sum += __shfl_xor_sync(ALL_LANES, p.sum, d);
            if (c == i) mine = p.sum;
        }
        if (sums && c < EACH && m0 + c < z.m) sums[at.across * z.m + m0 + c] = mine;
        now = next;
        if (more) fetch(source, z, after, now, fetched, 1, SOURCE::PIECES - 1);
        next = look_ahead(source, all, tile + 2 * step, end);
        put_tile<BY_ROWS, false>(z, t, at, v);
        __syncthreads();
#pragma unroll
        for (int i = 0; i < EACH; i++) v[i] = *piece_at(fetched, 0, i);
        if (more) fetch(source, z, after, now, fetched, 0, 0);
        put_tile<BY_ROWS, false>(z, t, {at.part, at.down, at.across + all.across}, v);
        __syncthreads();
    }
}

/* ---- launches */

/* Two for each multiprocessor of Hopper. Three have fewer registers, and were slower: 0.71 ms
 * instead of 0.63 for 262,144 rows of 2,048. */
enum { TILE_BLOCKS = 264 };

static inline tile_grid tiles_of(const quantising &z, int64_t parts, int64_t across)
{
    const int64_t down = quant_blocks(z.m, SIDE);
    return {(uint32_t)(parts * down * across), (uint32_t)down, (uint32_t)across};
}

static inline unsigned tile_blocks(const tile_grid &all)
{
    return all.n < TILE_BLOCKS ? all.n : TILE_BLOCKS;
}

/* What both copies' places and numbers of tiles can take. */
static inline bool tiles_fit(int64_t m, int64_t k, int64_t parts, bool turned)
{
    return m > 0 && k > 0 && k % EACH == 0 && (!turned || m % 16 == 0) && parts > 0 &&
           m <= INT32_MAX && k <= INT32_MAX && parts <= INT16_MAX &&
           quant_blocks(m, SIDE) * quant_blocks(k, SIDE) <= INT32_MAX / parts - 2 * TILE_BLOCKS;
}

#endif

/* grouped_gemm.cuh - the expert GEMMs on Hopper: BF16 in, sums in FP32, row counts on the device.
 *
 * One kernel serves the three GEMMs of a linear layer y = x W^T, for all experts at once:
 *
 *     forward           y[T][N]     = x[T][K]      W[e][N][K]^T    both operands K-contiguous
 *     data gradient     dx[T][N]    = dy[T][K]     W[e][K][N]      W with the result's columns
 *     weight gradient   dw[e][M][N] = dy[T_e][M]^T x[T_e][N]       both with the result's dimension
 *
 * Rows of expert e are offsets[e] .. offsets[e+1]-1, of as many as there is room for. Without
 * offsets there is one expert, and all rows are its own: a dense GEMM.
 *
 * I1  The grid is persistent: clusters take tiles in turn from a list that every block derives from
 *     the offsets, so the host never needs them, and an expert without rows has no tile.
 * I2  A block has one warpgroup that starts copies (one warp those in, one those out) and two that
 *     multiply, each 64 of the tile's 128 rows by 256 columns. Two blocks of a cluster have
 *     neighbouring rows and the same columns: each loads half of the columns' operand, and the copy
 *     engine delivers it to both.
 * I3  A stage is full when its bytes have arrived, and empty when both multiplying warpgroups of
 *     every block that it is delivered to have read it.
 * I4  Rows past the end of an expert are computed but never stored: they belong to the next one.
 * I5  A weight gradient sums over rows, so rows of its last stage that belong to the next expert
 *     are overwritten with zeros in shared memory, in both operands (theirs may be no numbers).
 * I6  Where an expert's row tiles do not fill its last cluster, the blocks of a cluster share each
 *     one that is left: neighbouring columns of the same rows, each with loads of its own. Half a
 *     pair would idle else, which costs 8 % where experts have 11 row tiles.
 * I7  A tile has WIDTH columns, TILE_N or NARROW_N: 2,880 columns are 12 tiles of 240, and of 256
 *     they would be 11.25, computed as 12. A narrower tile is loaded as a whole one, and its last
 *     block of 64 columns is stored by the warps.
 * I8  Results leave through one buffer that the storing warp grants to the multiplying warpgroups
 *     in turn, and the copy engine empties it while they go on. So the two drift apart by as much
 *     as the stages allow, and the tensor cores work for one while the other unloads. */
#ifndef BACKEND_CUDA_KERNELS_GROUPED_GEMM_CUH
#define BACKEND_CUDA_KERNELS_GROUPED_GEMM_CUH

#include "backend/cuda/kernels/hopper.cuh"

/* GEMM_WEIGHT_FP8: the weight gradient of grouped_fp8.cuh, whose operands lie along rows. */
enum { GEMM_FORWARD, GEMM_DATA, GEMM_WEIGHT, GEMM_WEIGHT_FP8 };
enum { OUT_BF16, OUT_FP32_ADD, OUT_FP32 };

enum {
    TILE_M = 128,
    TILE_N = 256,
    NARROW_N = 240, /* I7 */
    TILE_K = 64,
    HALF_M = 64,     /* rows of a warpgroup */
    ROW_BYTES = 128, /* of a swizzled row */
    BLOCK_BYTES = 64 * ROW_BYTES,
    OUT_BLOCKS = 4,
    A_BYTES = TILE_M * TILE_K * 2,
    B_BYTES = TILE_N * TILE_K * 2,
    STAGE_BYTES = A_BYTES + B_BYTES,
    MAX_EXPERTS = 256,
    BAND = 8, /* row tiles (of a cluster) that are walked together across the columns */
    GEMM_THREADS = 384,
    SCALE_BYTES = TILE_N * 4 /* of the columns of a tile, for one stage */
};

typedef struct {
    const int *offsets; /* [n_experts + 1], on the device; NULL: all rows are of one expert */
    void *c;            /* [rows][n], or [n_experts][m][n] for the weight gradient */
    int n_experts, rows;
    int m;                 /* rows of the result of one expert; weight gradient only */
    int n;                 /* columns of the result */
    int k;                 /* what is summed over; not for the weight gradient */
    const float *b_scales; /* [rows / 128][b_stride] of GEMM_WEIGHT_FP8, or none */
    int b_stride;
} gemm_args;

typedef struct {
    int expert, first_row, rows; /* of the expert */
    int m0, n0;                  /* place of the tile in the expert's result */
    int n_steps;                 /* of TILE_K */
    int valid;                   /* rows of the tile that are to be stored, may be <= 0 */
    bool alone;                  /* nothing is shared with the other block (I6) */
} tile;

template <int STAGES> struct gemm_shared {
    alignas(1024) uint8_t stage[STAGES][STAGE_BYTES];
    alignas(1024) uint8_t out[OUT_BLOCKS][BLOCK_BYTES];
    uint64_t full[STAGES], empty[STAGES];
    uint64_t out_granted[2], out_full; /* I8 */
    int tiles_end[MAX_EXPERTS], first_row[MAX_EXPERTS + 1];
};

__host__ __device__ constexpr bool is_weight(int kind)
{
    return kind == GEMM_WEIGHT || kind == GEMM_WEIGHT_FP8;
}

/* Where a role stands in the ring of stages. */
typedef struct {
    int at;
    uint32_t phase;
} ring;

template <int STAGES> __device__ __forceinline__ void ring_next(ring *r)
{
    if (++r->at == STAGES) {
        r->at = 0;
        r->phase ^= 1;
    }
}

/* ---- the list of tiles (I1) ---- */

/* Row tiles of an expert: whole clusters of them, and those that are left over (I6). */
template <int KIND, int CLUSTER>
__device__ __forceinline__ void tiles_down(gemm_args g, int rows, int *full, int *odd)
{
    const int down = ((is_weight(KIND) ? g.m : rows) + TILE_M - 1) / TILE_M;
    const bool whole = KIND == GEMM_WEIGHT_FP8;
    *full = whole ? (down + CLUSTER - 1) / CLUSTER : down / CLUSTER;
    *odd = whole ? 0 : down % CLUSTER;
}

__device__ __forceinline__ int warp_prefix(int x, int lane)
{
    for (int d = 1; d < 32; d *= 2) {
        int y = __shfl_up_sync(~0u, x, d);
        if (lane >= d) x += y;
    }
    return x;
}

/* Where rows of expert e start, within the room. */
__device__ __forceinline__ int row_start(gemm_args g, int e)
{
    return !g.offsets ? (e ? g.rows : 0) : min(g.offsets[e], g.rows);
}

/* By one warp. With an accumulating weight gradient an expert without rows has nothing to add. */
template <int KIND, int CLUSTER, int OUT, int WIDTH>
__device__ void list_tiles(gemm_args g, int *tiles_end, int *first_row)
{
    const int lane = threadIdx.x % 32, across = (g.n + WIDTH - 1) / WIDTH;
    int tiles_before = 0;
    for (int e0 = 0; e0 < g.n_experts; e0 += 32) {
        const int e = e0 + lane, rows_end = row_start(g, min(e + 1, g.n_experts));
        const int rows = rows_end - row_start(g, min(e, g.n_experts));
        int full, odd;
        tiles_down<KIND, CLUSTER>(g, rows, &full, &odd);
        int tiles = full * across + odd * ((across + CLUSTER - 1) / CLUSTER);
        if (e >= g.n_experts || (OUT == OUT_FP32_ADD && rows == 0)) tiles = 0;
        int end = warp_prefix(tiles, lane) + tiles_before;
        if (e < g.n_experts) {
            first_row[e + 1] = rows_end;
            tiles_end[e] = end;
        }
        tiles_before = __shfl_sync(~0u, end, 31);
    }
    if (lane == 0) first_row[0] = row_start(g, 0);
}

/* Tile number t for block `rank` of its cluster; `e` moves on from call to call. */
template <int KIND, int CLUSTER, int WIDTH = TILE_N>
__device__ __forceinline__ bool find_tile(gemm_args g, const int *tiles_end, const int *first_row,
                                          int t, int *e, int rank, tile *out)
{
    while (*e < g.n_experts && tiles_end[*e] <= t) ++*e;
    if (*e == g.n_experts) return false;
    int local = t - (*e ? tiles_end[*e - 1] : 0);
    out->expert = *e;
    out->first_row = first_row[*e];
    out->rows = first_row[*e + 1] - first_row[*e];
    int full, odd, across = (g.n + WIDTH - 1) / WIDTH;
    tiles_down<KIND, CLUSTER>(g, out->rows, &full, &odd);
    out->alone = local >= full * across;
    if (out->alone) {
        const int left = local - full * across, wide = (across + CLUSTER - 1) / CLUSTER;
        out->m0 = (full * CLUSTER + left / wide) * TILE_M;
        out->n0 = (left % wide * CLUSTER + rank) * WIDTH;
    } else {
        int band = local / (BAND * across), in_band = local % (BAND * across);
        int height = min(BAND, full - band * BAND);
        out->m0 = ((band * BAND + in_band % height) * CLUSTER + rank) * TILE_M;
        out->n0 = in_band / height * WIDTH;
    }
    int summed = is_weight(KIND) ? out->rows : g.k;
    if (KIND == GEMM_WEIGHT_FP8)
        out->n_steps = (summed + 2 * TILE_K - 1) / (2 * TILE_K); /* of no rows: none */
    else
        out->n_steps = max(1, (summed + TILE_K - 1) / TILE_K); /* of no rows: a step of zeros */
    out->valid = (is_weight(KIND) ? g.m : out->rows) - out->m0;
    if (out->n0 >= g.n) out->valid = 0;
    return true;
}

/* ---- copies in (I2, I3) ---- */

template <int KIND>
__device__ __forceinline__ void load_a(uint32_t to, const CUtensorMap *map, const tile *t, int k0,
                                       uint32_t full)
{
    if constexpr (KIND == GEMM_WEIGHT)
        tma_load<3, false>(to, map, {0, t->first_row + k0, t->m0 / 64, 0}, full, 0);
    else if constexpr (KIND == GEMM_WEIGHT_FP8)
        tma_load<2, false>(to, map, {t->first_row / 2 + k0, t->m0, 0, 0}, full, 0);
    else
        tma_load<2, false>(to, map, {k0, t->first_row + t->m0, 0, 0}, full, 0);
}

/* Blocks of 64 columns can be one copy where tiles begin at multiples of 64 (I7). */
__host__ __device__ constexpr bool in_boxes(int kind, int width)
{
    return (kind == GEMM_DATA || kind == GEMM_WEIGHT) && width % 64 != 0;
}

template <int KIND, int PART, bool MANY, int WIDTH>
__device__ __forceinline__ void load_part(uint32_t to, const CUtensorMap *map, const tile *t,
                                          int n0, int k0, uint32_t full, uint16_t blocks)
{
    if constexpr (in_boxes(KIND, WIDTH)) {
#pragma unroll
        for (int i = 0; i < PART / 64; i++) {
            const uint32_t block = to + i * BLOCK_BYTES;
            if constexpr (KIND == GEMM_DATA)
                tma_load<3, MANY>(block, map, {n0 + i * 64, k0, t->expert, 0}, full, blocks);
            else
                tma_load<2, MANY>(block, map, {n0 + i * 64, t->first_row + k0, 0, 0}, full, blocks);
        }
    } else if constexpr (KIND == GEMM_FORWARD)
        tma_load<3, MANY>(to, map, {k0, n0, t->expert, 0}, full, blocks);
    else if constexpr (KIND == GEMM_DATA)
        tma_load<4, MANY>(to, map, {0, k0, n0 / 64, t->expert}, full, blocks);
    else if constexpr (KIND == GEMM_WEIGHT_FP8)
        tma_load<2, MANY>(to, map, {t->first_row / 2 + k0, n0, 0, 0}, full, blocks);
    else
        tma_load<3, MANY>(to, map, {0, t->first_row + k0, n0 / 64, 0}, full, blocks);
}

template <int KIND, int CLUSTER, int WIDTH>
__device__ __forceinline__ void load_b(uint32_t to, const CUtensorMap *map, const tile *t, int k0,
                                       uint32_t full, int rank)
{
    constexpr int part = TILE_N / CLUSTER, bytes = B_BYTES / CLUSTER;
    const uint16_t all = (1 << CLUSTER) - 1;
    if (CLUSTER > 1 && !t->alone) {
        load_part<KIND, part, true, WIDTH>(to + bytes * rank, map, t, t->n0 + part * rank, k0, full,
                                           all);
        return;
    }
#pragma unroll
    for (int i = 0; i < CLUSTER; i++)
        load_part<KIND, part, false, WIDTH>(to + bytes * i, map, t, t->n0 + part * i, k0, full, 0);
}

/* Scales of the columns lie in the upper half of the results' buffer, which sums in FP32 need only
 * half of. A warp may still read them when its warpgroup lets the stage go, but none is a whole
 * round behind: so they have two rounds of the ring. */
template <int STAGES>
__device__ __forceinline__ uint8_t *scales_at(gemm_shared<STAGES> *s, int at, uint32_t round)
{
    static_assert(2 * STAGES * SCALE_BYTES <= OUT_BLOCKS / 2 * BLOCK_BYTES);
    return s->out[OUT_BLOCKS / 2] + (at + STAGES * (int)(round & 1)) * SCALE_BYTES;
}

/* Of the columns of a tile there may be fewer than TILE_N. */
__device__ __forceinline__ uint32_t scale_bytes(gemm_args g, const tile *t)
{
    return 4 * (uint32_t)min(TILE_N, g.b_stride - t->n0);
}

/* ---- GEMMs ---- */

/* The last stage of a weight gradient has `rows` rows (I5). */
__device__ __forceinline__ void clear_rows(uint8_t *a, uint8_t *b, int rows, int half)
{
    const int thread = threadIdx.x % 128, n = (TILE_K - rows) * (ROW_BYTES / 16);
    const int4 zero = {0, 0, 0, 0};
    for (int block = 0; block < 3; block++) {
        uint8_t *base = block ? b + (half * 2 + block - 1) * BLOCK_BYTES : a + half * BLOCK_BYTES;
        int4 *p = (int4 *)(base + rows * ROW_BYTES);
        for (int i = thread; i < n; i += 128) p[i] = zero;
    }
    proxy_fence();
    warps_sync(3, 256);
}

template <int KIND, int WIDTH>
__device__ __forceinline__ void multiply_stage(float acc[128], uint32_t a, uint32_t b, int first)
{
    constexpr int AT = KIND == GEMM_WEIGHT, BT = KIND != GEMM_FORWARD;
    uint64_t da = matrix_descriptor(a, AT ? BLOCK_BYTES : 16, 8 * ROW_BYTES);
    uint64_t db = matrix_descriptor(b, BT ? BLOCK_BYTES : 16, 8 * ROW_BYTES);
    const int a_step = AT ? 16 * ROW_BYTES : 32, b_step = BT ? 16 * ROW_BYTES : 32;
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < TILE_K / 16; k++) {
        const uint64_t a_at = da + (a_step * k >> 4), b_at = db + (b_step * k >> 4);
        if constexpr (WIDTH == NARROW_N)
            wgmma_64x240<AT, BT>(acc, a_at, b_at, !first || k);
        else
            wgmma_64x256<AT, BT>(acc, a_at, b_at, !first || k);
    }
    wgmma_commit();
}

/* ---- results ---- */

__device__ __forceinline__ uint32_t pack(float lo, float hi)
{
    __nv_bfloat162 p = __floats2bfloat162_rn(lo, hi);
    return *(uint32_t *)&p;
}

/* 64 rows x 64 columns of BF16 in four warps (of the last block what there is of it), from column
 * 64 * block, swizzled as the tensor map
 * says, so that no two writes of a warp meet in a bank. */
template <int WIDTH>
__device__ __forceinline__ void stage_bf16(uint8_t *to, const float acc[128], int block)
{
    const int lane = threadIdx.x % 32, row = threadIdx.x / 32 % 4 * 16 + lane % 16;
#pragma unroll
    for (int j = 0; j < 8; j += 2) {
        if (block * 64 + j * 8 >= WIDTH) break;
        const float *d = acc + (block * 8 + j) * 4;
        const uint32_t r[4] = {pack(d[0], d[1]), pack(d[2], d[3]), pack(d[4], d[5]),
                               pack(d[6], d[7])};
        const int chunk = j + lane / 16;
        store_matrices(shared_address(to) + row * ROW_BYTES + ((chunk ^ (row & 7)) << 4), r);
    }
}

/* A tile that ends inside these 64 rows (I4) or columns (I7): each warp stores what it staged
 * itself. */
template <int WIDTH>
__device__ __forceinline__ void store_some(const uint8_t *from, gemm_args g, const tile *t,
                                           int block, int half)
{
    const int lane = threadIdx.x % 32, chunk = lane % 8, n = t->n0 + block * 64 + chunk * 8;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int row = threadIdx.x / 32 % 4 * 16 + i * 4 + lane / 8, m = half * HALF_M + row;
        if (m >= t->valid || n >= g.n || n >= t->n0 + WIDTH) continue;
        float4 v = *(const float4 *)(from + row * ROW_BYTES + ((chunk ^ (row & 7)) << 4));
        __nv_bfloat16 *c = (__nv_bfloat16 *)g.c + (size_t)(t->first_row + t->m0 + m) * g.n + n;
        *(float4 *)c = v;
    }
}

/* A warp adds its 16 x 256 results to FP32 in memory, or writes them, 32 columns at a time by way
 * of 2 KiB of its own: whole lines of 128 bytes, which the L2 cache sums. For 2048 rows an expert
 * the copy engine's reduction was slower (609 against 668 TFLOP/s: the one buffer holds only half
 * of a warpgroup's), and so were loading, adding and storing (618) and bringing the sums into the
 * L2 first (615). */
template <int OUT, int WIDTH = TILE_N, int BUFFERS = 2>
__device__ __forceinline__ void add_results(const float acc[128], uint8_t *staging, gemm_args g,
                                            const tile *t, int half)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4, chunk = lane % 8;
    const int above = half * HALF_M + warp * 16;
    float *c = (float *)g.c + ((size_t)t->expert * g.m + t->m0 + above) * g.n + t->n0 + chunk * 4;
#pragma unroll
    for (int block = 0; block < (WIDTH + 31) / 32; block++) {
        uint8_t *buffer = staging + block % BUFFERS * 16 * ROW_BYTES;
#pragma unroll
        for (int j = 0; j < 4; j++) {
            if (block * 32 + j * 8 >= WIDTH) break;
            const float *d = acc + (block * 4 + j) * 4;
            const int to = lane / 4, at = (2 * j + lane % 4 / 2) ^ to;
            uint8_t *p = buffer + to * ROW_BYTES + (at << 4) + lane % 2 * 8;
            *(float2 *)p = make_float2(d[0], d[1]);
            *(float2 *)(p + 8 * ROW_BYTES) = make_float2(d[2], d[3]);
        }
        __syncwarp();
        const int column = block * 32 + chunk * 4;
        const bool inside = column < WIDTH && t->n0 + column < g.n;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int row = i * 4 + lane / 8;
            float4 v = *(float4 *)(buffer + row * ROW_BYTES + ((chunk ^ (row & 7)) << 4));
            if (!inside || above + row >= t->valid) continue;
            if constexpr (OUT == OUT_FP32_ADD)
                add_to_memory(c + (size_t)row * g.n + block * 32, v);
            else
                *(float4 *)(c + (size_t)row * g.n + block * 32) = v;
        }
        if (BUFFERS == 1) __syncwarp();
    }
    __syncwarp(); /* the next tile's first block meets its buffer again */
}

/* Whether a warpgroup has nothing to compute. In a weight gradient clear_rows() needs both. */
template <int KIND> __device__ __forceinline__ bool idle(const tile *t, int half)
{
    return (KIND == GEMM_WEIGHT ? t->valid : t->valid - half * HALF_M) <= 0;
}

template <int KIND> __device__ __forceinline__ bool whole(const tile *t, int half)
{
    return KIND == GEMM_WEIGHT || t->valid - half * HALF_M >= HALF_M;
}

/* ---- the three roles ---- */

template <int KIND, int CLUSTER, int STAGES, int WIDTH = TILE_N>
__device__ void produce(gemm_shared<STAGES> *s, const CUtensorMap *a, const CUtensorMap *b,
                        gemm_args g, int rank)
{
    ring r = {0, 1}; /* the first pass finds all stages empty */
    tile t;
    int e = 0;
    for (int i = blockIdx.x / CLUSTER;
         find_tile<KIND, CLUSTER, WIDTH>(g, s->tiles_end, s->first_row, i, &e, rank, &t);
         i += gridDim.x / CLUSTER) {
        const bool rows = t.valid > 0; /* the other block's half of B is still to be sent */
        for (int step = 0; step < t.n_steps; step++, ring_next<STAGES>(&r)) {
            const uint32_t full = shared_address(&s->full[r.at]);
            const uint32_t to = shared_address(s->stage[r.at]);
            barrier_wait(shared_address(&s->empty[r.at]), r.phase);
            if constexpr (KIND == GEMM_WEIGHT_FP8) {
                const uint32_t more = rows && g.b_scales ? scale_bytes(g, &t) : 0;
                barrier_expect(full, rows ? STAGE_BYTES + more : B_BYTES);
                if (more)
                    bulk_load(shared_address(scales_at(s, r.at, r.phase ^ 1)),
                              g.b_scales + (size_t)(t.first_row / 128 + step) * g.b_stride + t.n0,
                              more, full);
            } else {
                barrier_expect(full, rows ? STAGE_BYTES : t.alone ? 0 : B_BYTES);
            }
            if (rows) load_a<KIND>(to, a, &t, step * TILE_K, full);
            if (rows || !t.alone)
                load_b<KIND, CLUSTER, WIDTH>(to + A_BYTES, b, &t, step * TILE_K, full, rank);
        }
    }
}

template <int KIND, int CLUSTER, int STAGES, int WIDTH = TILE_N>
__device__ void store_results(gemm_shared<STAGES> *s, const CUtensorMap *c, gemm_args g, int rank)
{
    uint32_t phase = 0;
    tile t;
    int e = 0;
    for (int i = blockIdx.x / CLUSTER;
         find_tile<KIND, CLUSTER, WIDTH>(g, s->tiles_end, s->first_row, i, &e, rank, &t);
         i += gridDim.x / CLUSTER) {
        for (int half = 0; half < 2; half++) {
            if (idle<KIND>(&t, half)) continue;
            barrier_arrive(shared_address(&s->out_granted[half]));
            barrier_wait(shared_address(&s->out_full), phase);
            phase ^= 1;
            if (!whole<KIND>(&t, half)) continue;
            for (int b = 0; b < WIDTH / 64; b++) {
                const uint32_t from = shared_address(s->out[b]);
                const int n = t.n0 + b * 64, m = t.m0 + half * HALF_M;
                if constexpr (KIND == GEMM_WEIGHT)
                    tma_store<3>(c, {n, m, t.expert, 0}, from);
                else
                    tma_store<2>(c, {n, t.first_row + m, 0, 0}, from);
            }
            tma_commit();
            tma_wait_read();
        }
    }
    tma_wait_all();
}

/* One warpgroup hands over its 64 x WIDTH results (I8). */
template <int KIND, int STAGES, int WIDTH = TILE_N>
__device__ __forceinline__ void hand_over(const float acc[128], gemm_shared<STAGES> *s, gemm_args g,
                                          const tile *t, int half, uint32_t *granted)
{
    barrier_wait(shared_address(&s->out_granted[half]), *granted);
    *granted ^= 1;
#pragma unroll
    for (int b = 0; b < OUT_BLOCKS; b++) stage_bf16<WIDTH>(s->out[b], acc, b);
    const bool all = !whole<KIND>(t, half);
    if (all || WIDTH % 64) {
        __syncwarp();
#pragma unroll
        for (int b = 0; b < OUT_BLOCKS; b++)
            if (all || (b + 1) * 64 > WIDTH) store_some<WIDTH>(s->out[b], g, t, b, half);
    }
    proxy_fence();
    __syncwarp();
    if (threadIdx.x % 32 == 0) barrier_arrive(shared_address(&s->out_full));
}

template <int CLUSTER> __device__ __forceinline__ void release(uint64_t *empty)
{
    const int thread = threadIdx.x % 128;
    if (thread % 32 == 0 && thread / 32 < CLUSTER)
        barrier_arrive(cluster_address(shared_address(empty), thread / 32));
}

/* A warpgroup without rows lets the stages of its tile go. */
template <int CLUSTER, int STAGES>
__device__ __forceinline__ void pass_by(gemm_shared<STAGES> *s, const tile *t, ring *r, int half)
{
    for (int step = 0; step < t->n_steps; step++, ring_next<STAGES>(r)) {
        barrier_wait(shared_address(&s->full[r->at]), r->phase);
        warps_sync(1 + half, 128); /* no warp may fall a whole phase behind */
        release<CLUSTER>(&s->empty[r->at]);
    }
}

template <int KIND, int OUT, int CLUSTER, int STAGES, int WIDTH>
__device__ void consume(gemm_shared<STAGES> *s, gemm_args g, int rank, int half)
{
    ring r = {0, 0};
    tile t, next;
    int e = 0, i = blockIdx.x / CLUSTER;
    const int stride = gridDim.x / CLUSTER;
    uint32_t granted = 0;
    bool more = find_tile<KIND, CLUSTER, WIDTH>(g, s->tiles_end, s->first_row, i, &e, rank, &t);
    while (more) {
        float acc[128];
        int last = 0;
        if (idle<KIND>(&t, half)) {
            pass_by<CLUSTER, STAGES>(s, &t, &r, half);
            more = find_tile<KIND, CLUSTER, WIDTH>(g, s->tiles_end, s->first_row, i += stride, &e,
                                                   rank, &t);
            continue;
        }
        for (int step = 0; step < t.n_steps; step++, ring_next<STAGES>(&r)) {
            uint8_t *stage = s->stage[r.at];
            barrier_wait(shared_address(&s->full[r.at]), r.phase);
            if (KIND == GEMM_WEIGHT && t.rows - step * TILE_K < TILE_K)
                clear_rows(stage, stage + A_BYTES, t.rows - step * TILE_K, half);
            multiply_stage<KIND, WIDTH>(acc, shared_address(stage) + half * BLOCK_BYTES,
                                        shared_address(stage) + A_BYTES, step == 0);
            if (step) {
                wgmma_wait<1>();
                release<CLUSTER>(&s->empty[last]);
            }
            last = r.at;
        }
        /* In the shadow of the last GEMMs. */
        more = find_tile<KIND, CLUSTER, WIDTH>(g, s->tiles_end, s->first_row, i += stride, &e, rank,
                                               &next);
        wgmma_wait<0>();
        release<CLUSTER>(&s->empty[last]);
        if constexpr (OUT != OUT_BF16)
            add_results<OUT, WIDTH>(acc, s->out[0] + (threadIdx.x / 32 - 4) * (BLOCK_BYTES / 2), g,
                                    &t, half);
        else
            hand_over<KIND, STAGES, WIDTH>(acc, s, g, &t, half, &granted);
        t = next;
    }
}

/* Before the roles part. */
template <int KIND, int OUT, int CLUSTER, int STAGES, int WIDTH = TILE_N>
__device__ __forceinline__ void set_up(gemm_shared<STAGES> *s, gemm_args g)
{
    if (threadIdx.x < 32)
        list_tiles<KIND, CLUSTER, OUT, WIDTH>(g, s->tiles_end, s->first_row);
    else if (threadIdx.x == 32) {
        for (int i = 0; i < STAGES; i++) {
            barrier_init(shared_address(&s->full[i]), 1);
            barrier_init(shared_address(&s->empty[i]), 2 * CLUSTER);
        }
        barrier_init(shared_address(&s->out_granted[0]), 1);
        barrier_init(shared_address(&s->out_granted[1]), 1);
        barrier_init(shared_address(&s->out_full), 4);
        barrier_init_fence();
    }
    __syncthreads();
    if (CLUSTER > 1) cluster_sync();
}

template <int KIND, int OUT, int CLUSTER, int STAGES, int WIDTH = TILE_N>
__device__ __forceinline__ void copy(gemm_shared<STAGES> *s, const CUtensorMap *a,
                                     const CUtensorMap *b, const CUtensorMap *c, gemm_args g,
                                     int rank)
{
    if (threadIdx.x == 0)
        produce<KIND, CLUSTER, STAGES, WIDTH>(s, a, b, g, rank);
    else if (threadIdx.x == 32 && OUT == OUT_BF16)
        store_results<KIND, CLUSTER, STAGES, WIDTH>(s, c, g, rank);
    __syncwarp();
}

template <int KIND, int OUT, int CLUSTER, int STAGES, int WIDTH>
__global__ void __launch_bounds__(GEMM_THREADS, 1)
    grouped_gemm(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
                 const __grid_constant__ CUtensorMap c, const gemm_args g)
{
    extern __shared__ __align__(1024) uint8_t shared_bytes[];
    gemm_shared<STAGES> *s = (gemm_shared<STAGES> *)shared_bytes;
    const int role = threadIdx.x / 128;
    const int rank = CLUSTER > 1 ? (int)cluster_rank() : 0;
    set_up<KIND, OUT, CLUSTER, STAGES, WIDTH>(s, g);
    if (role == 0) {
        registers_fewer<40>();
        copy<KIND, OUT, CLUSTER, STAGES, WIDTH>(s, &a, &b, &c, g, rank);
    } else {
        registers_more<232>();
        consume<KIND, OUT, CLUSTER, STAGES, WIDTH>(s, g, rank, role - 1);
    }
    /* The other block may still deliver into this one's memory, or count at its barriers. */
    if (CLUSTER > 1) cluster_sync();
}

#endif

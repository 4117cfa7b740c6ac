/* grouped_fp8.cuh - the expert GEMMs of grouped_gemm.cuh with 8-bit operands and scales a block.
 *
 *     forward           y[T][N]     = sum over blocks of 128 of K of
 *                                     sx[block][row] sw[e][n / 128][block] (x . W)
 *     data gradient     the same, of dy and the copy of W that lies along its rows
 *     weight gradient   dw[e][M][N] = sum over blocks of 128 of the expert's rows of
 *                                     sa[block][m] sb[block][n] (dy^T . x)
 *
 * Lists of tiles, copies, stages and results are those of the BF16 kernel: to the copy engine, two
 * 8-bit values are one of BF16, and a stage of 64 such pairs is one block of the scales. Only the
 * multiplying warpgroups differ. Tensors with one factor (SCALE_NONE) are summed the same way and
 * multiplied by both factors of their expert at the end.
 *
 * I8  Sums of a block stay in the tensor cores (128 values, 4 instructions); then they are scaled
 *     and added in FP32 outside. The tensor cores' own sums of all of K lose as much as rounding
 *     the result to BF16 does.
 * I9  Both sums of 64 x 256 results would need all registers, so a block is multiplied in two
 *     halves of 128 columns with one set of 64 registers. While one warpgroup adds, the tensor
 *     cores work for the other.
 * I10 Scales of rows, and of squares, come straight from memory: they are asked for before the
 *     GEMMs that they scale, and arrive meanwhile. (A block ahead, as the probe had them first,
 *     takes four registers more than there are.) Those of a weight gradient's columns are 64 a
 *     thread: the copy engine brings them with the stage.
 * I11 K is a multiple of 16: what the last block lacks arrives as zeros. Rows past the last one
 *     read the last one's scale (I4).
 * I12 Experts start at multiples of 128 rows, and codes of rows past the last expert are zeros: a
 *     weight gradient's last block needs no clearing (I5). An expert without rows has no steps.
 *
 * Slower, all of them (docs/GPU.md has the rates): warpgroups that take turns at the tensor cores,
 * quarters of 64 columns in two sets of 32 registers, finding the next tile behind the last
 * GEMMs, scales two blocks ahead in the lanes of a warp. */
#ifndef BACKEND_CUDA_KERNELS_GROUPED_FP8_CUH
#define BACKEND_CUDA_KERNELS_GROUPED_FP8_CUH

#include "backend/cuda/kernels/grouped_gemm.cuh"

enum { SCALE_NONE, SCALE_SQUARES, SCALE_ROWS }; /* of the columns' operand */

typedef struct {
    const float *a;         /* [blocks][a_stride] */
    const float *b;         /* squares: [n_experts][(N + 127) / 128][b_stride]; rows: gemm_args */
    int a_stride, b_stride; /* from block to block; from 128 columns to the next */
    int a_last;             /* row of a that is there, the last */
    int blocks;             /* of a */
    const float *a_factor, *b_factor; /* [n_experts], of SCALE_NONE */
} fp8_scales;

/* What one thread needs for a block: its two rows, and two halves of columns. */
typedef struct {
    float row[2], half[2];
} block_scales;

/* Where those of a tile's first block lie, in elements: pointers would take twice the registers. */
typedef struct {
    int row[2], half[2];
} scale_places;

__device__ __forceinline__ float load_scale(const float *p)
{
    float v;
    asm volatile("ld.global.nc.f32 %0, [%1];" : "=f"(v) : "l"(p)); /* stays where it is written */
    return v;
}

template <int SCALE>
__device__ __forceinline__ scale_places find_scales(fp8_scales x, gemm_args g, const tile *t,
                                                    int half)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    const int row = t->m0 + half * HALF_M + warp * 16 + lane / 4;
    scale_places p = {};
    if constexpr (SCALE == SCALE_ROWS) {
        const int first = min(t->first_row / 128, x.blocks - 1) * x.a_stride;
        p.row[0] = first + min(row, x.a_last);
        p.row[1] = first + min(row + 8, x.a_last);
    } else if constexpr (SCALE == SCALE_SQUARES) {
        const int down = (g.n + 127) / 128, n = t->n0 / 128;
        const int w = t->expert * down;
        p.row[0] = min(t->first_row + row, x.a_last);
        p.row[1] = min(t->first_row + row + 8, x.a_last);
        p.half[0] = (w + n) * x.b_stride;
        p.half[1] = (w + min(n + 1, down - 1)) * x.b_stride;
    }
    return p;
}

template <int SCALE>
__device__ __forceinline__ block_scales load_scales(fp8_scales x, scale_places p, int block)
{
    block_scales s = {};
#pragma unroll
    for (int i = 0; i < 2; i++) {
        if (SCALE != SCALE_NONE) s.row[i] = load_scale(x.a + (p.row[i] + block * x.a_stride));
        if (SCALE == SCALE_SQUARES) s.half[i] = load_scale(x.b + (p.half[i] + block));
    }
    return s;
}

/* part[64][128] = A[64][128] B[128][128]; A and B of rows of 128 bytes. */
template <bool WIDE_A>
__device__ __forceinline__ void multiply_half(float part[64], uint32_t a, uint32_t b)
{
    uint64_t da = matrix_descriptor(a, 16, 8 * ROW_BYTES);
    uint64_t db = matrix_descriptor(b, 16, 8 * ROW_BYTES);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < 4; k++) wgmma_64x128_fp8<WIDE_A>(part, da + 2 * k, db + 2 * k, k);
    wgmma_commit();
}

/* Half `h` of the columns of a block: `columns`, of SCALE_ROWS, has the scales of all 256. */
template <int SCALE>
__device__ __forceinline__ void add_scaled(float acc[64], const float part[64],
                                           const block_scales *s, const float *columns, int h)
{
    if constexpr (SCALE == SCALE_ROWS) {
        const float *mine = columns + h * 128 + threadIdx.x % 4 * 2;
#pragma unroll
        for (int j = 0; j < 16; j++) {
            const float2 c = *(const float2 *)(mine + 8 * j);
#pragma unroll
            for (int i = 0; i < 4; i++)
                acc[4 * j + i] =
                    fmaf(part[4 * j + i], s->row[i / 2] * (i % 2 ? c.y : c.x), acc[4 * j + i]);
        }
    } else if constexpr (SCALE == SCALE_SQUARES) {
        const float upper = s->row[0] * s->half[h], lower = s->row[1] * s->half[h];
#pragma unroll
        for (int i = 0; i < 64; i++) acc[i] = fmaf(part[i], i & 2 ? lower : upper, acc[i]);
    } else {
#pragma unroll
        for (int i = 0; i < 64; i++) acc[i] += part[i];
    }
}

/* The sums of one tile for one warpgroup (I8, I9). */
template <int SCALE, bool WIDE_A, int CLUSTER, int STAGES>
__device__ __forceinline__ void sum_blocks(float acc[128], gemm_shared<STAGES> *s, ring *r,
                                           const tile *t, fp8_scales x, scale_places p, int half)
{
#pragma unroll
    for (int i = 0; i < 128; i++) acc[i] = 0;
    for (int step = 0; step < t->n_steps; step++, ring_next<STAGES>(r)) {
        float part[64];
        const uint32_t a = shared_address(s->stage[r->at]) + half * BLOCK_BYTES;
        const uint32_t b = shared_address(s->stage[r->at]) + A_BYTES;
        const float *columns = (const float *)scales_at(s, r->at, r->phase);
        const block_scales now = load_scales<SCALE>(x, p, step);
        barrier_wait(shared_address(&s->full[r->at]), r->phase);
        multiply_half<WIDE_A>(part, a, b);
        wgmma_wait<0>();
        gemms_arrived<64>(part);
        add_scaled<SCALE>(acc, part, &now, columns, 0);
        multiply_half<WIDE_A>(part, a, b + 128 * ROW_BYTES);
        wgmma_wait<0>();
        gemms_arrived<64>(part);
        release<CLUSTER>(&s->empty[r->at]);
        add_scaled<SCALE>(acc + 64, part, &now, columns, 1);
    }
}

__device__ __forceinline__ void multiply_all(float acc[128], fp8_scales x, int expert)
{
    const float factor =
        (x.a_factor ? x.a_factor[expert] : 1) * (x.b_factor ? x.b_factor[expert] : 1);
#pragma unroll
    for (int i = 0; i < 128; i++) acc[i] *= factor;
}

template <int KIND, int OUT, int SCALE, bool WIDE_A, int CLUSTER, int STAGES>
__device__ void consume_fp8(gemm_shared<STAGES> *s, gemm_args g, fp8_scales x, int rank, int half)
{
    ring r = {0, 0};
    tile t;
    int e = 0;
    uint32_t granted = 0;
    for (int i = blockIdx.x / CLUSTER;
         find_tile<KIND, CLUSTER>(g, s->tiles_end, s->first_row, i, &e, rank, &t);
         i += gridDim.x / CLUSTER) {
        float acc[128];
        if (idle<KIND>(&t, half)) {
            pass_by<CLUSTER, STAGES>(s, &t, &r, half);
            continue;
        }
        sum_blocks<SCALE, WIDE_A, CLUSTER, STAGES>(acc, s, &r, &t, x,
                                                   find_scales<SCALE>(x, g, &t, half), half);
        if (SCALE == SCALE_NONE) multiply_all(acc, x, t.expert);
        if constexpr (OUT == OUT_BF16)
            hand_over<KIND, STAGES>(acc, s, g, &t, half, &granted);
        else
            add_results<OUT, TILE_N, 1>(acc, s->out[0] + (threadIdx.x / 32 - 4) * 16 * ROW_BYTES, g,
                                        &t, half);
    }
}

/* g.k, of the forward GEMM, counts pairs: K / 2. */
template <int KIND, int OUT, int SCALE, bool WIDE_A, int CLUSTER, int STAGES>
__global__ void __launch_bounds__(GEMM_THREADS, 1)
    grouped_fp8(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
                const __grid_constant__ CUtensorMap c, const gemm_args g, const fp8_scales x)
{
    static_assert(KIND == GEMM_FORWARD || KIND == GEMM_WEIGHT_FP8);
    extern __shared__ __align__(1024) uint8_t shared_bytes[];
    gemm_shared<STAGES> *s = (gemm_shared<STAGES> *)shared_bytes;
    const int role = threadIdx.x / 128;
    const int rank = CLUSTER > 1 ? (int)cluster_rank() : 0;
    set_up<KIND, OUT, CLUSTER, STAGES>(s, g);
    if (role == 0) {
        registers_fewer<40>();
        copy<KIND, OUT, CLUSTER, STAGES>(s, &a, &b, &c, g, rank);
    } else {
        registers_more<232>();
        consume_fp8<KIND, OUT, SCALE, WIDE_A, CLUSTER, STAGES>(s, g, x, rank, role - 1);
    }
    if (CLUSTER > 1) cluster_sync();
}

#endif

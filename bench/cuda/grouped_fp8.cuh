/* grouped_fp8.cuh - the forward product of grouped_gemm.cuh with E4M3 operands and scales a block.
 *
 *     y[T][N] = sum over blocks of 128 of K: sx[block][row] sw[e][n / 128][block] (x . W)
 *
 * x is scaled for 128 values of a row, W for squares of 128 x 128. Lists of tiles, copies, stages
 * and results are those of the BF16 kernel: to the copy engine, two E4M3 values are one of BF16,
 * and a stage of 64 such pairs is one block of the scales. Only the multiplying warpgroups differ.
 *
 * I8  Sums of a block stay in the tensor cores (128 values, 4 instructions); then they are scaled
 *     and added in FP32 outside. The tensor cores' own sums of all of K lose as much as rounding
 *     the result to BF16 does.
 * I9  Both sums of 64 x 256 results would need all registers, so a block is multiplied in two
 *     halves of 128 columns with one set of 64 registers. While one warpgroup adds, the tensor
 *     cores work for the other.
 * I10 Scales come straight from memory, a block ahead: the stages leave no room for them.
 * I11 K is a multiple of 128. Rows past the last one read the last one's scale (I4).
 *
 * Slower, all of them (docs/GPU.md has the rates): warpgroups that take turns at the tensor cores,
 * quarters of 64 columns in two sets of 32 registers, finding the next tile behind the last
 * products, scales two blocks ahead in the lanes of a warp. */
#ifndef BENCH_CUDA_GROUPED_FP8_CUH
#define BENCH_CUDA_GROUPED_FP8_CUH

#include "kernels/cuda/grouped_gemm.cuh"

enum { SUM_BLOCKS, SUM_WHOLE }; /* SUM_WHOLE: no scales, for comparison only */

typedef struct {
    const float *x; /* [K / 128][n_rows] */
    const float *w; /* [n_experts][(N + 127) / 128][K / 128] */
    int n_rows;     /* room for rows, >= their number */
} fp8_scales;

/* What one thread needs for a block: its two rows, and two halves of columns. */
typedef struct {
    float row[2], half[2];
} block_scales;

typedef struct {
    const float *row[2], *half[2];
} scale_pointers;

__device__ __forceinline__ float load_scale(const float *p)
{
    float v;
    asm volatile("ld.global.nc.f32 %0, [%1];" : "=f"(v) : "l"(p)); /* stays where it is written */
    return v;
}

__device__ __forceinline__ scale_pointers find_scales(fp8_scales x, gemm_args g, const tile *t,
                                                      int half)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    const int row = t->first_row + t->m0 + half * HALF_M + warp * 16 + lane / 4;
    const int down = (g.n + 127) / 128, n = t->n0 / 128;
    const float *w = x.w + (size_t)t->expert * down * t->n_steps;
    scale_pointers p;
    p.row[0] = x.x + min(row, x.n_rows - 1);
    p.row[1] = x.x + min(row + 8, x.n_rows - 1);
    p.half[0] = w + n * t->n_steps;
    p.half[1] = w + min(n + 1, down - 1) * t->n_steps;
    return p;
}

__device__ __forceinline__ block_scales load_scales(const scale_pointers *p, int n_rows, int block)
{
    block_scales s;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        s.row[i] = load_scale(p->row[i] + (size_t)block * n_rows);
        s.half[i] = load_scale(p->half[i] + block);
    }
    return s;
}

/* part[64][128] = A[64][128] B[128][128]; A and B of rows of 128 bytes. */
__device__ __forceinline__ void multiply_half(float part[64], uint32_t a, uint32_t b)
{
    uint64_t da = matrix_descriptor(a, 16, 8 * ROW_BYTES);
    uint64_t db = matrix_descriptor(b, 16, 8 * ROW_BYTES);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < 4; k++) wgmma_64x128_e4m3(part, da + 2 * k, db + 2 * k, k);
    wgmma_commit();
}

__device__ __forceinline__ void multiply_whole(float acc[128], uint32_t a, uint32_t b, int first)
{
    uint64_t da = matrix_descriptor(a, 16, 8 * ROW_BYTES);
    uint64_t db = matrix_descriptor(b, 16, 8 * ROW_BYTES);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < 4; k++) wgmma_64x256_e4m3(acc, da + 2 * k, db + 2 * k, !first || k);
    wgmma_commit();
}

__device__ __forceinline__ void add_scaled(float acc[64], const float part[64], float upper,
                                           float lower)
{
#pragma unroll
    for (int i = 0; i < 64; i++) acc[i] = fmaf(part[i], i & 2 ? lower : upper, acc[i]);
}

/* The sums of one tile for one warpgroup (I8, I9). */
template <int CLUSTER, int STAGES>
__device__ __forceinline__ void sum_blocks(float acc[128], gemm_shared<STAGES> *s, ring *r,
                                           const tile *t, scale_pointers p, int n_rows, int half)
{
    block_scales now = load_scales(&p, n_rows, 0);
#pragma unroll
    for (int i = 0; i < 128; i++) acc[i] = 0;
    for (int step = 0; step < t->n_steps; step++, ring_next<STAGES>(r)) {
        float part[64];
        const uint32_t a = shared_address(s->stage[r->at]) + half * BLOCK_BYTES;
        const uint32_t b = shared_address(s->stage[r->at]) + A_BYTES;
        const block_scales next = load_scales(&p, n_rows, min(step + 1, t->n_steps - 1));
        barrier_wait(shared_address(&s->full[r->at]), r->phase);
        multiply_half(part, a, b);
        wgmma_wait<0>();
        products_arrived<64>(part);
        add_scaled(acc, part, now.row[0] * now.half[0], now.row[1] * now.half[0]);
        multiply_half(part, a, b + 128 * ROW_BYTES);
        wgmma_wait<0>();
        products_arrived<64>(part);
        release<CLUSTER>(&s->empty[r->at]);
        add_scaled(acc + 64, part, now.row[0] * now.half[1], now.row[1] * now.half[1]);
        now = next;
    }
}

/* One sum for all of K, as the BF16 kernel does it: one stage ahead. */
template <int CLUSTER, int STAGES>
__device__ __forceinline__ void sum_whole(float acc[128], gemm_shared<STAGES> *s, ring *r,
                                          const tile *t, int half)
{
    int last = 0;
    for (int step = 0; step < t->n_steps; step++, ring_next<STAGES>(r)) {
        const uint32_t a = shared_address(s->stage[r->at]) + half * BLOCK_BYTES;
        const uint32_t b = shared_address(s->stage[r->at]) + A_BYTES;
        barrier_wait(shared_address(&s->full[r->at]), r->phase);
        multiply_whole(acc, a, b, step == 0);
        if (step) {
            wgmma_wait<1>();
            release<CLUSTER>(&s->empty[last]);
        }
        last = r->at;
    }
    wgmma_wait<0>();
    products_arrived<128>(acc);
    release<CLUSTER>(&s->empty[last]);
}

template <int SUM, int CLUSTER, int STAGES>
__device__ void consume_fp8(gemm_shared<STAGES> *s, gemm_args g, fp8_scales x, int rank, int half)
{
    ring r = {0, 0};
    tile t;
    int e = 0;
    uint32_t granted = 0;
    for (int i = blockIdx.x / CLUSTER;
         find_tile<GEMM_FORWARD, CLUSTER>(g, s->tiles_end, s->first_row, i, &e, rank, &t);
         i += gridDim.x / CLUSTER) {
        float acc[128];
        if (idle<GEMM_FORWARD>(&t, half)) {
            pass_by<CLUSTER, STAGES>(s, &t, &r, half);
            continue;
        }
        if constexpr (SUM == SUM_BLOCKS)
            sum_blocks<CLUSTER, STAGES>(acc, s, &r, &t, find_scales(x, g, &t, half), x.n_rows,
                                        half);
        else
            sum_whole<CLUSTER, STAGES>(acc, s, &r, &t, half);
        hand_over<GEMM_FORWARD, STAGES>(acc, s, g, &t, half, &granted);
    }
}

/* g.k counts pairs: K / 2. */
template <int SUM, int CLUSTER, int STAGES>
__global__ void __launch_bounds__(GEMM_THREADS, 1)
    grouped_fp8(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
                const __grid_constant__ CUtensorMap c, const gemm_args g, const fp8_scales x)
{
    extern __shared__ __align__(1024) uint8_t shared_bytes[];
    gemm_shared<STAGES> *s = (gemm_shared<STAGES> *)shared_bytes;
    const int role = threadIdx.x / 128;
    const int rank = CLUSTER > 1 ? (int)cluster_rank() : 0;
    set_up<GEMM_FORWARD, OUT_BF16, CLUSTER, STAGES>(s, g);
    if (role == 0) {
        registers_fewer<40>();
        copy<GEMM_FORWARD, OUT_BF16, CLUSTER, STAGES>(s, &a, &b, &c, g, rank);
    } else {
        registers_more<232>();
        consume_fp8<SUM, CLUSTER, STAGES>(s, g, x, rank, role - 1);
    }
    if (CLUSTER > 1) cluster_sync();
}

#endif

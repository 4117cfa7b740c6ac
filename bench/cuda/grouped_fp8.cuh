/* grouped_fp8.cuh - the forward GEMM of grouped_fp8.cuh without its scales: one sum
 * for all of K in the tensor cores, one stage ahead as the BF16 kernel does it. For comparison: the
 * most that the kernel could reach. */
#ifndef BENCH_CUDA_GROUPED_FP8_CUH
#define BENCH_CUDA_GROUPED_FP8_CUH

#include "backend/cuda/kernels/grouped_fp8.cuh"

__device__ __forceinline__ void multiply_whole(float acc[128], uint32_t a, uint32_t b, int first)
{
    uint64_t da = matrix_descriptor(a, 16, 8 * ROW_BYTES);
    uint64_t db = matrix_descriptor(b, 16, 8 * ROW_BYTES);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < 4; k++) wgmma_64x256_e4m3(acc, da + 2 * k, db + 2 * k, !first || k);
    wgmma_commit();
}

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
    gemms_arrived<128>(acc);
    release<CLUSTER>(&s->empty[last]);
}

template <int CLUSTER, int STAGES>
__device__ void consume_whole(gemm_shared<STAGES> *s, gemm_args g, int rank, int half)
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
        sum_whole<CLUSTER, STAGES>(acc, s, &r, &t, half);
        hand_over<GEMM_FORWARD, STAGES>(acc, s, g, &t, half, &granted);
    }
}

/* g.k counts pairs: K / 2. */
template <int CLUSTER, int STAGES>
__global__ void __launch_bounds__(GEMM_THREADS, 1)
    grouped_fp8_whole(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
                      const __grid_constant__ CUtensorMap c, const gemm_args g)
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
        consume_whole<CLUSTER, STAGES>(s, g, rank, role - 1);
    }
    if (CLUSTER > 1) cluster_sync();
}

#endif

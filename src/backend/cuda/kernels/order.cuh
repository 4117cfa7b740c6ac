/* order.cuh - numbering in order: what a block needs to give the items of a list that are its own
 * their numbers, one after another.
 *
 * To sort pairs by expert every expert has a block, which reads all of the list: that is E times n
 * small reads, out of the cache, and needs no order between blocks. */
#ifndef BACKEND_CUDA_KERNELS_ORDER_CUH
#define BACKEND_CUDA_KERNELS_ORDER_CUH

#include "backend/cuda/kernels/device.cuh"

/* Calls write(i, number) for the items i < n with own(i), numbered from 0 in their order; all
 * threads of the block take part and get how many there are. */
template <class P, class W>
static __device__ int64_t number_own(int64_t n, const P &own, const W &write)
{
    __shared__ int votes[WARPS];
    const int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP;
    int64_t before = 0;
    for (int64_t i0 = 0; i0 < n; i0 += BLOCK) {
        const int64_t i = i0 + threadIdx.x;
        const bool is_own = i < n && own(i);
        const unsigned vote = __ballot_sync(ALL_LANES, is_own);
        __syncthreads(); /* the last votes are read */
        if (lane == 0) votes[warp] = __popc(vote);
        __syncthreads();
        int64_t number = before + __popc(vote & ((1u << lane) - 1));
        for (int k = 0; k < WARPS; k++) {
            number += k < warp ? votes[k] : 0;
            before += votes[k];
        }
        if (is_own) write(i, number);
    }
    return before;
}

/* What own() of number_own decides on: a list of pairs, each of an expert or of none (-1). */
template <class L> __global__ void count_kernel(L list, int32_t *offsets)
{
    const int64_t e = blockIdx.x, n = list.size();
    const int64_t count = number_own(
        n, [&](int64_t i) { return list.expert(i) == e; }, [](int64_t, int64_t) {});
    if (threadIdx.x == 0) offsets[e + 1] = (int32_t)count;
}

/* How a list is sorted: PAD > 0: each expert has so many rows; else those it has, aligned. */
struct sorting {
    int64_t n_experts, room, pad, align;
};

/* From counts to starts, within the room. Demand may be missing. */
static __global__ void starts_kernel(int32_t *offsets, sorting s, int32_t *demand)
{
    int64_t sum = 0;
    offsets[0] = 0;
    for (int64_t e = 1; e <= s.n_experts; e++) {
        sum = s.pad ? e * s.pad : sum + aligned_rows(offsets[e], s.align);
        offsets[e] = (int32_t)(sum < s.room ? sum : s.room);
    }
    if (!demand) return;
    demand[0] = (int32_t)sum;
    demand[1] = (int32_t)s.room;
}

/* An expert whose start was cut to the room has no row at all, so the cut start serves. */
template <class L>
__global__ void number_kernel(L list, const int32_t *offsets, int64_t room, int64_t pad,
                              int32_t *rows)
{
    const int64_t e = blockIdx.x, start = pad ? e * pad : offsets[e];
    number_own(
        list.size(), [&](int64_t i) { return list.expert(i) == e; },
        [&](int64_t i, int64_t number) {
            const bool fits = start + number < room && (!pad || number < pad);
            rows[i] = fits ? (int32_t)(start + number) : -1;
        });
}

/* rows[n] and offsets[experts + 1] of a list of at most `most` pairs. */
template <class L>
static void sort_list(const kernel_call *c, const L &list, int64_t most, sorting s, int32_t *rows,
                      int32_t *offsets, int32_t *demand)
{
    s.pad = aligned_rows(s.pad, s.align);
    for_each(c, most, [=] __device__(int64_t i) { rows[i] = -1; });
    const unsigned blocks = (unsigned)s.n_experts;
    if (blocks > 0 && !s.pad) count_kernel<<<blocks, BLOCK, 0, stream_of(c)>>>(list, offsets);
    starts_kernel<<<1, 1, 0, stream_of(c)>>>(offsets, s, demand);
    if (blocks > 0)
        number_kernel<<<blocks, BLOCK, 0, stream_of(c)>>>(list, offsets, s.room, s.pad, rows);
}

#endif

/* choice.cuh - the best of a token's scores, a warp a token, scores in registers.
 *
 * Expert 32 j + lane is a lane's j-th. The best is found by two reductions over the warp: the
 * largest score, as an integer of the same order, then the lowest index that has it. */
#ifndef BACKEND_CUDA_KERNELS_CHOICE_CUH
#define BACKEND_CUDA_KERNELS_CHOICE_CUH

#include "backend/cuda/kernels/router.cuh"

enum { CHOSEN_MOST = 32 };

/* Larger floats give larger integers, all above zero; -0 is 0. */
static __device__ __forceinline__ unsigned order_of(float v)
{
    const unsigned bits = __float_as_uint(v + 0.f);
    return bits >> 31 ? ~bits : bits | 0x80000000u;
}

/* The best of all lanes; its key becomes 0. */
template <int EACH> static __device__ __forceinline__ int take_best(unsigned (&key)[EACH], int lane)
{
    unsigned top = 0;
    int at = 0;
#pragma unroll
    for (int j = 0; j < EACH; j++)
        if (key[j] > top) top = key[j], at = j;
    const unsigned most = __reduce_max_sync(ALL_LANES, top);
    const unsigned mine = top == most ? (unsigned)(at * WARP + lane) : ~0u;
    const int best = (int)__reduce_min_sync(ALL_LANES, mine);
#pragma unroll
    for (int j = 0; j < EACH; j++)
        if (j * WARP + lane == best) key[j] = 0;
    return best;
}

#endif

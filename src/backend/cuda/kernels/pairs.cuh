/* pairs.cuh - two BF16 numbers in a word: what an instruction does with both at once. */
#ifndef BACKEND_CUDA_KERNELS_PAIRS_CUH
#define BACKEND_CUDA_KERNELS_PAIRS_CUH

#include <cuda_bf16.h>
#include <stdint.h>

static __device__ __forceinline__ float first_of(uint32_t two)
{
    return __uint_as_float(two << 16);
}

static __device__ __forceinline__ float second_of(uint32_t two)
{
    return __uint_as_float(two & 0xffff0000u);
}

/* Four of the eight bytes of a and b, the lowest first, by the digits of `which`. */
static __device__ __forceinline__ uint32_t bytes_of(uint32_t a, uint32_t b, uint32_t which)
{
    return __byte_perm(a, b, which);
}

static __device__ __forceinline__ uint32_t firsts_of(uint32_t a, uint32_t b)
{
    return bytes_of(a, b, 0x5410);
}

static __device__ __forceinline__ uint32_t seconds_of(uint32_t a, uint32_t b)
{
    return bytes_of(a, b, 0x7632);
}

/* Of numbers that BF16 has exactly. */
static __device__ __forceinline__ uint32_t two_from(float first, float second)
{
    return seconds_of(__float_as_uint(first), __float_as_uint(second));
}

static __device__ __forceinline__ uint32_t sizes_of_two(uint32_t two)
{
    return two & 0x7fff7fffu;
}

/* As CUDA's functions have them. */
union two_numbers {
    uint32_t bits;
    __nv_bfloat162 two;
    __device__ __forceinline__ two_numbers(uint32_t of) : bits(of)
    {
    }
    __device__ __forceinline__ two_numbers(__nv_bfloat162 of) : two(of)
    {
    }
};

/* Each the larger one; what is no number is never the larger. */
static __device__ __forceinline__ uint32_t larger_two(uint32_t a, uint32_t b)
{
    return two_numbers(__hmax2(two_numbers(a).two, two_numbers(b).two)).bits;
}

static __device__ __forceinline__ uint32_t gemm_two(uint32_t a, uint32_t b)
{
    return two_numbers(__hmul2_rn(two_numbers(a).two, two_numbers(b).two)).bits;
}

#endif

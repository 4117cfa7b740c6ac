/* quantise_fp8.cuh - BF16 to E4M3 with one scale for 128 values of a row, or for 128 x 128.
 *
 * A scale is the least power of two that brings the block's largest value to 448 or below, so that
 * scaling rounds nothing: value = E4M3 * scale. A block of zeros gets the least normal scale. */
#ifndef BENCH_CUDA_QUANTISE_FP8_CUH
#define BENCH_CUDA_QUANTISE_FP8_CUH

#include <cuda_bf16.h>
#include <cuda_fp8.h>

/* Largest magnitude of eight BF16 values, as the bits of an FP32 number. */
__device__ __forceinline__ uint32_t largest_of_eight(uint4 v)
{
    const uint32_t word[4] = {v.x, v.y, v.z, v.w};
    uint32_t most = 0;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        most = max(most, word[i] & 0x7fff0000u);
        most = max(most, word[i] << 16 & 0x7fff0000u);
    }
    return most;
}

/* 448 is 1.75 * 2^8. */
__device__ __forceinline__ uint32_t scale_exponent(uint32_t largest)
{
    return (uint32_t)max(1, (int)(largest >> 23) - 8 + ((largest & 0x7fffff) > 0x600000));
}

__device__ __forceinline__ uint2 eight_to_e4m3(uint4 v, float inverse)
{
    const uint32_t word[4] = {v.x, v.y, v.z, v.w};
    uint32_t pair[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float2 f = make_float2(__uint_as_float(word[i] << 16) * inverse,
                               __uint_as_float(word[i] & 0xffff0000u) * inverse);
        pair[i] = __nv_cvt_float2_to_fp8x2(f, __NV_SATFINITE, __NV_E4M3);
    }
    return make_uint2(pair[0] | pair[1] << 16, pair[2] | pair[3] << 16);
}

enum { QUANTISE_ROWS = 8, QUANTISE_THREADS = 256 };

/* y[n_rows][k], scales[k / 128][n_rows]. A warp takes one block of eight rows, 16 lanes a row, with
 * four loads on their way at once; its eight scales are one sector. */
__global__ void __launch_bounds__(QUANTISE_THREADS)
    quantise_rows(const __nv_bfloat16 *x, uint8_t *y, float *scales, int n_rows, int k)
{
    const int lane = threadIdx.x % 32, blocks = k / 128;
    const int warp = (int)((blockIdx.x * (size_t)blockDim.x + threadIdx.x) / 32);
    const int block = warp % blocks, row = warp / blocks * QUANTISE_ROWS + lane / 16;
    if (warp / blocks * QUANTISE_ROWS >= n_rows) return;
    const size_t at = (size_t)row * k + block * 128 + lane % 16 * 8;
    uint4 v[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        v[i] = make_uint4(0, 0, 0, 0);
        if (row + 2 * i < n_rows) v[i] = __ldcs((const uint4 *)(x + at + (size_t)(2 * i) * k));
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        uint32_t most = largest_of_eight(v[i]);
#pragma unroll
        for (int d = 8; d; d /= 2) most = max(most, __shfl_xor_sync(~0u, most, d));
        const uint32_t e = scale_exponent(most);
        if (row + 2 * i >= n_rows) continue;
        *(uint2 *)(y + at + (size_t)(2 * i) * k) =
            eight_to_e4m3(v[i], __uint_as_float((254 - e) << 23));
        if (lane % 16 == i) scales[(size_t)block * n_rows + row + 2 * i] = __uint_as_float(e << 23);
    }
}

/* y[n_experts][n][k], scales[n_experts][(n + 127) / 128][k / 128]; a block of threads a square. */
__global__ void __launch_bounds__(QUANTISE_THREADS)
    quantise_squares(const __nv_bfloat16 *w, uint8_t *y, float *scales, int n, int k)
{
    __shared__ uint32_t of_warp[QUANTISE_THREADS / 32];
    const int row = blockIdx.y * 128 + threadIdx.x / 16;
    const size_t at = ((size_t)blockIdx.z * n + row) * k + blockIdx.x * 128 + threadIdx.x % 16 * 8;
    uint32_t most = 0;
    uint4 v[8];
#pragma unroll
    for (int i = 0; i < 8; i++) {
        v[i] = make_uint4(0, 0, 0, 0);
        if (row + 16 * i < n) v[i] = __ldcs((const uint4 *)(w + at + (size_t)(16 * i) * k));
    }
#pragma unroll
    for (int i = 0; i < 8; i++) most = max(most, largest_of_eight(v[i]));
    most = __reduce_max_sync(~0u, most);
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = most;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < QUANTISE_THREADS / 32; i++) most = max(most, of_warp[i]);
    const uint32_t e = scale_exponent(most);
#pragma unroll
    for (int i = 0; i < 8; i++)
        if (row + 16 * i < n)
            *(uint2 *)(y + at + (size_t)(16 * i) * k) =
                eight_to_e4m3(v[i], __uint_as_float((254 - e) << 23));
    if (threadIdx.x == 0)
        scales[((size_t)blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x] =
            __uint_as_float(e << 23);
}

#endif

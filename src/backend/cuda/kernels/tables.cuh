/* tables.cuh - tables of messages, int32[6][members] (ops_moe.def): where rows to each member
 * start, how many, where rows from it start, how many, and the first two again. */
#ifndef BACKEND_CUDA_KERNELS_TABLES_CUH
#define BACKEND_CUDA_KERNELS_TABLES_CUH

#include "backend/cuda/kernels/device.cuh"

enum { SEND_START, SEND_ROWS, RECV_START, RECV_ROWS, TABLE_ROWS = 6 };

/* All threads of the block, after the first four rows are written and seen. */
static __device__ void end_table(int32_t *table, int64_t n)
{
    for (int64_t i = threadIdx.x; i < 2 * n; i += BLOCK) table[4 * n + i] = table[i];
}

static __device__ int64_t rows_received(const int32_t *table, int64_t n)
{
    int64_t sum = 0;
    for (int64_t m = 0; m < n; m++) sum += table[RECV_ROWS * n + m];
    return sum;
}

#endif

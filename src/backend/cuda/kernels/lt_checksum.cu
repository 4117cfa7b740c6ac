/* lt_checksum.cu - are two results the same bit by bit? Their sums of words say so, whatever the
 * order in which they are added: whole numbers. */
#include "backend/cuda/kernels/lt_plan.h"

enum { BLOCKS = 264, THREADS = 256 };

/* Words of 16 bits, so that any format fits; each is mixed with its place, so that a swap shows. */
static __global__ void sum_kernel(const unsigned short *x, int64_t n, unsigned long long *sum)
{
    unsigned long long own = 0;
    for (int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x; i < n;
         i += (int64_t)BLOCKS * THREADS)
        own += (x[i] + 1ull) * ((unsigned long long)i * 0x9e3779b97f4a7c15ull | 1);
    atomicAdd(sum, own);
}

extern "C" void lt_checksum(const void *data, int64_t bytes, unsigned long long *sum, void *stream)
{
    const cudaStream_t s = (cudaStream_t)stream;
    cudaMemsetAsync(sum, 0, sizeof *sum, s);
    sum_kernel<<<BLOCKS, THREADS, 0, s>>>((const unsigned short *)data, bytes / 2, sum);
}

/* copies.cuh - copies into shared memory that are waited for later. */
#ifndef BACKEND_CUDA_KERNELS_COPIES_CUH
#define BACKEND_CUDA_KERNELS_COPIES_CUH

#include <stdint.h>

static __device__ __forceinline__ uint32_t shared_address(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

/* 16 bytes, or zeros. */
static __device__ __forceinline__ void copy_16(void *to, const void *from, bool there)
{
    const int bytes = there ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)),
                 "l"(from), "r"(bytes)
                 : "memory");
}

/* All that this thread has begun. */
static __device__ __forceinline__ void copies_wait(void)
{
    asm volatile("cp.async.wait_all;" ::: "memory");
}

#endif

/* hopper.cuh - the Hopper instructions that CUDA C has no words for, one function each.
 *
 * Barriers are mbarriers in shared memory, named by their 32-bit shared address. A wait takes the
 * parity of the phase that it waits for. Addresses in another block of the cluster come from
 * cluster_address(). */
#ifndef BACKEND_CUDA_KERNELS_HOPPER_CUH
#define BACKEND_CUDA_KERNELS_HOPPER_CUH

#include <stdint.h>
#include <cuda.h>
#include <cuda_bf16.h>

#include "backend/cuda/kernels/copies.cuh"

__device__ __forceinline__ uint32_t cluster_rank(void)
{
    uint32_t r;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
    return r;
}

__device__ __forceinline__ uint32_t cluster_address(uint32_t address, uint32_t rank)
{
    uint32_t r;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(address), "r"(rank));
    return r;
}

__device__ __forceinline__ void cluster_sync(void)
{
    asm volatile("barrier.cluster.arrive.release.aligned;\n"
                 "barrier.cluster.wait.acquire.aligned;" ::
                     : "memory");
}

/* ---- barriers ---- */

__device__ __forceinline__ void barrier_init(uint32_t b, uint32_t arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(b), "r"(arrivals) : "memory");
}

__device__ __forceinline__ void barrier_init_fence(void)
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void barrier_expect(uint32_t b, uint32_t n_bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(b), "r"(n_bytes)
                 : "memory");
}

__device__ __forceinline__ void barrier_arrive(uint32_t b)
{
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(b) : "memory");
}

__device__ __forceinline__ void barrier_wait(uint32_t b, uint32_t parity)
{
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n"
                 "}" ::"r"(b),
                 "r"(parity)
                 : "memory");
}

/* Threads of a few warps meet; id 0 is __syncthreads(). */
__device__ __forceinline__ void warps_sync(int id, int n_threads)
{
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(n_threads) : "memory");
}

/* ---- the copy engine ---- */

typedef struct {
    int c[4];
} coords;

/* A box of an N-dimensional tensor into shared memory; with `mask`, into every block of it. */
template <int N, bool MANY>
__device__ __forceinline__ void tma_load(uint32_t to, const CUtensorMap *map, coords at, uint32_t b,
                                         uint16_t mask)
{
#define TMA_LOAD(dims, list)                                                                       \
    if constexpr (MANY)                                                                            \
        asm volatile("cp.async.bulk.tensor." dims ".shared::cluster.global.mbarrier::complete_tx"  \
                     "::bytes.multicast::cluster [%0], [%1, " list "], [%2], %3;" ::"r"(to),       \
                     "l"(map), "r"(b), "h"(mask), "r"(at.c[0]), "r"(at.c[1]), "r"(at.c[2]),        \
                     "r"(at.c[3])                                                                  \
                     : "memory");                                                                  \
    else                                                                                           \
        asm volatile("cp.async.bulk.tensor." dims ".shared::cluster.global.mbarrier::complete_tx"  \
                     "::bytes [%0], [%1, " list "], [%2];" ::"r"(to),                              \
                     "l"(map), "r"(b), "h"(mask), "r"(at.c[0]), "r"(at.c[1]), "r"(at.c[2]),        \
                     "r"(at.c[3])                                                                  \
                     : "memory")
    if constexpr (N == 2) {
        TMA_LOAD("2d", "{%4, %5}");
    } else if constexpr (N == 3) {
        TMA_LOAD("3d", "{%4, %5, %6}");
    } else {
        TMA_LOAD("4d", "{%4, %5, %6, %7}");
    }
#undef TMA_LOAD
}

template <int N>
__device__ __forceinline__ void tma_store(const CUtensorMap *map, coords at, uint32_t from)
{
    if constexpr (N == 2)
        asm volatile(
            "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];" ::"l"(
                map),
            "r"(from), "r"(at.c[0]), "r"(at.c[1])
            : "memory");
    else
        asm volatile(
            "cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(
                map),
            "r"(from), "r"(at.c[0]), "r"(at.c[1]), "r"(at.c[2])
            : "memory");
}

/* Neighbours of a multiple of 16 bytes, from an address at a multiple of 16. */
__device__ __forceinline__ void bulk_load(uint32_t to, const void *from, uint32_t n_bytes,
                                          uint32_t b)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1], %2, [%3];" ::"r"(to),
                 "l"(from), "r"(n_bytes), "r"(b)
                 : "memory");
}

__device__ __forceinline__ void tma_commit(void)
{
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

/* The stores so far have read their shared memory. */
__device__ __forceinline__ void tma_wait_read(void)
{
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

__device__ __forceinline__ void tma_wait_all(void)
{
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

/* What ordinary stores wrote to shared memory may be read by the copy engine and by wgmma. */
__device__ __forceinline__ void proxy_fence(void)
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

__device__ __forceinline__ void store_matrices(uint32_t to, const uint32_t r[4])
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to),
                 "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
                 : "memory");
}

/* Four sums in memory at once. */
__device__ __forceinline__ void add_to_memory(float *to, float4 v)
{
    asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(v.x),
                 "f"(v.y), "f"(v.z), "f"(v.w)
                 : "memory");
}

/* ---- tensor cores ---- */

__device__ __forceinline__ void wgmma_fence(void)
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ __forceinline__ void wgmma_commit(void)
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

template <int N> __device__ __forceinline__ void wgmma_wait(void)
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

/* A matrix in shared memory whose rows of 128 bytes are swizzled as the copy engine does it
 * (address bits 4..6 xor bits 7..9). `step` is the distance of groups of eight rows; `lead` that
 * of blocks of 64 columns, where columns run along the rows of the result. */
__device__ __forceinline__ uint64_t matrix_descriptor(uint32_t address, uint32_t lead,
                                                      uint32_t step)
{
    uint64_t d = (uint64_t)1 << 62;
    d |= (uint64_t)((address & 0x3FFFF) >> 4);
    d |= (uint64_t)(lead >> 4) << 16;
    d |= (uint64_t)(step >> 4) << 32;
    return d;
}

#define D8(i)                                                                                      \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]),    \
        "+f"(d[i + 6]), "+f"(d[i + 7])

/* d[64][256] (+)= A[64][16] B[16][256], BF16, sums in FP32; AT, BT: the operand is stored with the
 * result's dimension contiguous. */
template <int AT, int BT>
__device__ __forceinline__ void wgmma_64x256(float d[128], uint64_t a, uint64_t b, int add)
{
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 "setp.ne.b32 p, %130, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, "
                 "%8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, "
                 "%24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, "
                 "%40, %41, %42, %43, %44, %45, %46, %47, "
                 "%48, %49, %50, %51, %52, %53, %54, %55, "
                 "%56, %57, %58, %59, %60, %61, %62, %63, "
                 "%64, %65, %66, %67, %68, %69, %70, %71, "
                 "%72, %73, %74, %75, %76, %77, %78, %79, "
                 "%80, %81, %82, %83, %84, %85, %86, %87, "
                 "%88, %89, %90, %91, %92, %93, %94, %95, "
                 "%96, %97, %98, %99, %100, %101, %102, %103, "
                 "%104, %105, %106, %107, %108, %109, %110, %111, "
                 "%112, %113, %114, %115, %116, %117, %118, %119, "
                 "%120, %121, %122, %123, %124, %125, %126, %127}, "
                 "%128, %129, p, 1, 1, %131, %132;\n"
                 "}"
                 : D8(0), D8(8), D8(16), D8(24), D8(32), D8(40), D8(48), D8(56), D8(64), D8(72),
                   D8(80), D8(88), D8(96), D8(104), D8(112), D8(120)
                 : "l"(a), "l"(b), "r"(add), "n"(AT), "n"(BT));
}

/* The same with 240 columns. */
template <int AT, int BT>
__device__ __forceinline__ void wgmma_64x240(float d[128], uint64_t a, uint64_t b, int add)
{
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 "setp.ne.b32 p, %122, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n240k16.f32.bf16.bf16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, "
                 "%8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, "
                 "%24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, "
                 "%40, %41, %42, %43, %44, %45, %46, %47, "
                 "%48, %49, %50, %51, %52, %53, %54, %55, "
                 "%56, %57, %58, %59, %60, %61, %62, %63, "
                 "%64, %65, %66, %67, %68, %69, %70, %71, "
                 "%72, %73, %74, %75, %76, %77, %78, %79, "
                 "%80, %81, %82, %83, %84, %85, %86, %87, "
                 "%88, %89, %90, %91, %92, %93, %94, %95, "
                 "%96, %97, %98, %99, %100, %101, %102, %103, "
                 "%104, %105, %106, %107, %108, %109, %110, %111, "
                 "%112, %113, %114, %115, %116, %117, %118, %119}, "
                 "%120, %121, p, 1, 1, %123, %124;\n"
                 "}"
                 : D8(0), D8(8), D8(16), D8(24), D8(32), D8(40), D8(48), D8(56), D8(64), D8(72),
                   D8(80), D8(88), D8(96), D8(104), D8(112)
                 : "l"(a), "l"(b), "r"(add), "n"(AT), "n"(BT));
}

/* d[64][128] (+)= A[64][32] B[32][128], B in E4M3, A in E4M3 or E5M2, both operands stored with the
 * summed dimension contiguous: the tensor cores know no other way for 8 bits. */
#define WGMMA_64X128(type_a)                                                                       \
    asm volatile("{\n"                                                                             \
                 ".reg .pred p;\n"                                                                 \
                 "setp.ne.b32 p, %66, 0;\n"                                                        \
                 "wgmma.mma_async.sync.aligned.m64n128k32.f32." type_a ".e4m3 {"                   \
                 "%0, %1, %2, %3, %4, %5, %6, %7, "                                                \
                 "%8, %9, %10, %11, %12, %13, %14, %15, "                                          \
                 "%16, %17, %18, %19, %20, %21, %22, %23, "                                        \
                 "%24, %25, %26, %27, %28, %29, %30, %31, "                                        \
                 "%32, %33, %34, %35, %36, %37, %38, %39, "                                        \
                 "%40, %41, %42, %43, %44, %45, %46, %47, "                                        \
                 "%48, %49, %50, %51, %52, %53, %54, %55, "                                        \
                 "%56, %57, %58, %59, %60, %61, %62, %63}, "                                       \
                 "%64, %65, p, 1, 1;\n"                                                            \
                 "}"                                                                               \
                 : D8(0), D8(8), D8(16), D8(24), D8(32), D8(40), D8(48), D8(56)                    \
                 : "l"(a), "l"(b), "r"(add))

template <bool WIDE_A>
__device__ __forceinline__ void wgmma_64x128_fp8(float d[64], uint64_t a, uint64_t b, int add)
{
    if constexpr (WIDE_A)
        WGMMA_64X128("e5m2");
    else
        WGMMA_64X128("e4m3");
}

#undef WGMMA_64X128

/* The same with 256 columns. */
__device__ __forceinline__ void wgmma_64x256_e4m3(float d[128], uint64_t a, uint64_t b, int add)
{
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 "setp.ne.b32 p, %130, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n256k32.f32.e4m3.e4m3 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, "
                 "%8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, "
                 "%24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, "
                 "%40, %41, %42, %43, %44, %45, %46, %47, "
                 "%48, %49, %50, %51, %52, %53, %54, %55, "
                 "%56, %57, %58, %59, %60, %61, %62, %63, "
                 "%64, %65, %66, %67, %68, %69, %70, %71, "
                 "%72, %73, %74, %75, %76, %77, %78, %79, "
                 "%80, %81, %82, %83, %84, %85, %86, %87, "
                 "%88, %89, %90, %91, %92, %93, %94, %95, "
                 "%96, %97, %98, %99, %100, %101, %102, %103, "
                 "%104, %105, %106, %107, %108, %109, %110, %111, "
                 "%112, %113, %114, %115, %116, %117, %118, %119, "
                 "%120, %121, %122, %123, %124, %125, %126, %127}, "
                 "%128, %129, p, 1, 1;\n"
                 "}"
                 : D8(0), D8(8), D8(16), D8(24), D8(32), D8(40), D8(48), D8(56), D8(64), D8(72),
                   D8(80), D8(88), D8(96), D8(104), D8(112), D8(120)
                 : "l"(a), "l"(b), "r"(add));
}

#undef D8

/* Keeps what uses the GEMMs behind the wait for them: nothing else holds registers back. */
template <int N> __device__ __forceinline__ void gemms_arrived(float *d)
{
#pragma unroll
    for (int i = 0; i < N; i++) asm volatile("" : "+f"(d[i])::"memory");
}

template <int N> __device__ __forceinline__ void registers_more(void)
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}

template <int N> __device__ __forceinline__ void registers_fewer(void)
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}

#endif

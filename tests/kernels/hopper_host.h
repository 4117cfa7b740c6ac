/* hopper_host.h - a cluster of two blocks of a Hopper GPU on the host: as much of CUDA C, of
 * hopper.cuh and of the copy engine as grouped_gemm.cuh and grouped_fp8.cuh use.
 *
 * Threads are fibers that take turns; one that waits lets the others go on. Copies and GEMMs are
 * done when they are asked for, which is the earliest that hardware might; barriers count arrivals
 * and bytes as mbarriers do. Shared addresses have the block's number in front. */
#ifndef TESTS_KERNELS_HOPPER_HOST_H
#define TESTS_KERNELS_HOPPER_HOST_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include <map>
#include <vector>

#include "base/narrow.h"

#define __device__
#define __host__
#define __global__
#define __forceinline__ inline
#define __grid_constant__
#define __launch_bounds__(...)

struct index3 {
    unsigned x, y, z;
};
static index3 threadIdx, blockIdx, gridDim;

struct float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(16) int4 {
    int x, y, z, w;
};
struct __nv_bfloat16 {
    uint16_t bits;
};
struct __nv_bfloat162 {
    uint16_t x, y;
};

inline float2 make_float2(float x, float y)
{
    return {x, y};
}
inline uint16_t bf16_of(float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y)
{
    return {bf16_of(x), bf16_of(y)};
}
inline int min(int a, int b)
{
    return a < b ? a : b;
}
inline int max(int a, int b)
{
    return a > b ? a : b;
}

/* ---- fibers */
enum { PAIR = 2, THREADS = 384, FIBERS = PAIR * THREADS, STACK = 32 << 10, SHARED = 232448 };
static ucontext_t scheduler, fibers[FIBERS];
static bool ended[FIBERS];
static int now;
static uint8_t *memory[PAIR]; /* shared, at a multiple of 1024 */

inline void let_others()
{
    swapcontext(&fibers[now], &scheduler);
}

struct rendezvous {
    int came = 0, round = 0;
};
static std::map<int, rendezvous> rendezvous_list;

inline void meet(int id, int n)
{
    rendezvous &m = rendezvous_list[id];
    const int round = m.round;
    if (++m.came == n) {
        m.came = 0;
        m.round++;
    }
    while (m.round == round) let_others();
}
inline int block_of()
{
    return now / THREADS;
}
inline void warps_sync(int id, int n)
{
    meet(1000 + block_of() * 32 + id, n);
}
inline void __syncthreads()
{
    warps_sync(0, THREADS);
}
inline void __syncwarp()
{
    meet(2000 + now / 32, 32);
}
inline void cluster_sync()
{
    meet(3000, FIBERS);
}

static uint32_t slots[FIBERS];
inline uint32_t of_lane(uint32_t mine, int lane)
{
    slots[now] = mine;
    __syncwarp();
    const uint32_t theirs = slots[now / 32 * 32 + lane];
    __syncwarp();
    return theirs;
}
inline int __shfl_up_sync(unsigned, int v, int d)
{
    const int lane = now % 32;
    return (int)of_lane((uint32_t)v, lane >= d ? lane - d : lane);
}
inline int __shfl_sync(unsigned, int v, int lane)
{
    return (int)of_lane((uint32_t)v, lane);
}

/* ---- shared memory and barriers */
enum { BLOCK_BITS = 20 };
inline uint32_t shared_address(const void *p)
{
    for (int b = 0; b < PAIR; b++) {
        const ptrdiff_t at = (const uint8_t *)p - memory[b];
        if (at >= 0 && at < SHARED) return (uint32_t)(b << BLOCK_BITS | (int)at);
    }
    abort();
}
inline uint8_t *at_address(uint32_t a)
{
    if ((a & ((1 << BLOCK_BITS) - 1)) >= SHARED) abort();
    return memory[a >> BLOCK_BITS] + (a & ((1 << BLOCK_BITS) - 1));
}
inline uint32_t cluster_rank()
{
    return (uint32_t)block_of();
}
inline uint32_t cluster_address(uint32_t a, uint32_t rank)
{
    return (a & ((1 << BLOCK_BITS) - 1)) | rank << BLOCK_BITS;
}

struct barrier {
    int expected, pending, bytes;
    uint32_t phase;
};
static std::map<uint32_t, barrier> barriers;

inline void barrier_init(uint32_t b, uint32_t n)
{
    barriers[b] = {(int)n, (int)n, 0, 0};
}
inline void barrier_init_fence()
{
}
inline void complete(barrier &b)
{
    if (b.pending < 0) abort(); /* somebody arrived twice */
    if (b.pending || b.bytes) return;
    b.pending = b.expected;
    b.phase ^= 1;
}
inline void barrier_arrive(uint32_t a)
{
    barrier &b = barriers.at(a);
    b.pending--;
    complete(b);
}
inline void barrier_expect(uint32_t a, uint32_t n)
{
    barriers.at(a).bytes += (int)n;
    barrier_arrive(a);
}
inline void barrier_bytes(uint32_t a, int n)
{
    barrier &b = barriers.at(a);
    b.bytes -= n;
    complete(b);
}
inline void barrier_wait(uint32_t a, uint32_t parity)
{
    while (barriers.at(a).phase == parity) let_others();
}

/* ---- the copy engine: tensors of 16-bit elements, rows of 128 bytes swizzled */
struct tensor_shape {
    int n;
    uint64_t size[4], stride[4];
    uint32_t box[4];
};
struct CUtensorMap {
    uint8_t *base;
    tensor_shape s;
};
inline bool tensor_map(CUtensorMap *map, const void *base, const tensor_shape &s)
{
    for (int i = 1; i < s.n; i++)
        if (s.stride[i] * 2 % 16) return false;
    *map = {(uint8_t *)base, s};
    return s.box[0] * 2 <= 128 && ((uintptr_t)base & 15) == 0;
}
struct coords {
    int c[4];
};

inline uint32_t swizzled(uint32_t a)
{
    return a ^ ((a >> 7 & 7) << 4);
}

/* f(address in memory or NULL, shared address) for every element of a box. */
template <class F> inline void each_of_box(const CUtensorMap *m, coords at, uint32_t to, const F &f)
{
    uint32_t i[4], box[4] = {1, 1, 1, 1}, place = to;
    for (int d = 0; d < m->s.n; d++) box[d] = m->s.box[d];
    for (i[3] = 0; i[3] < box[3]; i[3]++)
        for (i[2] = 0; i[2] < box[2]; i[2]++)
            for (i[1] = 0; i[1] < box[1]; i[1]++)
                for (i[0] = 0; i[0] < box[0]; i[0]++, place += 2) {
                    bool in = true;
                    uint64_t off = 0;
                    for (int d = 0; d < m->s.n; d++) {
                        const int64_t c = (int64_t)at.c[d] + i[d];
                        in &= c >= 0 && c < (int64_t)m->s.size[d];
                        off += (uint64_t)c * (d ? m->s.stride[d] : 1);
                    }
                    f(in ? m->base + 2 * off : NULL, swizzled(place));
                }
}
template <int N, bool MANY>
inline void tma_load(uint32_t to, const CUtensorMap *m, coords at, uint32_t b, uint16_t mask)
{
    for (int block = 0; block < PAIR; block++) {
        if (MANY ? !(mask >> block & 1) : block != block_of()) continue;
        int bytes = 0;
        each_of_box(m, at, cluster_address(to, (uint32_t)block), [&](const uint8_t *p, uint32_t a) {
            const uint16_t zero = 0;
            memcpy(at_address(a), p ? (const void *)p : &zero, 2);
            bytes += 2;
        });
        barrier_bytes(cluster_address(b, (uint32_t)block), bytes);
    }
}
template <int N> inline void tma_store(const CUtensorMap *m, coords at, uint32_t from)
{
    each_of_box(m, at, from, [&](uint8_t *p, uint32_t a) {
        if (p) memcpy(p, at_address(a), 2);
    });
}
inline void bulk_load(uint32_t to, const void *from, uint32_t n, uint32_t b)
{
    if (n % 16 || to % 16 || (uintptr_t)from % 16) abort();
    memcpy(at_address(to), from, n);
    barrier_bytes(b, (int)n);
}
inline void tma_commit()
{
}
inline void tma_wait_read()
{
}
inline void tma_wait_all()
{
}
inline void proxy_fence()
{
}

/* Four matrices of 8 x 8 numbers of 16 bits; lane l has the place of row l % 8 of matrix l / 8. */
inline void store_matrices(uint32_t to, const uint32_t r[4])
{
    const int lane = now % 32;
    for (int i = 0; i < 4; i++) {
        const uint32_t row = of_lane(to, i * 8 + lane / 4);
        memcpy(at_address(row) + lane % 4 * 4, &r[i], 4);
    }
}
inline void add_to_memory(float *to, float4 v)
{
    to[0] += v.x, to[1] += v.y, to[2] += v.z, to[3] += v.w;
}

/* ---- tensor cores */
inline void wgmma_fence()
{
}
inline void wgmma_commit()
{
}
/* A warpgroup's GEMMs are done together. */
template <int N> inline void wgmma_wait()
{
    meet(4000 + now / 128, 128);
}
inline uint64_t matrix_descriptor(uint32_t a, uint32_t, uint32_t)
{
    return a >> 4;
}
inline float element(uint64_t descriptor, int row, int k, dtype t)
{
    static float values[2][256];
    if (values[0][0x38] == 0)
        for (int i = 0; i < 256; i++) {
            values[0][i] = narrow_to_float(narrow_format_of(DTYPE_E4M3), (uint8_t)i);
            values[1][i] = narrow_to_float(narrow_format_of(DTYPE_E5M2), (uint8_t)i);
        }
    return values[t == DTYPE_E5M2]
                 [*at_address(swizzled((uint32_t)(descriptor << 4) + (uint32_t)(row * 128 + k)))];
}
template <bool WIDE_A> inline void wgmma_64x128_fp8(float d[64], uint64_t a, uint64_t b, int add)
{
    const int lane = now % 32, warp = now / 32 % 4;
    for (int i = 0; i < 64; i++) {
        const int row = warp * 16 + lane / 4 + (i & 2 ? 8 : 0),
                  col = i / 4 * 8 + lane % 4 * 2 + i % 2;
        float sum = add ? d[i] : 0;
        for (int k = 0; k < 32; k++)
            sum += element(a, row, k, WIDE_A ? DTYPE_E5M2 : DTYPE_E4M3) *
                   element(b, col, k, DTYPE_E4M3);
        d[i] = sum;
    }
}
/* Of BF16, whose kernels have run on the GPU: nobody asks for it here. */
template <int AT, int BT> inline void wgmma_64x256(float *, uint64_t, uint64_t, int)
{
    abort();
}
template <int AT, int BT> inline void wgmma_64x240(float *, uint64_t, uint64_t, int)
{
    abort();
}
template <int N> inline void gemms_arrived(float *)
{
}
template <int N> inline void registers_more()
{
}
template <int N> inline void registers_fewer()
{
}

#endif

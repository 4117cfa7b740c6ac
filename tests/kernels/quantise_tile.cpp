/* quantise_tile.cpp - the GPU's kernel that quantises tiles (quantise_tile.cuh), run on the host:
 * scales, codes and the turned copy beside plain loops, bit for bit.
 *
 * The threads of a block are fibers. Each runs until it waits for others (a barrier, or a value of
 * another lane), and none goes on before all have come there.
 *
 * Built and run by test_quantise_tile.sh, which puts stand-ins for CUDA's headers and for device.cuh
 * before the real ones. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include <vector>

/* ---- as much of CUDA C as the header needs */
#define __device__
#define __host__
#define __global__
#define __shared__      static
#define __forceinline__ inline
#define __launch_bounds__(...)

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c)
    {
    }
};
static dim3 threadIdx, blockIdx, gridDim;

struct uint2 {
    uint32_t x, y;
};
struct alignas(16) uint4 {
    uint32_t x, y, z, w;
};
struct float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct __nv_bfloat16 {
    uint16_t bits;
};

static uint2 make_uint2(uint32_t x, uint32_t y)
{
    return {x, y};
}
static uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w)
{
    return {x, y, z, w};
}
static float2 make_float2(float x, float y)
{
    return {x, y};
}
static float __uint_as_float(uint32_t bits)
{
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}
static uint32_t __float_as_uint(float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}
static float __fmul_rn(float a, float b)
{
    return a * b;
}

static uint32_t __byte_perm(uint32_t a, uint32_t b, uint32_t which)
{
    const uint64_t all = (uint64_t)b << 32 | a;
    uint32_t to = 0;
    for (int i = 0; i < 4; i++) to |= (uint32_t)(all >> (which >> 4 * i & 7) * 8 & 255) << 8 * i;
    return to;
}
struct __nv_bfloat162 {
    uint16_t x, y;
};
static float widened(uint16_t bits)
{
    return __uint_as_float((uint32_t)bits << 16);
}
/* Products here have no more digits than BF16 has. */
static uint16_t narrowed(float v)
{
    return (uint16_t)(__float_as_uint(v) >> 16);
}
static __nv_bfloat162 __hmax2(__nv_bfloat162 a, __nv_bfloat162 b)
{
    return {narrowed(fmaxf(widened(a.x), widened(b.x))),
            narrowed(fmaxf(widened(a.y), widened(b.y)))};
}
static __nv_bfloat162 __hmul2_rn(__nv_bfloat162 a, __nv_bfloat162 b)
{
    return {narrowed(widened(a.x) * widened(b.x)), narrowed(widened(a.y) * widened(b.y))};
}

/* ---- a block of fibers */
enum { FIBERS = 256, STACK = 64 << 10 };
static ucontext_t scheduler, fibers[FIBERS];
static uint32_t slots[FIBERS];
static bool ended[FIBERS];
static int now;

static void wait_for_all()
{
    swapcontext(&fibers[now], &scheduler);
}
static void __syncthreads()
{
    wait_for_all();
}
static uint32_t exchange(uint32_t mine, int lane)
{
    slots[now] = mine;
    wait_for_all();
    const uint32_t theirs = slots[now / 32 * 32 + lane];
    wait_for_all();
    return theirs;
}
static float __shfl_sync(unsigned, float v, int lane)
{
    return __uint_as_float(exchange(__float_as_uint(v), lane));
}
static int32_t __shfl_sync(unsigned, int32_t v, int lane)
{
    return (int32_t)exchange((uint32_t)v, lane);
}
static float __shfl_xor_sync(unsigned, float v, int with)
{
    return __uint_as_float(exchange(__float_as_uint(v), now % 32 ^ with));
}
static uint32_t __shfl_xor_sync(unsigned, uint32_t v, int with)
{
    return exchange(v, now % 32 ^ with);
}
static uint32_t __reduce_max_sync(unsigned, uint32_t v)
{
    slots[now] = v;
    wait_for_all();
    uint32_t most = 0;
    for (int i = 0; i < 32; i++)
        if (slots[now / 32 * 32 + i] > most) most = slots[now / 32 * 32 + i];
    wait_for_all();
    return most;
}

#include "base/narrow.h"

enum { __NV_SATFINITE, __NV_E4M3, __NV_E5M2 };
static uint32_t __nv_cvt_float2_to_fp8x2(float2 v, int, int to)
{
    const narrow_format f = narrow_format_of(to == __NV_E5M2 ? DTYPE_E5M2 : DTYPE_E4M3);
    return narrow_of_float(f, v.x) | (uint32_t)narrow_of_float(f, v.y) << 8;
}

/* Copies that are under way arrive when they are waited for, or, as they may, at once. */
static bool at_once;
struct copy_under_way {
    void *to;
    uint4 what;
};
static std::vector<copy_under_way> under_way[FIBERS];
static void copy_16(void *to, const void *from, bool there)
{
    copy_under_way c = {to, {0, 0, 0, 0}};
    if (there) memcpy(&c.what, from, sizeof c.what);
    if (at_once)
        memcpy(to, &c.what, sizeof c.what);
    else
        under_way[now].push_back(c);
}
static void copies_wait()
{
    for (const copy_under_way &c : under_way[now]) memcpy(c.to, &c.what, sizeof c.what);
    under_way[now].clear();
}

#define FETCHED_MEMORY(name) static uint4 name[3 * EACH * BLOCK]
#include "backend/cuda/kernels/quantise_tile.cuh"

struct in_memory {
    const uint16_t *p; /* [parts][m][k] */
    int64_t m, k;
    enum { PIECES = 1 };
    row_ahead ahead(int64_t row) const
    {
        return {(int32_t)row, (float)row};
    }
    const void *piece(int64_t part, int32_t row, int64_t col, int) const
    {
        return p + (part * m + row) * k + col;
    }
    uint4 eight(const uint4 pieces[PIECES], float, int64_t) const
    {
        return pieces[0];
    }
};

/* Both halves of a row, and what is to be summed over it: products of the two, and the row's
 * number, which tells one that is of another tile. */
struct in_halves {
    in_memory all;
    enum { PIECES = 3 }; /* of the first half, the second, and the first again */
    row_ahead ahead(int64_t row) const
    {
        return all.ahead(row);
    }
    const void *piece(int64_t, int32_t row, int64_t col, int n) const
    {
        return all.piece(0, row, n == 1 ? col + all.k / 2 : col, 0);
    }
    eight_pairs pairs(const uint4 pieces[PIECES], float by) const
    {
        eight_pairs p = {pieces[0], pieces[1], by};
        for (int j = 0; j < EACH; j++) p.sum += number(pieces[2], j) * number(p.second, j);
        return p;
    }
};

/* A block's threads, each of which runs `body`. */
static void (*body)();
static void fiber()
{
    body();
    ended[now] = true;
    wait_for_all();
}

static void run_block()
{
    static std::vector<char> stacks(FIBERS * (size_t)STACK);
    for (int t = 0; t < FIBERS; t++) {
        getcontext(&fibers[t]);
        fibers[t].uc_stack = {&stacks[(size_t)t * STACK], 0, STACK};
        fibers[t].uc_link = &scheduler;
        makecontext(&fibers[t], fiber, 0);
        ended[t] = false;
    }
    for (bool more = true; more;) {
        more = false;
        for (now = 0; now < FIBERS; now++) {
            if (ended[now]) continue;
            threadIdx.x = (unsigned)now;
            swapcontext(&scheduler, &fibers[now]);
            more |= !ended[now];
        }
    }
}

static in_memory from_x;
static quantising to_z;
static tile_grid to_all;
static float *to_sums;

/* Two blocks, so that each has several tiles in turn. */
static void run_grid()
{
    gridDim.x = to_all.n < 2 ? to_all.n : 2;
    for (blockIdx.x = 0; blockIdx.x < gridDim.x; blockIdx.x++) run_block();
}

template <int SCALED, bool WIDE>
static void run_tiles(const in_memory &from, const quantising &to, int64_t parts)
{
    from_x = from, to_z = to, to_all = tiles_of(to, parts, quant_blocks(to.k, SIDE));
    body = [] { tile_kernel<in_memory, SCALED, WIDE>(from_x, to_z, to_all); };
    run_grid();
}

static void run_pairs(const in_memory &from, const quantising &to, float *sums)
{
    from_x = from, to_z = to, to_sums = sums, to_all = tiles_of(to, 1, to.k / 2 / SIDE);
    body = [] { pair_kernel(in_halves{from_x}, to_z, to_all, to_sums); };
    run_grid();
}

/* ---- plain loops */
struct copies {
    std::vector<uint8_t> q, qt;
    std::vector<float> s, st;
};

struct problem {
    int64_t parts, m, k, end; /* rows from `end` on are zeros */
    bool square, row, turned, wide;
    float factor; /* 0: blocks */
    bool pairs;   /* of tiles, with sums over rows */
};

static float value_at(const std::vector<uint16_t> &x, const problem &p, int64_t part, int64_t i,
                      int64_t j)
{
    return i < p.end ? __uint_as_float((uint32_t)x[(part * p.m + i) * p.k + j] << 16) : 0;
}

/* One copy: [rows][cols] of x, or of x turned. */
static void plain(const std::vector<uint16_t> &x, const problem &p, bool turned,
                  std::vector<uint8_t> &q, std::vector<float> &s)
{
    const int64_t rows = turned ? p.k : p.m, cols = turned ? p.m : p.k;
    const quant_shape z = {QUANT_BLOCK, p.square, rows, cols};
    const narrow_format f = narrow_format_of(p.wide ? DTYPE_E5M2 : DTYPE_E4M3);
    const auto number = [&](int64_t part, int64_t i, int64_t j) {
        return turned ? value_at(x, p, part, j, i) : value_at(x, p, part, i, j);
    };
    q.assign(p.parts * rows * cols, 0);
    s.assign(p.factor != 0 ? 0 : p.parts * quant_scales(z), 0);
    for (int pass = p.factor != 0 ? 2 : 0; pass < 3; pass++) /* largest sizes, scales, codes */
        for (int64_t part = 0; part < p.parts; part++)
            for (int64_t i = 0; i < rows; i++)
                for (int64_t j = 0; j < cols; j++) {
                    const int64_t at = part * quant_scales(z) + quant_scale_at(z, i, j);
                    const bool first = j % 128 == 0 && (!p.square || i % 128 == 0);
                    const float v = number(part, i, j);
                    if (pass == 0) s[at] = fmaxf(s[at], fabsf(v));
                    if (pass == 1 && first) s[at] = scale_of_amax(s[at], 448);
                    if (pass < 2) continue;
                    const float times = p.factor != 0 ? p.factor : 1 / s[at];
                    q[(part * rows + i) * cols + j] = narrow_of_float(f, v * times);
                }
}

static copies wanted(const std::vector<uint16_t> &x, const problem &p)
{
    copies c;
    if (p.row) plain(x, p, false, c.q, c.s);
    if (p.turned) plain(x, p, true, c.qt, c.st);
    return c;
}

template <class T> static T *room_of(std::vector<T> &v, const std::vector<T> &like)
{
    v.assign(like.size(), (T)0x55);
    return v.empty() ? NULL : v.data();
}

/* Of 128 columns of both halves; sums of a few products of two BF16 numbers are nearly exact. */
static int wrong_sums(const std::vector<uint16_t> &x, const problem &p,
                      const std::vector<float> &sums)
{
    int bad = 0;
    for (int64_t i = 0; i < p.m; i++)
        for (int64_t tile = 0; tile < p.k / 2 / SIDE; tile++) {
            double want = i < p.end ? (double)i * (SIDE / EACH) : 0, size = want;
            for (int64_t j = tile * SIDE; j < (tile + 1) * SIDE; j++) {
                const double v =
                    (double)value_at(x, p, 0, i, j) * (double)value_at(x, p, 0, i, j + p.k / 2);
                want += v, size += fabs(v);
            }
            bad += !(fabs((double)sums[tile * p.m + i] - want) <= 1e-6 * size);
        }
    if (bad) printf("%d sums differ\n", bad);
    return bad != 0;
}

static int check(const problem &p)
{
    std::vector<uint16_t> x(p.parts * p.m * p.k);
    for (uint16_t &v : x) /* sizes between 2^-8 and 2^8, and zeros */
        v = (uint16_t)(rand() % 7 ? (rand() % 2 << 15) | (119 + rand() % 17) << 7 | rand() % 128
                                  : 0);
    if (p.factor == 0 && !p.pairs) x[0] = 0x7fc0; /* no number: no part of a maximum */
    const copies want = wanted(x, p);
    copies got;
    int32_t end = (int32_t)p.end;
    float most = p.factor != 0 ? (p.wide ? 57344 : 448) / p.factor : 0;
    const quantising z = {&end,
                          p.m,
                          p.k,
                          room_of(got.q, want.q),
                          room_of(got.qt, want.qt),
                          room_of(got.s, want.s),
                          room_of(got.st, want.st),
                          quant_scales({QUANT_BLOCK, p.square, p.m, p.k}),
                          quant_scales({QUANT_BLOCK, p.square, p.k, p.m}),
                          p.factor != 0 ? &most : NULL,
                          {NULL, 1, p.m}};
    const in_memory from = {x.data(), p.m, p.k};
    std::vector<float> sums(p.k / 2 / SIDE * p.m, 0x55);
    if (p.pairs)
        run_pairs(from, z, sums.data());
    else if (p.factor != 0 && p.wide)
        run_tiles<BY_TENSOR, true>(from, z, p.parts);
    else if (p.factor != 0)
        run_tiles<BY_TENSOR, false>(from, z, p.parts);
    else if (p.square)
        run_tiles<BY_SQUARES, false>(from, z, p.parts);
    else
        run_tiles<BY_ROWS, false>(from, z, p.parts);
    const int bad[] = {got.q != want.q, got.s != want.s, got.qt != want.qt, got.st != want.st};
    const int sum = bad[0] + bad[1] + bad[2] + bad[3] + (p.pairs ? wrong_sums(x, p, sums) : 0);
    if (sum)
        printf("[%lld][%lld][%lld] to %lld%s: q %d s %d qt %d st %d differ\n", (long long)p.parts,
               (long long)p.m, (long long)p.k, (long long)p.end, p.square ? ", squares" : "",
               bad[0], bad[1], bad[2], bad[3]);
    return sum;
}

int main()
{
    static const problem problems[] = {
        {1, 128, 128, 128, false, true, true, false, 0},
        {1, 272, 136, 200, false, true, true, false,
         0}, /* edges both ways, and rows past the end */
        {1, 144, 264, 0, false, true, true, false, 0},
        {1, 130, 24, 130, false, true, false, false, 0}, /* scales are rounded up */
        {1, 16, 8, 16, false, false, true, false, 0},
        {2, 144, 136, 144, true, true, true, false, 0},
        {1, 272, 520, 272, true, true, true, false, 0},
        {1, 144, 136, 144, false, true, true, false, 1.75f},
        {1, 144, 136, 100, false, true, true, true, 96},
        {1, 128, 256, 128, false, true, true, false, 0, true},
        {1, 272, 512, 200, false, true, true, false, 0, true},
        {1, 130, 256, 130, false, true, false, false, 0, true},
        {1, 144, 512, 16, false, false, true, false, 0, true},
    };
    int bad = 0;
    for (const problem &p : problems)
        for (int i = 0; i < 2; i++) {
            at_once = i;
            bad += check(p);
        }
    printf("%d wrong\n", bad);
    return bad != 0;
}

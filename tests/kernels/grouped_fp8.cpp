/* grouped_fp8.cpp - the FP8 expert GEMMs of a GPU, run on the host as far as their arithmetic of
 * places goes: which tiles a cluster takes, where the copy engine reads, which scales a thread
 * meets, which results it stores. All of that is the kernel's own code (grouped_gemm.cuh,
 * grouped_fp8.cuh), with words of CUDA C given away; products are plain loops.
 *
 * Built and run by test_grouped_fp8.sh. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <vector>

/* ---- as much of CUDA C as the headers need */
#define __device__
#define __host__
#define __global__
#define __shared__
#define __forceinline__ inline
#define __grid_constant__
#define __launch_bounds__(...)
#define __align__(n)

struct index3 {
    unsigned x, y, z;
};
static index3 threadIdx, blockIdx, gridDim;

struct float2 {
    float x, y;
};
struct float4 {
    float x, y, z, w;
};
struct int4 {
    int x, y, z, w;
};
typedef struct {
    char bytes[128];
} CUtensorMap;
typedef struct {
    unsigned short bits;
} __nv_bfloat16;
typedef struct {
    unsigned bits;
} __nv_bfloat162;

inline float2 make_float2(float x, float y)
{
    return {x, y};
}
inline __nv_bfloat162 __floats2bfloat162_rn(float, float)
{
    return {0};
}
inline int min(int a, int b)
{
    return a < b ? a : b;
}
inline int max(int a, int b)
{
    return a > b ? a : b;
}
template <class T> inline T __shfl_up_sync(unsigned, T v, int)
{
    return v;
}
template <class T> inline T __shfl_sync(unsigned, T v, int)
{
    return v;
}
inline void __syncwarp()
{
}
inline void __syncthreads()
{
}
inline uint32_t __cvta_generic_to_shared(const void *)
{
    return 0;
}

#include "kernels/cuda/grouped_fp8.cuh"

typedef std::vector<float> floats;
typedef std::vector<int> ints;
enum { PAIR = 2, CLUSTERS = 3, BLOCK_K = 128 };

static int up4(int n)
{
    return (n + 3) / 4 * 4;
}

static float number()
{
    return (float)(rand() % 17 - 8);
}

static float power()
{
    return ldexpf(1, rand() % 5 - 2);
}

/* list_tiles() is a warp's work; this is one thread's. */
template <int KIND, int OUT> static void list(gemm_args g, int *tiles_end, int *first_row)
{
    const int across = (g.n + TILE_N - 1) / TILE_N;
    int before = 0;
    first_row[0] = row_start(g, 0);
    for (int e = 0; e < g.n_experts; e++) {
        int full, odd;
        first_row[e + 1] = row_start(g, e + 1);
        const int rows = first_row[e + 1] - first_row[e];
        tiles_down<KIND, PAIR>(g, rows, &full, &odd);
        if (OUT != OUT_FP32_ADD || rows > 0)
            before += full * across + odd * ((across + PAIR - 1) / PAIR);
        tiles_end[e] = before;
    }
}

/* A result of a thread: its place in the tile, its two scales' places. */
struct result {
    int row, col, which, half; /* which of the thread's rows, which half of the columns */
    scale_places at;
};

/* All results of all tiles that are stored: f(tile, result). */
template <int KIND, int OUT, int SCALE, class F>
static void each_result(gemm_args g, fp8_scales x, const F &f)
{
    int tiles_end[MAX_EXPERTS], first_row[MAX_EXPERTS + 1];
    list<KIND, OUT>(g, tiles_end, first_row);
    for (int block = 0; block < CLUSTERS * PAIR; block++) {
        tile t;
        int e = 0;
        for (int i = block / PAIR;
             find_tile<KIND, PAIR>(g, tiles_end, first_row, i, &e, block % PAIR, &t); i += CLUSTERS)
            for (int thread = 0; thread < 256; thread++) {
                const int wg = thread / 128, lane = thread % 32, warp = thread / 32 % 4;
                threadIdx.x = 128 + (unsigned)thread;
                if (idle<KIND>(&t, wg)) continue;
                result r = {0, 0, 0, 0, find_scales<SCALE>(x, g, &t, wg)};
                for (int n = 0; n < 128; n++) { /* in the order of the accumulators */
                    r.which = n % 4 / 2, r.half = n / 64;
                    r.row = wg * HALF_M + warp * 16 + lane / 4 + r.which * 8;
                    r.col = n / 4 * 8 + lane % 4 * 2 + n % 2;
                    if (r.row < t.valid && t.n0 + r.col < g.n) f(t, r);
                }
            }
    }
}

static int compare(const char *what, const floats &y, const floats &want, const ints &times,
                   int most)
{
    int bad = 0;
    for (size_t i = 0; i < y.size(); i++)
        bad += fabsf(y[i] - want[i]) > 1e-3f * fabsf(want[i]) + 1e-2f || times[i] > most;
    if (bad) printf("%s: %d of %zu results are wrong\n", what, bad, y.size());
    return bad;
}

/* dw[e][N][K] of a[N][room] and b[K][room]. */
template <int OUT, int SCALE>
static int weight_gradient(int room, const ints &offsets, int n, int k)
{
    const int experts = (int)offsets.size() - 1, blocks = (room + BLOCK_K - 1) / BLOCK_K;
    floats a((size_t)n * room), b((size_t)k * room), sa((size_t)blocks * up4(n));
    floats sb((size_t)blocks * up4(k)), y((size_t)experts * n * k, 0.5f), want = y;
    ints times(y.size());
    for (int i = 0; i < n + k; i++)
        for (int t = 0; t < std::min(offsets.back(), room); t++)
            (i < n ? a[(size_t)i * room + t] : b[(size_t)(i - n) * room + t]) = number();
    for (float &s : sa) s = power();
    for (float &s : sb) s = power();
    for (size_t i = 0; i < y.size(); i++) {
        const int e = (int)(i / (n * k)), row = (int)(i / k % n), col = (int)(i % k);
        float sum = 0;
        for (int t = std::min(offsets[e], room); t < std::min(offsets[e + 1], room); t++)
            sum += a[(size_t)row * room + t] * b[(size_t)col * room + t] *
                   (SCALE ? sa[t / 128 * up4(n) + row] * sb[t / 128 * up4(k) + col] : 1);
        want[i] = OUT == OUT_FP32_ADD ? want[i] + sum : sum;
    }
    const gemm_args g = {offsets.data(), y.data(), experts, room, n, k, 0, sb.data(), up4(k)};
    const fp8_scales x = {sa.data(), NULL, up4(n), 0, n - 1, blocks, NULL, NULL};
    each_result<GEMM_WEIGHT_FP8, OUT, SCALE>(g, x, [&](const tile &t, const result &r) {
        const int row = t.m0 + r.row, col = t.n0 + r.col;
        float acc = 0;
        for (int step = 0; step < t.n_steps; step++) {
            float part = 0;
            for (int i = 0; i < BLOCK_K; i++) { /* pairs, as the copy engine counts them */
                const int at = (t.first_row / 2 + step * TILE_K) * 2 + i;
                if (at < room) part += a[(size_t)row * room + at] * b[(size_t)col * room + at];
            }
            if (SCALE) {
                const size_t first = (size_t)(t.first_row / 128 + step) * g.b_stride + t.n0;
                if ((uint32_t)r.col * 4 >= scale_bytes(g, &t)) exit(1);
                part *= sa.at((size_t)(r.at.row[r.which] + step * x.a_stride)) *
                        sb.at(first + (size_t)r.col);
                sb.at(first + scale_bytes(g, &t) / 4 - 1); /* all that is copied is there */
            }
            acc += part;
        }
        const size_t to = ((size_t)t.expert * n + row) * k + col;
        times[to]++;
        y[to] = OUT == OUT_FP32_ADD ? y[to] + acc : acc;
    });
    return compare("weight gradient", y, want, times, 1);
}

/* y[room][N] of a[room][K] and b[e][N][K]; dense: one expert has all rows. */
template <int SCALE> static int forward(int room, const ints &offsets, int n, int k)
{
    const bool dense = offsets.empty();
    const int experts = dense ? 1 : (int)offsets.size() - 1;
    const int blocks = (k + BLOCK_K - 1) / BLOCK_K, down = (n + 127) / 128;
    floats a((size_t)room * k), b((size_t)experts * n * k), sa((size_t)blocks * up4(room));
    floats sb((size_t)experts * down * up4(blocks)), y((size_t)room * n, 7), want = y;
    ints times(y.size());
    for (float &v : a) v = number();
    for (float &v : b) v = number();
    for (float &s : sa) s = power();
    for (float &s : sb) s = power();
    for (size_t i = 0; i < y.size(); i++) {
        const int row = (int)(i / n), col = (int)(i % n);
        int e = 0;
        while (!dense && e < experts && row >= offsets[e + 1]) e++;
        if (e == experts) continue;
        want[i] = 0;
        for (int j = 0; j < k; j++)
            want[i] += a[(size_t)row * k + j] * b[((size_t)e * n + col) * k + j] *
                       (SCALE ? sa[j / 128 * up4(room) + row] *
                                    sb[(e * down + col / 128) * up4(blocks) + j / 128]
                              : 1);
    }
    const gemm_args g = {
        dense ? NULL : offsets.data(), y.data(), experts, room, 0, n, k / 2, NULL, 0};
    const fp8_scales x = {sa.data(), sb.data(), up4(room), up4(blocks),
                          room - 1,  blocks,    NULL,      NULL};
    each_result<GEMM_FORWARD, OUT_BF16, SCALE>(g, x, [&](const tile &t, const result &r) {
        const int row = t.first_row + t.m0 + r.row, col = t.n0 + r.col;
        float acc = 0;
        for (int step = 0; step < t.n_steps; step++) {
            float part = 0;
            for (int j = step * BLOCK_K; j < std::min(k, (step + 1) * BLOCK_K); j++)
                part += a[(size_t)row * k + j] * b[((size_t)t.expert * n + col) * k + j];
            if (SCALE)
                part *= sa.at((size_t)(r.at.row[r.which] + step * x.a_stride)) *
                        sb.at((size_t)(r.at.half[r.half] + step));
            acc += part;
        }
        times[(size_t)row * n + col]++;
        y[(size_t)row * n + col] = acc;
    });
    return compare("forward", y, want, times, 1);
}

int main()
{
    const ints experts[] = {{0, 128, 128, 384, 512}, /* rows are left behind the last one */
                            {0, 0, 0, 0, 640},
                            {0, 0, 0, 0, 0},
                            {0, 256, 640, 640, 640},
                            {0, 384, 512, 768, 896}}; /* more than there is room for */
    int bad = 0;
    for (const ints &o : experts) {
        bad += weight_gradient<OUT_FP32_ADD, SCALE_ROWS>(640, o, 264, 136);
        bad += weight_gradient<OUT_FP32, SCALE_ROWS>(640, o, 136, 264);
        bad += weight_gradient<OUT_FP32, SCALE_NONE>(640, o, 8, 16);
        bad += forward<SCALE_SQUARES>(640, o, 264, 272);
        bad += forward<SCALE_NONE>(640, o, 136, 48);
    }
    bad += forward<SCALE_SQUARES>(130, {}, 96, 160) + forward<SCALE_SQUARES>(300, {}, 520, 16);
    printf("%d wrong\n", bad);
    return bad != 0;
}

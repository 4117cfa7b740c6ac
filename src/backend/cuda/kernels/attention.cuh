/* attention.cuh - what attention and its gradient share.
 *
 * A block works on SPAN queries (or keys) of one head against SPAN keys (or queries) at a time, all
 * in shared memory as FP32; no buffer grows with the square of the length. Tokens of a sample stand
 * in one or two stretches of consecutive positions (attention_stretch.h); a span lies in one.
 *
 * A1  A query at position i sees a key at position j if j <= i and, with a window, i - j < WINDOW.
 * A2  lse is the logarithm of all that a query's weights are divided by, the sink included.
 * A3  Every sum has one owner, and goes through keys, or heads and queries, in their order. */
#ifndef BACKEND_CUDA_KERNELS_ATTENTION_CUH
#define BACKEND_CUDA_KERNELS_ATTENTION_CUH

#include "backend/cpu/kernels/attention_stretch.h"
#include "backend/cuda/kernels/device.cuh"

enum { SPAN = 32, SHARED_MOST = 232448 - 1024 };

struct attention {
    int64_t b, sq, sk, n, g, d, dv, window; /* ATTN: sq = sk = S */
    int n_stretches;
    stretch queries[STRETCHES_MAX], keys[STRETCHES_MAX];
    float scale;
    bool add, add_kv;
    numbers q, k, v, o, d_o; /* [B*SQ][N][D], [B*SK][G][D], [B*SK][G][DV], [B*SQ][N][DV] twice */
    numbers sinks;           /* [N], or missing */
    float *lse;              /* [B*SQ][N]; a gradient reads it */
};

static attention attention_of(const op *o)
{
    attention a = {};
    if (attention_is_block(o)) {
        const op_attn_block z = op_attn_block_of(o);
        a.b = z.B, a.sq = z.SQ, a.sk = z.SK, a.n = z.N, a.g = z.G, a.d = z.D, a.dv = z.DV;
        a.window = z.WINDOW;
    } else {
        const op_attn z = op_attn_of(o);
        a.b = z.B, a.sq = a.sk = z.S, a.n = z.N, a.g = z.G, a.d = z.D, a.dv = z.DV;
        a.window = z.WINDOW;
    }
    a.n_stretches = attention_stretches(o, a.queries, a.keys);
    a.scale = (float)o->real[REAL_ATTN_scale];
    a.add = attention_is_block(o) && o->flags & ACCUMULATE;
    a.add_kv = attention_is_block(o) && o->flags & ADD_KV;
    return a;
}

/* SPAN rows of a stretch. */
struct span {
    int64_t row, n;   /* rows of the sample; n 0: there is no such span */
    int64_t position; /* of the first */
};

static inline int64_t spans_of(const stretch *t, int n)
{
    int64_t sum = 0;
    for (int i = 0; i < n; i++) sum += (t[i].n + SPAN - 1) / SPAN;
    return sum;
}

static __device__ span span_at(const stretch *t, int n, int64_t at)
{
    for (int i = 0; i < n; i++) {
        const int64_t here = (t[i].n + SPAN - 1) / SPAN;
        if (at < here) {
            const int64_t left = t[i].n - at * SPAN;
            return {t[i].row + at * SPAN, left < SPAN ? left : SPAN, t[i].position + at * SPAN};
        }
        at -= here;
    }
    return {0, 0, 0};
}

/* Rows of a stretch at positions first .. past-1, and the position of the first of them. */
struct seen {
    int64_t row, past, position;
};

static __device__ seen rows_between(const stretch &t, int64_t first, int64_t past)
{
    if (first < t.position) first = t.position;
    if (past > t.position + t.n) past = t.position + t.n;
    return {t.row + first - t.position, t.row + past - t.position, first};
}

static __device__ bool sees(const attention &a, int64_t query, int64_t key) /* A1 */
{
    return key <= query && (a.window <= 0 || query - key < a.window);
}

/* Strides of rows in shared memory are odd: columns of them then lie in different banks. */
static inline __host__ __device__ int64_t stride_of(int64_t n)
{
    return n | 1;
}

/* to[i][j] = x[(first + i) * step + j], i < SPAN; zero from n on. */
static __device__ void load_rows(float *to, numbers x, int64_t first, int64_t step, int64_t n,
                                 int64_t width)
{
    const int64_t stride = stride_of(width);
    for (int64_t at = threadIdx.x; at < SPAN * width; at += BLOCK) {
        const int64_t i = at / width, j = at % width;
        to[i * stride + j] = i < n ? get(x, first + i * step + j) : 0;
    }
}

/* Threads stand 16 x 16 and each has rows y, y + 16 and columns x, x + 16 of a square of spans. */
struct place {
    int x, y;
};

static __device__ place place_of_thread(void)
{
    return {(int)threadIdx.x % 16, (int)threadIdx.x / 16};
}

/* s = rows of a times rows of b, `width` long. */
static __device__ void dots(const float *a, const float *b, int64_t width, place p,
                            float (&s)[2][2])
{
    const int64_t stride = stride_of(width);
    const float *a0 = a + p.y * stride, *a1 = a0 + 16 * stride;
    const float *b0 = b + p.x * stride, *b1 = b0 + 16 * stride;
    s[0][0] = s[0][1] = s[1][0] = s[1][1] = 0;
    for (int64_t i = 0; i < width; i++) {
        s[0][0] = fmaf(a0[i], b0[i], s[0][0]);
        s[0][1] = fmaf(a0[i], b1[i], s[0][1]);
        s[1][0] = fmaf(a1[i], b0[i], s[1][0]);
        s[1][1] = fmaf(a1[i], b1[i], s[1][1]);
    }
}

/* to[i][j] = to[i][j] * keep[i] + by * sum over k of w[i][k] x[k][j], or with `turned` w[k][i].
 * `keep` NULL: 1. */
static __device__ void gather(float *to, const float *w, bool turned, const float *x, int64_t width,
                              const float *keep, float by)
{
    const int64_t stride = stride_of(width), wide = stride_of(SPAN);
    const place p = place_of_thread();
    const int64_t along = turned ? wide : 1, across = turned ? 1 : wide;
    for (int64_t j = p.x; j < width; j += 32) {
        const bool two = j + 16 < width;
        float s[2][2] = {{0, 0}, {0, 0}};
        for (int k = 0; k < SPAN; k++) {
            const float w0 = w[p.y * across + k * along], w1 = w[(p.y + 16) * across + k * along];
            const float x0 = x[k * stride + j], x1 = two ? x[k * stride + j + 16] : 0;
            s[0][0] = fmaf(w0, x0, s[0][0]);
            s[0][1] = fmaf(w0, x1, s[0][1]);
            s[1][0] = fmaf(w1, x0, s[1][0]);
            s[1][1] = fmaf(w1, x1, s[1][1]);
        }
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const int i = p.y + 16 * r;
            const float kept = keep ? keep[i] : 1;
            float *at = to + i * stride + j;
            at[0] = at[0] * kept + by * s[r][0];
            if (two) at[16] = at[16] * kept + by * s[r][1];
        }
    }
}

#endif

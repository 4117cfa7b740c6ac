/* fast_attention_lanes_body.h - the functions of a struct lanes, for one instruction set.
 *
 * fast_attention_lanes.c includes this file once a set, hence no include guard. It defines before:
 *   SET          the set's name, put behind every name here
 *   WIDTH        numbers in a vector
 *   TILE         columns of a GEMM's tile, in vectors; with ROWS rows they fill the registers
 *   FMA(a, b, c) a * b + c
 *   MAX, MIN     of two vectors; where one is not a number, the second argument. May be missing.
 * The compilers' own contraction of a * b + c is off under -std=c11, hence FMA by name. */
#define JOIN_(a, b) a##_##b
#define JOIN(a, b)  JOIN_(a, b)
#define NAME(x)     JOIN(x, SET)
#define VEC         NAME(vec)
#define BITS        NAME(bits)

typedef float VEC __attribute__((vector_size(WIDTH * 4)));
typedef uint32_t BITS __attribute__((vector_size(WIDTH * 4)));

INLINE VEC NAME(load)(const float *x)
{
    VEC v;
    memcpy(&v, x, sizeof v);
    return v;
}

INLINE void NAME(store)(float *x, VEC v)
{
    memcpy(x, &v, sizeof v);
}

INLINE VEC NAME(splat)(float x)
{
    return x - (VEC){0};
}

#ifndef MAX
INLINE VEC NAME(choose)(BITS first, VEC a, VEC b)
{
    return (VEC)(((BITS)a & first) | ((BITS)b & ~first));
}
#define MAX(a, b) NAME(choose)((BITS)((a) > (b)), a, b)
#define MIN(a, b) NAME(choose)((BITS)((a) < (b)), a, b)
#endif

/* The first n of a vector; the rest reads as zero and is not written. */
INLINE VEC NAME(load_some)(const float *x, int64_t n)
{
    if (n >= WIDTH) return NAME(load)(x);
    VEC v = {0};
    memcpy(&v, x, (size_t)n * sizeof *x);
    return v;
}

INLINE void NAME(store_some)(float *x, VEC v, int64_t n)
{
    if (n >= WIDTH)
        NAME(store)(x, v);
    else
        memcpy(x, &v, (size_t)n * sizeof *x);
}

/* ---- GEMMs: c in registers, a row of b at a time, a number of a at a time */

INLINE void NAME(tile)(const gemm *p, int64_t i, int64_t j, int rows, int vectors)
{
    VEC acc[ROWS][TILE];
    const float *a = p->a + i * p->a_row, *b = p->b + j;
    const int64_t a_row = p->a_row, a_col = p->a_col, b_row = p->b_row;
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int v = 0; v < vectors; v++) acc[r][v] = (VEC){0};
    }
    for (int64_t k = p->k; k > 0; k--, a += a_col, b += b_row) {
        VEC line[TILE];
        UNROLL
        for (int v = 0; v < vectors; v++) line[v] = NAME(load)(b + v * WIDTH);
        UNROLL
        for (int r = 0; r < rows; r++) {
            VEC x = NAME(splat)(a[r * a_row]);
            UNROLL
            for (int v = 0; v < vectors; v++) acc[r][v] = FMA(x, line[v], acc[r][v]);
        }
    }
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int v = 0; v < vectors; v++) {
            float *c = p->c + (i + r) * p->c_row + j + v * WIDTH;
            int64_t left = vectors > 1 ? WIDTH : p->n - j; /* only the last vector may be cut */
            if (p->add) acc[r][v] += NAME(load_some)(c, left);
            NAME(store_some)(c, acc[r][v], left);
        }
    }
}

INLINE void NAME(strip)(const gemm *p, int64_t j, int vectors)
{
    int64_t i = 0;
    for (; i + ROWS <= p->m; i += ROWS) NAME(tile)(p, i, j, ROWS, vectors);
    if (i + 4 <= p->m) {
        NAME(tile)(p, i, j, 4, vectors);
        i += 4;
    }
    for (; i < p->m; i++) NAME(tile)(p, i, j, 1, vectors);
}

static void NAME(gemm)(const gemm *p)
{
    int64_t j = 0;
    for (; j + TILE * WIDTH <= p->n; j += TILE * WIDTH) NAME(strip)(p, j, TILE);
    if (TILE > 2 && j + 2 * WIDTH <= p->n) {
        NAME(strip)(p, j, 2);
        j += 2 * WIDTH;
    }
    for (; j < p->n; j += WIDTH) NAME(strip)(p, j, 1);
}

/* ---- exponentials */

/* 2^f * 2^n for |f| <= 1/2; n is in the low bits of `n_bits`. Relative error under 1e-7. */
INLINE VEC NAME(exp2_parts)(VEC f, BITS n_bits)
{
    VEC p = NAME(splat)(1.326472722e-03f);
    p = FMA(p, f, NAME(splat)(9.671512817e-03f));
    p = FMA(p, f, NAME(splat)(5.550733745e-02f));
    p = FMA(p, f, NAME(splat)(2.402224208e-01f));
    p = FMA(p, f, NAME(splat)(6.931469776e-01f));
    p = FMA(p, f, NAME(splat)(1.0f));
    return p * (VEC)((n_bits << 23) + 0x3f800000U);
}

/* Adding 1.5 * 2^23 rounds to a whole number and leaves it in the low bits. n = -127 gives 0 and
 * n = 128 infinity, so what lies outside is cut to them; not-a-number stays. */
INLINE VEC NAME(exp2)(VEC x)
{
    const VEC magic = NAME(splat)(12582912.0f);
    x = MIN(NAME(splat)(128.0f), MAX(NAME(splat)(-127.0f), x));
    VEC n = x + magic;
    return NAME(exp2_parts)(x - (n - magic), (BITS)n);
}

/* The product with log2(e) is kept to more than a float's digits: e^-40 is as exact as e^-1. */
INLINE VEC NAME(exp_vec)(VEC x)
{
    const VEC magic = NAME(splat)(12582912.0f), log2_e = NAME(splat)(1.44269502f);
    x = MIN(NAME(splat)(89.0f), MAX(NAME(splat)(-88.0f), x));
    VEC n = FMA(x, log2_e, magic);
    VEC f = FMA(x, log2_e, magic - n);
    return NAME(exp2_parts)(FMA(x, NAME(splat)(1.92596299e-8f), f), (BITS)n);
}

INLINE VEC NAME(sigmoid)(VEC x)
{
    return 1.0f / (1.0f + NAME(exp_vec)(-x));
}

static void NAME(exp)(float *y, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i += WIDTH)
        NAME(store_some)(y + i, NAME(exp_vec)(NAME(load_some)(x + i, n - i)), n - i);
}

static void NAME(silu)(float *y, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i += WIDTH) {
        VEC at = NAME(load_some)(x + i, n - i);
        NAME(store_some)(y + i, at * NAME(sigmoid)(at), n - i);
    }
}

static void NAME(silu_d)(float *dx, const float *dy, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i += WIDTH) {
        VEC at = NAME(load_some)(x + i, n - i), s = NAME(sigmoid)(at);
        VEC slope = s * FMA(at, 1.0f - s, NAME(splat)(1.0f));
        NAME(store_some)(dx + i, NAME(load_some)(dy + i, n - i) * slope, n - i);
    }
}

/* ---- blocks of scores, four vectors of queries at a time to hide the latency of the sums */

INLINE void NAME(weigh_part)(const score_block *b, int64_t at)
{
    VEC top[4], sum[4];
    float *s = b->s + at;
    UNROLL
    for (int v = 0; v < 4; v++) top[v] = NAME(load)(b->top + at + v * WIDTH);
    for (int64_t j = 0; j < b->n_keys; j++) {
        UNROLL
        for (int v = 0; v < 4; v++)
            top[v] = MAX(NAME(load)(s + j * LANES_BLOCK + v * WIDTH), top[v]);
    }
    UNROLL
    for (int v = 0; v < 4; v++) {
        VEC shrink = NAME(exp2)(NAME(load)(b->top + at + v * WIDTH) - top[v]);
        sum[v] = NAME(load)(b->sum + at + v * WIDTH) * shrink;
        NAME(store)(b->shrink + at + v * WIDTH, shrink);
        NAME(store)(b->top + at + v * WIDTH, top[v]);
    }
    for (int64_t j = 0; j < b->n_keys; j++) {
        UNROLL
        for (int v = 0; v < 4; v++) {
            float *one = s + j * LANES_BLOCK + v * WIDTH;
            VEC w = NAME(exp2)(NAME(load)(one) - top[v]);
            NAME(store)(one, w);
            sum[v] += w;
        }
    }
    UNROLL
    for (int v = 0; v < 4; v++) NAME(store)(b->sum + at + v * WIDTH, sum[v]);
}

static void NAME(weigh)(const score_block *b)
{
    for (int64_t at = 0; at < LANES_BLOCK; at += 4 * WIDTH) NAME(weigh_part)(b, at);
}

static void NAME(weigh_d)(const score_block *b)
{
    for (int64_t j = 0; j < b->n_keys; j++)
        for (int64_t i = 0; i < LANES_BLOCK; i += WIDTH) {
            float *s = b->s + j * LANES_BLOCK + i, *ds = b->ds + j * LANES_BLOCK + i;
            VEC w = NAME(exp2)(NAME(load)(s) - NAME(load)(b->lse + i));
            NAME(store)(s, w);
            NAME(store)(ds, w * (NAME(load)(ds) - NAME(load)(b->delta + i)));
        }
}

static void NAME(scale_columns)(float *x, int64_t n_rows, const float *by)
{
    for (int64_t r = 0; r < n_rows; r++)
        for (int64_t i = 0; i < LANES_BLOCK; i += WIDTH) NAME(store)
    (x + r * LANES_BLOCK + i, NAME(load)(x + r * LANES_BLOCK + i) * NAME(load)(by + i));
}

/* ---- rows */

static float NAME(dot)(const float *x, const float *y, int64_t n)
{
    VEC sum = {0}, more = {0}; /* two, for the latency of one */
    int64_t i = 0;
    for (; i + 2 * WIDTH <= n; i += 2 * WIDTH) {
        sum = FMA(NAME(load)(x + i), NAME(load)(y + i), sum);
        more = FMA(NAME(load)(x + i + WIDTH), NAME(load)(y + i + WIDTH), more);
    }
    for (; i < n; i += WIDTH)
        sum = FMA(NAME(load_some)(x + i, n - i), NAME(load_some)(y + i, n - i), sum);
    float part[WIDTH], total[4] = {0};
    NAME(store)(part, sum + more);
    for (int k = 0; k < WIDTH; k++) total[k % 4] += part[k];
    return (total[0] + total[1]) + (total[2] + total[3]);
}

static void NAME(add_scaled)(float *y, const float *x, float by, int64_t n)
{
    const VEC all = NAME(splat)(by);
    for (int64_t i = 0; i < n; i += WIDTH) {
        VEC v = FMA(NAME(load_some)(x + i, n - i), all, NAME(load_some)(y + i, n - i));
        NAME(store_some)(y + i, v, n - i);
    }
}

static const lanes NAME(lanes) = {
    .name = NAME(set_name),
    .works = NAME(works),
    .gemm = NAME(gemm),
    .weigh = NAME(weigh),
    .weigh_d = NAME(weigh_d),
    .scale_columns = NAME(scale_columns),
    .dot = NAME(dot),
    .add_scaled = NAME(add_scaled),
    .exp = NAME(exp),
    .silu = NAME(silu),
    .silu_d = NAME(silu_d),
};

#undef JOIN_
#undef JOIN
#undef NAME
#undef VEC
#undef BITS
#undef SET
#undef WIDTH
#undef TILE
#undef FMA
#undef MAX
#undef MIN

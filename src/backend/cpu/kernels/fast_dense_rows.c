/* fast_dense_rows.c - biases, embedding and norms on threads.
 *
 * Sums along a row are made by vectors within one span. Sums down columns run over BLOCKS blocks of
 * rows, whose results are then added in order. */
#include "backend/cpu/kernels/fast_dense.h"

#include <math.h>

#include "base/maths.h"

enum { BLOCKS = 32, STRIPE = 512 };

/* The shift that makes a zero-centred weight a factor. */
static float centre(const op *o)
{
    return o->flags & ZERO_CENTRED ? 1.F : 0.F;
}

/* ---- sums down columns */

/* A block of rows and a stripe of columns. */
typedef struct patch {
    int64_t begin, end; /* rows */
    int64_t from, n;    /* columns */
} patch;

/* sum[n] = column sums of a patch */
typedef void (*patch_work)(const call *c, const patch *p, float *sum);

_Static_assert(DIM_NORM_W_M == DIM_BIAS_W_M && DIM_NORM_W_H == DIM_BIAS_W_N, "sum_columns");

/* to[n] += sums over m rows. Stripe by stripe, so that the blocks' sums fit on the stack. */
static void sum_columns(patch_work work, const call *c, float *to)
{
    const int64_t m = c->o->dim[DIM_BIAS_W_M], n = c->o->dim[DIM_BIAS_W_N];
    const int64_t rows = ceil_div(m, BLOCKS), n_blocks = rows ? ceil_div(m, rows) : 0;
    float sums[BLOCKS][STRIPE];
    for (int64_t from = 0; from < n; from += STRIPE) {
        const int64_t width = n - from < STRIPE ? n - from : STRIPE;
#pragma omp parallel for schedule(static) if (m * width > 8192)
        for (int64_t b = 0; b < n_blocks; b++) {
            int64_t end = (b + 1) * rows < m ? (b + 1) * rows : m;
            work(c, &(patch){b * rows, end, from, width}, sums[b]);
        }
        for (int64_t b = 0; b < n_blocks; b++)
            for (int64_t j = 0; j < width; j++) to[from + j] += sums[b][j];
    }
}

/* ---- biases */

WIDE static void bias_span(const call *c, int64_t begin, int64_t end)
{
    const int64_t n = c->o->dim[DIM_BIAS_N];
    const float *b = c->in[IN_BIAS_b]; /* [N] */
    float *y = c->out[OUT_BIAS_y];     /* [M][N] */
    for (int64_t i = begin; i < end; i++) {
        float *row = y + i * n;
#pragma omp simd
        for (int64_t j = 0; j < n; j++) row[j] += b[j];
    }
}

static void fast_bias(const op *o, void *const *in, void *const *out)
{
    share_rows(bias_span, &(call){o, in, out}, o->dim[DIM_BIAS_M], o->dim[DIM_BIAS_N]);
}

WIDE static void bias_patch(const call *c, const patch *p, float *sum)
{
    const float *dy = c->in[IN_BIAS_W_dy]; /* [M][N] */
    memset(sum, 0, sizeof(float) * (size_t)p->n);
    for (int64_t i = p->begin; i < p->end; i++) {
        const float *row = dy + i * c->o->dim[DIM_BIAS_W_N] + p->from;
#pragma omp simd
        for (int64_t j = 0; j < p->n; j++) sum[j] += row[j];
    }
}

static void fast_bias_w(const op *o, void *const *in, void *const *out)
{
    sum_columns(bias_patch, &(call){o, in, out}, out[OUT_BIAS_W_db]);
}

/* ---- embedding */

static void embed_span(const call *c, int64_t begin, int64_t end)
{
    const int64_t h = c->o->dim[DIM_EMBED_H], n_v = c->o->dim[DIM_EMBED_V],
                  first = c->o->dim[DIM_EMBED_FIRST];
    const float *w = c->in[IN_EMBED_w];       /* [V][H] */
    const int32_t *ids = c->in[IN_EMBED_ids]; /* [T] */
    float *x = c->out[OUT_EMBED_x];           /* [T][H] */
    for (int64_t t = begin; t < end; t++) {
        const int64_t v = ids[t] - first;
        if (v < 0 || v >= n_v)
            memset(x + t * h, 0, sizeof(float) * (size_t)h);
        else
            memcpy(x + t * h, w + v * h, sizeof(float) * (size_t)h);
    }
}

static void fast_embed(const op *o, void *const *in, void *const *out)
{
    share_rows(embed_span, &(call){o, in, out}, o->dim[DIM_EMBED_T], o->dim[DIM_EMBED_H]);
}

/* Columns begin .. end-1 of all tokens, in their order: no two threads meet in a row of dw. */
WIDE static void embed_w_span(const call *c, int64_t begin, int64_t end)
{
    const int64_t n_t = c->o->dim[DIM_EMBED_W_T], h = c->o->dim[DIM_EMBED_W_H],
                  n_v = c->o->dim[DIM_EMBED_W_V], first = c->o->dim[DIM_EMBED_W_FIRST];
    const float *dx = c->in[IN_EMBED_W_dx];     /* [T][H] */
    const int32_t *ids = c->in[IN_EMBED_W_ids]; /* [T] */
    float *dw = c->out[OUT_EMBED_W_dw];         /* [V][H] */
    for (int64_t v = 0; (c->o->flags & OVERWRITE) && v < n_v; v++)
        memset(dw + v * h + begin, 0, sizeof(float) * (size_t)(end - begin));
    for (int64_t t = 0; t < n_t; t++) {
        const int64_t v = ids[t] - first;
        if (v < 0 || v >= n_v) continue;
        const float *from = dx + t * h;
        float *to = dw + v * h;
#pragma omp simd
        for (int64_t i = begin; i < end; i++) to[i] += from[i];
    }
}

static void fast_embed_w(const op *o, void *const *in, void *const *out)
{
    enum { COLUMNS = 64 };
    share(embed_w_span, &(call){o, in, out}, o->dim[DIM_EMBED_W_H], COLUMNS);
}

/* ---- norms */

WIDE static void norm_span(const call *c, int64_t begin, int64_t end)
{
    const int64_t h = c->o->dim[DIM_NORM_H];
    const float *w = c->in[IN_NORM_w];   /* [H] */
    float *rstd = c->out[OUT_NORM_rstd]; /* [M], may be missing */
    const float one = centre(c->o);
    for (int64_t i = begin; i < end; i++) {
        const float *x = (const float *)c->in[IN_NORM_x] + i * h; /* [H] */
        float *y = (float *)c->out[OUT_NORM_y] + i * h;           /* [H] */
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t j = 0; j < h; j++) sum += x[j] * x[j];
        const float r = (float)(1 / sqrt((double)sum / (double)h + c->o->real[REAL_NORM_eps]));
#pragma omp simd
        for (int64_t j = 0; j < h; j++) y[j] = x[j] * r * (w[j] + one);
        if (rstd) rstd[i] = r;
    }
}

static void fast_norm(const op *o, void *const *in, void *const *out)
{
    share_rows(norm_span, &(call){o, in, out}, o->dim[DIM_NORM_M], o->dim[DIM_NORM_H]);
}

WIDE static void norm_d_span(const call *c, int64_t begin, int64_t end)
{
    const int64_t h = c->o->dim[DIM_NORM_D_H];
    const float *w = c->in[IN_NORM_D_w];       /* [H] */
    const float *rstd = c->in[IN_NORM_D_rstd]; /* [M] */
    const float one = centre(c->o);
    for (int64_t i = begin; i < end; i++) {
        const float *dy = (const float *)c->in[IN_NORM_D_dy] + i * h; /* [H] */
        const float *x = (const float *)c->in[IN_NORM_D_x] + i * h;   /* [H] */
        float *dx = (float *)c->out[OUT_NORM_D_dx] + i * h;           /* [H] */
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t j = 0; j < h; j++) sum += dy[j] * (w[j] + one) * x[j];
        const float r = rstd[i], pull = r * r * r * sum / (float)h;
        if (c->o->flags & ACCUMULATE) {
#pragma omp simd
            for (int64_t j = 0; j < h; j++) dx[j] += r * dy[j] * (w[j] + one) - x[j] * pull;
        } else {
#pragma omp simd
            for (int64_t j = 0; j < h; j++) dx[j] = r * dy[j] * (w[j] + one) - x[j] * pull;
        }
    }
}

static void fast_norm_d(const op *o, void *const *in, void *const *out)
{
    share_rows(norm_d_span, &(call){o, in, out}, o->dim[DIM_NORM_D_M], o->dim[DIM_NORM_D_H]);
}

WIDE static void norm_patch(const call *c, const patch *p, float *sum)
{
    const int64_t h = c->o->dim[DIM_NORM_W_H];
    const float *rstd = c->in[IN_NORM_W_rstd]; /* [M] */
    memset(sum, 0, sizeof(float) * (size_t)p->n);
    for (int64_t i = p->begin; i < p->end; i++) {
        const float *dy = (const float *)c->in[IN_NORM_W_dy] + i * h + p->from; /* [H] */
        const float *x = (const float *)c->in[IN_NORM_W_x] + i * h + p->from;   /* [H] */
        const float r = rstd[i];
#pragma omp simd
        for (int64_t j = 0; j < p->n; j++) sum[j] += dy[j] * x[j] * r;
    }
}

static void fast_norm_w(const op *o, void *const *in, void *const *out)
{
    sum_columns(norm_patch, &(call){o, in, out}, out[OUT_NORM_W_dw]);
}

kernel_rows fast_dense_rows(void)
{
    static const kernel rows[] = {
        {OP_BIAS, "threads", NULL, .run = fast_bias},
        {OP_BIAS_W, "threads", NULL, .run = fast_bias_w},
        {OP_EMBED, "threads", NULL, .run = fast_embed},
        {OP_EMBED_W, "threads", NULL, .run = fast_embed_w},
        {OP_NORM, "threads", NULL, .run = fast_norm},
        {OP_NORM_D, "threads", NULL, .run = fast_norm_d},
        {OP_NORM_W, "threads", NULL, .run = fast_norm_w},
    };
    return (kernel_rows){rows, sizeof rows / sizeof rows[0]};
}

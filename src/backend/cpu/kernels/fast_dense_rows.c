/* fast_dense_rows.c - biases, embedding and norms on threads.
 *
 * Sums along a row are made by vectors within one span. Sums down columns run over BLOCKS blocks of
 * rows, whose results are then added in order. */
#include "backend/cpu/kernels/fast_dense.h"
#include "op/op_operands.h"

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
    const op_bias_w a = op_bias_w_of(c->o, c->in, c->out);
    const int64_t rows = ceil_div(a.M, BLOCKS), n_blocks = rows ? ceil_div(a.M, rows) : 0;
    float sums[BLOCKS][STRIPE];
    for (int64_t from = 0; from < a.N; from += STRIPE) {
        const int64_t width = a.N - from < STRIPE ? a.N - from : STRIPE;
#pragma omp parallel for schedule(static) if (a.M * width > 8192)
        for (int64_t b = 0; b < n_blocks; b++) {
            int64_t end = (b + 1) * rows < a.M ? (b + 1) * rows : a.M;
            work(c, &(patch){b * rows, end, from, width}, sums[b]);
        }
        for (int64_t b = 0; b < n_blocks; b++)
            for (int64_t j = 0; j < width; j++) to[from + j] += sums[b][j];
    }
}

/* ---- biases */

WIDE static void bias_span(const call *c, int64_t begin, int64_t end)
{
    const op_bias a = op_bias_of(c->o, c->in, c->out);
    for (int64_t i = begin; i < end; i++) {
        float *row = a.y + i * a.N;
#pragma omp simd
        for (int64_t j = 0; j < a.N; j++) row[j] += a.b[j];
    }
}

static void fast_bias(const op *o, void *const *in, void *const *out)
{
    const op_bias a = op_bias_of(o, in, out);
    share_rows(bias_span, &(call){o, in, out}, a.M, a.N);
}

WIDE static void bias_patch(const call *c, const patch *p, float *sum)
{
    const op_bias_w a = op_bias_w_of(c->o, c->in, c->out);
    memset(sum, 0, sizeof(float) * (size_t)p->n);
    for (int64_t i = p->begin; i < p->end; i++) {
        const float *row = a.dy + i * a.N + p->from;
#pragma omp simd
        for (int64_t j = 0; j < p->n; j++) sum[j] += row[j];
    }
}

static void fast_bias_w(const op *o, void *const *in, void *const *out)
{
    const op_bias_w a = op_bias_w_of(o, in, out);
    sum_columns(bias_patch, &(call){o, in, out}, a.db);
}

/* ---- embedding */

static void embed_span(const call *c, int64_t begin, int64_t end)
{
    const op_embed a = op_embed_of(c->o, c->in, c->out);
    for (int64_t t = begin; t < end; t++) {
        const int64_t v = a.ids[t] - a.FIRST;
        if (v < 0 || v >= a.V)
            memset(a.x + t * a.H, 0, sizeof(float) * (size_t)a.H);
        else
            memcpy(a.x + t * a.H, a.w + v * a.H, sizeof(float) * (size_t)a.H);
    }
}

static void fast_embed(const op *o, void *const *in, void *const *out)
{
    const op_embed a = op_embed_of(o, in, out);
    share_rows(embed_span, &(call){o, in, out}, a.T, a.H);
}

/* Columns begin .. end-1 of all tokens, in their order: no two threads meet in a row of dw. */
WIDE static void embed_w_span(const call *c, int64_t begin, int64_t end)
{
    const op_embed_w a = op_embed_w_of(c->o, c->in, c->out);
    for (int64_t v = 0; (c->o->flags & OVERWRITE) && v < a.V; v++)
        memset(a.dw + v * a.H + begin, 0, sizeof(float) * (size_t)(end - begin));
    for (int64_t t = 0; t < a.T; t++) {
        const int64_t v = a.ids[t] - a.FIRST;
        if (v < 0 || v >= a.V) continue;
        const float *from = a.dx + t * a.H;
        float *to = a.dw + v * a.H;
#pragma omp simd
        for (int64_t i = begin; i < end; i++) to[i] += from[i];
    }
}

static void fast_embed_w(const op *o, void *const *in, void *const *out)
{
    const op_embed_w a = op_embed_w_of(o, in, out);
    enum { COLUMNS = 64 };
    share(embed_w_span, &(call){o, in, out}, a.H, COLUMNS);
}

/* ---- norms */

WIDE static void norm_span(const call *c, int64_t begin, int64_t end)
{
    const op_norm a = op_norm_of(c->o, c->in, c->out);
    const float one = centre(c->o);
    for (int64_t i = begin; i < end; i++) {
        const float *x = a.x + i * a.H; /* [H] */
        float *y = a.y + i * a.H;       /* [H] */
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t j = 0; j < a.H; j++) sum += x[j] * x[j];
        const float r = (float)(1 / sqrt((double)sum / (double)a.H + a.eps));
#pragma omp simd
        for (int64_t j = 0; j < a.H; j++) y[j] = x[j] * r * (a.w[j] + one);
        if (a.rstd) a.rstd[i] = r;
    }
}

static void fast_norm(const op *o, void *const *in, void *const *out)
{
    const op_norm a = op_norm_of(o, in, out);
    share_rows(norm_span, &(call){o, in, out}, a.M, a.H);
}

WIDE static void norm_d_span(const call *c, int64_t begin, int64_t end)
{
    const op_norm_d a = op_norm_d_of(c->o, c->in, c->out);
    const float one = centre(c->o);
    for (int64_t i = begin; i < end; i++) {
        const float *dy = a.dy + i * a.H; /* [H] */
        const float *x = a.x + i * a.H;   /* [H] */
        float *dx = a.dx + i * a.H;       /* [H] */
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t j = 0; j < a.H; j++) sum += dy[j] * (a.w[j] + one) * x[j];
        const float r = a.rstd[i], pull = r * r * r * sum / (float)a.H;
        if (c->o->flags & ACCUMULATE) {
#pragma omp simd
            for (int64_t j = 0; j < a.H; j++) dx[j] += r * dy[j] * (a.w[j] + one) - x[j] * pull;
        } else {
#pragma omp simd
            for (int64_t j = 0; j < a.H; j++) dx[j] = r * dy[j] * (a.w[j] + one) - x[j] * pull;
        }
    }
}

static void fast_norm_d(const op *o, void *const *in, void *const *out)
{
    const op_norm_d a = op_norm_d_of(o, in, out);
    share_rows(norm_d_span, &(call){o, in, out}, a.M, a.H);
}

WIDE static void norm_patch(const call *c, const patch *p, float *sum)
{
    const op_norm_w a = op_norm_w_of(c->o, c->in, c->out);
    memset(sum, 0, sizeof(float) * (size_t)p->n);
    for (int64_t i = p->begin; i < p->end; i++) {
        const float *dy = a.dy + i * a.H + p->from; /* [H] */
        const float *x = a.x + i * a.H + p->from;   /* [H] */
        const float r = a.rstd[i];
#pragma omp simd
        for (int64_t j = 0; j < p->n; j++) sum[j] += dy[j] * x[j] * r;
    }
}

static void fast_norm_w(const op *o, void *const *in, void *const *out)
{
    const op_norm_w a = op_norm_w_of(o, in, out);
    sum_columns(norm_patch, &(call){o, in, out}, a.dw);
}

kernel_rows fast_dense_rows(void)
{
    static const kernel rows[] = {
        {OP_BIAS, "threads", .run = fast_bias},     {OP_BIAS_W, "threads", .run = fast_bias_w},
        {OP_EMBED, "threads", .run = fast_embed},   {OP_EMBED_W, "threads", .run = fast_embed_w},
        {OP_NORM, "threads", .run = fast_norm},     {OP_NORM_D, "threads", .run = fast_norm_d},
        {OP_NORM_W, "threads", .run = fast_norm_w},
    };
    return (kernel_rows){rows, sizeof rows / sizeof rows[0]};
}

/* fast_dense_loss.c - head and loss, a chunk of rows at a time.
 *
 * I1  A chunk's logits are made once, in the workspace, and become their own gradients in place.
 * I2  Losses of rows are kept apart and added in the order of rows, in double. */
#include "kernels/cpu/fast_dense.h"

#include <math.h>

#include "base/maths.h"
#include "kernels/cpu/blas.h"

/* The rows of the operation that are in the workspace now. */
typedef struct chunk {
    const op *o;
    const float *x;        /* [n][H] */
    const float *w;        /* [V][H] */
    const int32_t *labels; /* [n] */
    const float *mask;     /* [n], may be missing */
    float *dx;             /* [n][H], may be missing */
    float *dw;             /* [V][H], may be missing */
    float *logits;         /* [n][V] */
    double *losses;        /* [n] */
    int64_t n;
} chunk;

static int64_t chunk_rows(const op *o)
{
    int64_t n_t = o->dim[0], rows = o->dim[3];
    return rows > 0 && rows < n_t ? rows : n_t;
}

static int64_t logits_bytes(const op *o)
{
    enum { LINE = 64 };
    return round_up(mul_sat(chunk_rows(o), mul_sat(o->dim[2], sizeof(float))), LINE);
}

size_t fast_head_loss_bytes(const op *o)
{
    return (size_t)add_sat(logits_bytes(o), mul_sat(chunk_rows(o), sizeof(double)));
}

/* ---- softmax of one row */

/* Lanes by hand: a maximum in a loop becomes a vector only where NaN may be ignored. */
WIDE static float row_top(const float *l, int64_t n)
{
    enum { LANES = 64 };
    float tops[LANES], top = l[0];
    for (int j = 0; j < LANES; j++) tops[j] = top;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++) tops[j] = l[i + j] > tops[j] ? l[i + j] : tops[j];
    for (; i < n; i++) top = l[i] > top ? l[i] : top;
    for (int j = 0; j < LANES; j++) top = tops[j] > top ? tops[j] : top;
    return top;
}

/* l[n] = e^(l - top); their sum, in pieces that float can add. */
WIDE static double row_exp(float *l, int64_t n, float top)
{
    enum { PIECE = 1024 };
    double total = 0;
    for (int64_t i = 0; i < n; i += PIECE) {
        const int64_t end = i + PIECE < n ? i + PIECE : n;
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t j = i; j < end; j++) {
            l[j] = fast_exp(l[j] - top);
            sum += l[j];
        }
        total += (double)sum;
    }
    return total;
}

WIDE static void row_scale(float *l, int64_t n, float by)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) l[i] *= by;
}

/* What a row counts for; a label that is no word of the vocabulary counts as masked. */
static float row_weight(const chunk *c, int64_t i)
{
    if (c->labels[i] < 0 || c->labels[i] >= c->o->dim[2]) return 0;
    return c->mask ? c->mask[i] : 1;
}

/* The loss of row i; its logits become gradients. */
static double row_loss(const chunk *c, int64_t i)
{
    const int64_t n_v = c->o->dim[2];
    float *l = c->logits + i * n_v; /* [V] */
    const float weight = row_weight(c, i);
    if (weight == 0) {
        memset(l, 0, sizeof(float) * (size_t)n_v);
        return 0;
    }
    const float top = row_top(l, n_v), right = l[c->labels[i]];
    const double sum = row_exp(l, n_v, top), scale = (double)weight * c->o->real[0];
    if (c->dx || c->dw) {
        row_scale(l, n_v, (float)(scale / sum));
        l[c->labels[i]] -= (float)scale;
    }
    return (double)weight * (log(sum) + (double)top - (double)right);
}

/* ---- the operation */

static void chunk_run(const chunk *c)
{
    const int64_t h = c->o->dim[1], n_v = c->o->dim[2];
    const blas_product logits = blas_forward(c->x, c->w, c->logits, c->n, n_v, h);
    const blas_product data = blas_data(c->logits, c->w, c->dx, c->n, n_v, h);
    const blas_product weight = blas_weight(c->logits, c->x, c->dw, c->n, n_v, h);
    blas_gemm(&logits);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < c->n; i++) c->losses[i] = row_loss(c, i); /* I1 */
    if (c->dx) blas_gemm(&data);
    if (c->dw) blas_gemm(&weight);
}

void fast_head_loss(const op *o, void *const *in, void *const *out)
{
    const int64_t n_t = o->dim[0], h = o->dim[1], rows = chunk_rows(o);
    const float *x = in[0];        /* [T][H] */
    const int32_t *labels = in[2]; /* [T] */
    const float *mask = in[3];     /* [T], may be missing */
    float *loss = out[0];          /* [2] */
    float *dx = out[1];            /* [T][H], may be missing */
    char *room = kernel_workspace(fast_head_loss_bytes(o));
    double sum = 0, weights = 0;
    chunk c = {.o = o, .w = in[1], .dw = out[2], .logits = (float *)room};
    c.losses = (double *)(room + logits_bytes(o));
    for (int64_t t = 0; t < n_t; t += rows) {
        c.n = n_t - t < rows ? n_t - t : rows;
        c.x = x + t * h;
        c.labels = labels + t;
        c.mask = mask ? mask + t : NULL;
        c.dx = dx ? dx + t * h : NULL;
        chunk_run(&c);
        for (int64_t i = 0; i < c.n; i++) { /* I2 */
            sum += c.losses[i];
            weights += (double)row_weight(&c, i);
        }
    }
    loss[0] = (float)((double)loss[0] + sum);
    loss[1] = (float)((double)loss[1] + weights);
}

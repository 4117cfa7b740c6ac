/* plain_dense_loss.c - row 0 of head and loss.
 *
 * A row's logits are computed twice, once for the sum of exponentials and once for the gradients:
 * keeping them would need a buffer as wide as the vocabulary. The fast row keeps a chunk of them in
 * the workspace instead. */
#include "kernels/cpu/plain_dense.h"

#include <math.h>

#include "kernels/cpu/real.h"

static double logit(const real *x, const real *w, int64_t h)
{
    double sum = 0;
    for (int64_t i = 0; i < h; i++) sum += (double)x[i] * (double)w[i];
    return sum;
}

/* log of the sum of exponentials of one row's logits; the largest is taken out as it is met. */
static double log_sum_exp(const real *x, const real *w, int64_t h, int64_t n_v)
{
    double top = -INFINITY, sum = 0;
    for (int64_t v = 0; v < n_v; v++) {
        double l = logit(x, w + v * h, h);
        if (l > top) {
            sum *= exp(top - l);
            top = l;
        }
        sum += exp(l - top);
    }
    return top + log(sum);
}

/* One row's place in the tensors of the operation. */
typedef struct row {
    const real *x; /* [H] */
    const real *w; /* [V][H] */
    real *dx;      /* [H], may be missing */
    real *dw;      /* [V][H], may be missing */
    int64_t h, n_v, label;
} row;

static void row_gradient(const row *r, double lse, double scale)
{
    for (int64_t v = 0; v < r->n_v; v++) {
        const real *w = r->w + v * r->h;
        double d = scale * (exp(logit(r->x, w, r->h) - lse) - (v == r->label));
        for (int64_t i = 0; i < r->h; i++) {
            if (r->dx) r->dx[i] += (real)(d * (double)w[i]);
            if (r->dw) r->dw[v * r->h + i] += (real)(d * (double)r->x[i]);
        }
    }
}

/* A label that is no word of the vocabulary (-100 marks padding elsewhere) counts as masked. */
static void head_loss(const op *o, void *const *in, void *const *out)
{
    const int64_t n_t = o->dim[0], h = o->dim[1], n_v = o->dim[2];
    const real *x = in[0];         /* [T][H] */
    const real *w = in[1];         /* [V][H] */
    const int32_t *labels = in[2]; /* [T] */
    const real *mask = in[3];      /* [T], may be missing: all ones */
    real *loss = out[0];           /* [2] */
    real *dx = out[1];             /* [T][H], may be missing */
    real *dw = out[2];             /* [V][H], may be missing */
    double sum = 0, weights = 0;
    for (int64_t t = 0; t < n_t; t++) {
        bool known = labels[t] >= 0 && labels[t] < n_v;
        double weight = !known ? 0 : mask ? (double)mask[t] : 1;
        row r = {x + t * h, w, dx ? dx + t * h : NULL, dw, h, n_v, labels[t]};
        for (int64_t i = 0; dx && i < h; i++) r.dx[i] = 0;
        if (weight == 0) continue;
        double lse = log_sum_exp(r.x, w, h, n_v);
        sum += weight * (lse - logit(r.x, w + labels[t] * h, h));
        weights += weight;
        if (dx || dw) row_gradient(&r, lse, weight * o->real[0]);
    }
    loss[0] = (real)((double)loss[0] + sum);
    loss[1] = (real)((double)loss[1] + weights);
}

static void head_logits(const op *o, void *const *in, void *const *out)
{
    const int64_t n_t = o->dim[0], h = o->dim[1], n_v = o->dim[2];
    const real *x = in[0]; /* [T][H] */
    const real *w = in[1]; /* [V][H] */
    real *logits = out[0]; /* [T][V] */
    for (int64_t t = 0; t < n_t; t++)
        for (int64_t v = 0; v < n_v; v++)
            logits[t * n_v + v] = (real)logit(x + t * h, w + v * h, h);
}

static const kernel loss_rows[] = {
    {OP_HEAD_LOSS, "plain", NULL, head_loss},
    {OP_HEAD_LOGITS, "plain", NULL, head_logits},
};

kernel_rows plain_dense_loss(void)
{
    return (kernel_rows){loss_rows, sizeof loss_rows / sizeof loss_rows[0]};
}

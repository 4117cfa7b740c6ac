/* plain_dense_loss.c - row 0 of head and loss.
 *
 * A row's logits are computed twice, once for the sum of exponentials and once for the gradients:
 * keeping them would need a buffer as wide as the vocabulary. The fast row keeps a chunk of them in
 * the workspace instead. Where the vocabulary is cut over ranks a chunk is a buffer of the program:
 * between its logits and their gradients the ranks have to meet. */
#include "backend/cpu/kernels/plain_dense.h"

#include <math.h>

#include "backend/cpu/kernels/real.h"

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
static void clear(real *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) x[i] = 0;
}

static void head_loss(const op *o, void *const *in, void *const *out)
{
    const int64_t n_t = o->dim[DIM_HEAD_LOSS_T], h = o->dim[DIM_HEAD_LOSS_H],
                  n_v = o->dim[DIM_HEAD_LOSS_V];
    const real *x = in[IN_HEAD_LOSS_x];              /* [T][H] */
    const real *w = in[IN_HEAD_LOSS_w];              /* [V][H] */
    const int32_t *labels = in[IN_HEAD_LOSS_labels]; /* [T] */
    const real *mask = in[IN_HEAD_LOSS_mask];        /* [T], may be missing: all ones */
    real *loss = out[OUT_HEAD_LOSS_loss];            /* [2] */
    real *dx = out[OUT_HEAD_LOSS_dx];                /* [T][H], may be missing */
    real *dw = out[OUT_HEAD_LOSS_dw];                /* [V][H], may be missing */
    double sum = 0, weights = 0;
    if (dw && (o->flags & OVERWRITE)) clear(dw, n_v * h);
    for (int64_t t = 0; t < n_t; t++) {
        bool known = labels[t] >= 0 && labels[t] < n_v;
        double weight = !known ? 0 : mask ? (double)mask[t] : 1;
        row r = {x + t * h, w, dx ? dx + t * h : NULL, dw, h, n_v, labels[t]};
        for (int64_t i = 0; dx && i < h; i++) r.dx[i] = 0;
        if (weight == 0) continue;
        double lse = log_sum_exp(r.x, w, h, n_v);
        sum += weight * (lse - logit(r.x, w + labels[t] * h, h));
        weights += weight;
        if (dx || dw) row_gradient(&r, lse, weight * o->real[REAL_HEAD_LOSS_scale]);
    }
    loss[0] = (real)((double)loss[0] + sum);
    loss[1] = (real)((double)loss[1] + weights);
}

static void head_logits(const op *o, void *const *in, void *const *out)
{
    const int64_t n_t = o->dim[DIM_HEAD_LOGITS_T], h = o->dim[DIM_HEAD_LOGITS_H],
                  n_v = o->dim[DIM_HEAD_LOGITS_V];
    const real *x = in[IN_HEAD_LOGITS_x];       /* [T][H] */
    const real *w = in[IN_HEAD_LOGITS_w];       /* [V][H] */
    real *logits = out[OUT_HEAD_LOGITS_logits]; /* [T][V] */
    for (int64_t t = 0; t < n_t; t++)
        for (int64_t v = 0; v < n_v; v++)
            logits[t * n_v + v] = (real)logit(x + t * h, w + v * h, h);
}

/* ---- of a vocabulary that is cut over ranks */

static int64_t rows_there(const op *o)
{
    int64_t left = o->dim[DIM_HEAD_PART_T] - o->dim[DIM_HEAD_PART_FIRST];
    return left < 0 ? 0 : left < o->dim[DIM_HEAD_PART_ROWS] ? left : o->dim[DIM_HEAD_PART_ROWS];
}

static void head_part(const op *o, void *const *in, void *const *out)
{
    const int64_t h = o->dim[DIM_HEAD_PART_H], n_v = o->dim[DIM_HEAD_PART_V],
                  rows = o->dim[DIM_HEAD_PART_ROWS], first = o->dim[DIM_HEAD_PART_FIRST];
    const real *x = (const real *)in[IN_HEAD_PART_x] + first * h;             /* [ROWS][H] */
    const real *w = in[IN_HEAD_PART_w];                                       /* [V][H] */
    const int32_t *labels = (const int32_t *)in[IN_HEAD_PART_labels] + first; /* [ROWS] */
    real *logits = out[OUT_HEAD_PART_logits];                                 /* [ROWS][V] */
    real *stats = out[OUT_HEAD_PART_stats];                                   /* [ROWS][3] */
    const int64_t n = rows_there(o);
    for (int64_t i = 0; i < n; i++) {
        real *l = logits + i * n_v; /* [V] */
        double top = -INFINITY, sum = 0;
        for (int64_t v = 0; v < n_v; v++) {
            l[v] = (real)logit(x + i * h, w + v * h, h);
            if ((double)l[v] > top) top = (double)l[v];
        }
        for (int64_t v = 0; v < n_v; v++) sum += exp((double)l[v] - top);
        int64_t label = labels[i] - o->dim[DIM_HEAD_PART_VFIRST];
        stats[i * 3] = (real)top;
        stats[i * 3 + 1] = (real)sum;
        stats[i * 3 + 2] = label >= 0 && label < n_v ? l[label] : 0;
    }
    clear(logits + n * n_v, (rows - n) * n_v);
    clear(stats + n * 3, (rows - n) * 3);
}

/* What all ranks together know of a row. */
typedef struct totals {
    double lse, right; /* right: the label's logit */
} totals;

static totals row_totals(const op *o, const real *stats /* [PARTS][ROWS][3] */, int64_t i)
{
    double top = -INFINITY, sum = 0, right = 0;
    const int64_t rows = o->dim[DIM_HEAD_PART_D_ROWS], n_parts = o->dim[DIM_HEAD_PART_D_PARTS];
    for (int64_t p = 0; p < n_parts; p++) {
        double t = (double)stats[(p * rows + i) * 3];
        if (t > top) top = t;
    }
    for (int64_t p = 0; p < n_parts; p++) {
        const real *s = stats + (p * rows + i) * 3; /* [3] */
        sum += (double)s[1] * exp((double)s[0] - top);
        right += (double)s[2];
    }
    return (totals){top + log(sum), right};
}

/* Logits of a row become their gradient, which goes on to dx and dw. */
static void part_gradient(const row *r, real *l /* [V] */, double lse, double scale)
{
    for (int64_t v = 0; v < r->n_v; v++)
        l[v] = scale == 0 ? 0 : (real)(scale * (exp((double)l[v] - lse) - (v == r->label)));
    for (int64_t i = 0; r->dx && i < r->h; i++) {
        double sum = 0;
        for (int64_t v = 0; v < r->n_v; v++) sum += (double)l[v] * (double)r->w[v * r->h + i];
        r->dx[i] = (real)sum;
    }
    for (int64_t v = 0; r->dw && v < r->n_v; v++)
        for (int64_t i = 0; i < r->h; i++) r->dw[v * r->h + i] += l[v] * r->x[i];
}

/* Every rank has as many words, so PARTS * V is the whole vocabulary. */
static void head_part_d(const op *o, void *const *in, void *const *out)
{
    const int64_t h = o->dim[DIM_HEAD_PART_D_H], n_v = o->dim[DIM_HEAD_PART_D_V],
                  first = o->dim[DIM_HEAD_PART_D_FIRST], n = rows_there(o);
    const real *x = in[IN_HEAD_PART_D_x];              /* [T][H] */
    const int32_t *labels = in[IN_HEAD_PART_D_labels]; /* [T] */
    const real *mask = in[IN_HEAD_PART_D_mask];        /* [T], may be missing: all ones */
    real *logits = out[OUT_HEAD_PART_D_logits];        /* [ROWS][V] */
    real *loss = out[OUT_HEAD_PART_D_loss];            /* [2] */
    real *dx = out[OUT_HEAD_PART_D_dx];                /* [T][H], may be missing */
    double sum = 0, weights = 0;
    if (o->flags & OVERWRITE) clear(out[OUT_HEAD_PART_D_dw], n_v * h);
    for (int64_t i = 0, t = first; i < n; i++, t++) {
        bool known = labels[t] >= 0 && labels[t] < n_v * o->dim[DIM_HEAD_PART_D_PARTS];
        double weight = !known ? 0 : mask ? (double)mask[t] : 1;
        totals all = row_totals(o, in[IN_HEAD_PART_D_stats], i);
        row r = {x + t * h,
                 in[IN_HEAD_PART_D_w],
                 dx ? dx + t * h : NULL,
                 out[OUT_HEAD_PART_D_dw],
                 h,
                 n_v,
                 labels[t] - o->dim[DIM_HEAD_PART_D_VFIRST]};
        part_gradient(&r, logits + i * n_v, all.lse, weight * o->real[REAL_HEAD_PART_D_scale]);
        if (weight == 0) continue;
        sum += weight * (all.lse - all.right);
        weights += weight;
    }
    clear(logits + n * n_v, (o->dim[DIM_HEAD_PART_D_ROWS] - n) * n_v);
    loss[0] = (real)((double)loss[0] + sum);
    loss[1] = (real)((double)loss[1] + weights);
}

static const kernel loss_rows[] = {
    {OP_HEAD_LOSS, "plain", NULL, .run = head_loss},
    {OP_HEAD_PART, "plain", NULL, .run = head_part},
    {OP_HEAD_PART_D, "plain", NULL, .run = head_part_d},
    {OP_HEAD_LOGITS, "plain", NULL, .run = head_logits},
};

kernel_rows plain_dense_loss(void)
{
    return (kernel_rows){loss_rows, sizeof loss_rows / sizeof loss_rows[0]};
}

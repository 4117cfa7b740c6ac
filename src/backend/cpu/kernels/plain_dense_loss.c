/* plain_dense_loss.c - row 0 of head and loss.
 *
 * A row's logits are computed twice, once for the sum of exponentials and once for the gradients:
 * keeping them would need a buffer as wide as the vocabulary. The fast row keeps a chunk of them in
 * the workspace instead. Where the vocabulary is cut over ranks a chunk is a buffer of the program:
 * between its logits and their gradients the ranks have to meet. */
#include "backend/cpu/kernels/plain_dense.h"

#include <math.h>

#include "backend/cpu/kernels/real.h"
#include "op/op_operands.h"

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
    const op_head_loss a = op_head_loss_of(o, in, out);
    double sum = 0, weights = 0;
    if (a.dw && (o->flags & OVERWRITE)) clear(a.dw, a.V * a.H);
    for (int64_t t = 0; t < a.T; t++) {
        bool known = a.labels[t] >= 0 && a.labels[t] < a.V;
        double weight = !known ? 0 : a.mask ? (double)a.mask[t] : 1;
        row r = {a.x + t * a.H, a.w, a.dx ? a.dx + t * a.H : NULL, a.dw, a.H, a.V, a.labels[t]};
        for (int64_t i = 0; a.dx && i < a.H; i++) r.dx[i] = 0;
        if (weight == 0) continue;
        double lse = log_sum_exp(r.x, a.w, a.H, a.V);
        sum += weight * (lse - logit(r.x, a.w + a.labels[t] * a.H, a.H));
        weights += weight;
        if (a.dx || a.dw) row_gradient(&r, lse, weight * a.scale);
    }
    a.loss[0] = (real)((double)a.loss[0] + sum);
    a.loss[1] = (real)((double)a.loss[1] + weights);
}

static void head_logits(const op *o, void *const *in, void *const *out)
{
    const op_head_logits a = op_head_logits_of(o, in, out);
    for (int64_t t = 0; t < a.T; t++)
        for (int64_t v = 0; v < a.V; v++)
            a.logits[t * a.V + v] = (real)logit(a.x + t * a.H, a.w + v * a.H, a.H);
}

/* ---- of a vocabulary that is cut over ranks */

static int64_t rows_there(const op *o)
{
    int64_t left = o->dim[DIM_HEAD_PART_T] - o->dim[DIM_HEAD_PART_FIRST];
    return left < 0 ? 0 : left < o->dim[DIM_HEAD_PART_ROWS] ? left : o->dim[DIM_HEAD_PART_ROWS];
}

static void head_part(const op *o, void *const *in, void *const *out)
{
    const op_head_part a = op_head_part_of(o, in, out);
    const real *x = a.x + a.FIRST * a.H;        /* [ROWS][H] */
    const int32_t *labels = a.labels + a.FIRST; /* [ROWS] */
    const int64_t n = rows_there(o);
    for (int64_t i = 0; i < n; i++) {
        real *l = a.logits + i * a.V; /* [V] */
        double top = -INFINITY, sum = 0;
        for (int64_t v = 0; v < a.V; v++) {
            l[v] = (real)logit(x + i * a.H, a.w + v * a.H, a.H);
            if ((double)l[v] > top) top = (double)l[v];
        }
        for (int64_t v = 0; v < a.V; v++) sum += exp((double)l[v] - top);
        int64_t label = labels[i] - a.VFIRST;
        a.stats[i * 3] = (real)top;
        a.stats[i * 3 + 1] = (real)sum;
        a.stats[i * 3 + 2] = label >= 0 && label < a.V ? l[label] : 0;
    }
    clear(a.logits + n * a.V, (a.ROWS - n) * a.V);
    clear(a.stats + n * 3, (a.ROWS - n) * 3);
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
    const op_head_part_d a = op_head_part_d_of(o, in, out);
    const int64_t n = rows_there(o);
    double sum = 0, weights = 0;
    if (o->flags & OVERWRITE) clear(a.dw, a.V * a.H);
    for (int64_t i = 0, t = a.FIRST; i < n; i++, t++) {
        bool known = a.labels[t] >= 0 && a.labels[t] < a.V * a.PARTS;
        double weight = !known ? 0 : a.mask ? (double)a.mask[t] : 1;
        totals all = row_totals(o, a.stats, i);
        row r = {a.x + t * a.H, a.w, a.dx ? a.dx + t * a.H : NULL, a.dw,
                 a.H,           a.V, a.labels[t] - a.VFIRST};
        part_gradient(&r, a.logits + i * a.V, all.lse, weight * a.scale);
        if (weight == 0) continue;
        sum += weight * (all.lse - all.right);
        weights += weight;
    }
    clear(a.logits + n * a.V, (a.ROWS - n) * a.V);
    a.loss[0] = (real)((double)a.loss[0] + sum);
    a.loss[1] = (real)((double)a.loss[1] + weights);
}

static const kernel loss_rows[] = {
    {OP_HEAD_LOSS, "plain", .run = head_loss},
    {OP_HEAD_PART, "plain", .run = head_part},
    {OP_HEAD_PART_D, "plain", .run = head_part_d},
    {OP_HEAD_LOGITS, "plain", .run = head_logits},
};

kernel_rows plain_dense_loss(void)
{
    return (kernel_rows){loss_rows, sizeof loss_rows / sizeof loss_rows[0]};
}

/* fast_dense_loss.c - head and loss, a chunk of rows at a time.
 *
 * I1  A chunk's logits are made once, in the workspace, and become their own gradients in place.
 * I2  Losses of rows are kept apart and added in the order of rows, in double.
 *
 * Where the vocabulary is cut over ranks, a chunk is two operations with the ranks' meeting between
 * them: logits are then a buffer of the program, and a row's loss follows from what the ranks have
 * told each other. */
#include "backend/cpu/kernels/fast_dense.h"

#include <math.h>

#include "base/maths.h"
#include "backend/cpu/kernels/blas.h"
#include "op/op_operands.h"

/* The rows of the operation that are in the workspace now. */
typedef struct chunk {
    const op *o;
    const float *x;        /* [n][H] */
    const float *w;        /* [V][H] */
    const int32_t *labels; /* [n] */
    const float *mask;     /* [n], may be missing */
    float *dx;             /* [n][H], may be missing */
    float *dw;             /* [V][H], may be missing */
    bool writes;           /* instead of adding to it */
    float *logits;         /* [n][V] */
    double *losses;        /* [n] */
    int64_t n;
} chunk;

static int64_t chunk_rows(const op *o)
{
    int64_t n_t = o->dim[DIM_HEAD_LOSS_T], rows = o->dim[DIM_HEAD_LOSS_ROWS];
    return rows > 0 && rows < n_t ? rows : n_t;
}

static int64_t logits_bytes(const op *o)
{
    enum { LINE = 64 };
    return round_up(mul_sat(chunk_rows(o), mul_sat(o->dim[DIM_HEAD_LOSS_V], sizeof(float))), LINE);
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

/* The same sum, with the logits left as they are. */
WIDE static double row_exp_sum(const float *l, int64_t n, float top)
{
    enum { PIECE = 1024 };
    double total = 0;
    for (int64_t i = 0; i < n; i += PIECE) {
        const int64_t end = i + PIECE < n ? i + PIECE : n;
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t j = i; j < end; j++) sum += fast_exp(l[j] - top);
        total += (double)sum;
    }
    return total;
}

/* l[n] = by * e^(l - top) */
WIDE static void row_softmax(float *l, int64_t n, float top, float by)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) l[i] = by * fast_exp(l[i] - top);
}

WIDE static void row_scale(float *l, int64_t n, float by)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) l[i] *= by;
}

/* What a row counts for; a label that is no word of the vocabulary counts as masked. */
static float row_weight(const chunk *c, int64_t i)
{
    if (c->labels[i] < 0 || c->labels[i] >= c->o->dim[DIM_HEAD_LOSS_V]) return 0;
    return c->mask ? c->mask[i] : 1;
}

/* The loss of row i; its logits become gradients. */
static double row_loss(const chunk *c, int64_t i)
{
    const int64_t n_v = c->o->dim[DIM_HEAD_LOSS_V];
    float *l = c->logits + i * n_v; /* [V] */
    const float weight = row_weight(c, i);
    if (weight == 0) {
        memset(l, 0, sizeof(float) * (size_t)n_v);
        return 0;
    }
    const float top = row_top(l, n_v), right = l[c->labels[i]];
    const double sum = row_exp(l, n_v, top),
                 scale = (double)weight * c->o->real[REAL_HEAD_LOSS_scale];
    if (c->dx || c->dw) {
        row_scale(l, n_v, (float)(scale / sum));
        l[c->labels[i]] -= (float)scale;
    }
    return (double)weight * (log(sum) + (double)top - (double)right);
}

/* ---- the operation */

static void chunk_run(const chunk *c)
{
    const int64_t h = c->o->dim[DIM_HEAD_LOSS_H], n_v = c->o->dim[DIM_HEAD_LOSS_V];
    const blas_operands logits = blas_forward(c->x, c->w, c->logits, c->n, n_v, h);
    const blas_operands data = blas_data(c->logits, c->w, c->dx, c->n, n_v, h);
    blas_operands weight = blas_weight(c->logits, c->x, c->dw, c->n, n_v, h);
    weight.add = !c->writes;
    blas_gemm(&logits);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < c->n; i++) c->losses[i] = row_loss(c, i); /* I1 */
    if (c->dx) blas_gemm(&data);
    if (c->dw) blas_gemm(&weight);
}

static void fast_head_loss(const op *o, void *const *in, void *const *out)
{
    const op_head_loss a = op_head_loss_of(o, in, out);
    const int64_t rows = chunk_rows(o);
    const float *x = a.x;             /* [T][H] */
    const int32_t *labels = a.labels; /* [T] */
    const float *mask = a.mask;       /* [T], may be missing */
    float *dx = a.dx;                 /* [T][H], may be missing */
    char *room = kernel_workspace(kernel_workspace_bytes(o));
    double sum = 0, weights = 0;
    chunk c = {.o = o, .w = a.w, .dw = a.dw, .logits = (float *)room};
    c.losses = (double *)(room + logits_bytes(o));
    for (int64_t t = 0; t < a.T; t += rows) {
        c.writes = t == 0 && (o->flags & OVERWRITE);
        c.n = a.T - t < rows ? a.T - t : rows;
        c.x = x + t * a.H;
        c.labels = labels + t;
        c.mask = mask ? mask + t : NULL;
        c.dx = dx ? dx + t * a.H : NULL;
        chunk_run(&c);
        for (int64_t i = 0; i < c.n; i++) { /* I2 */
            sum += c.losses[i];
            weights += (double)row_weight(&c, i);
        }
    }
    a.loss[0] = (float)((double)a.loss[0] + sum);
    a.loss[1] = (float)((double)a.loss[1] + weights);
}

/* ---- of a vocabulary that is cut over ranks */

static int64_t rows_there(const op *o)
{
    const int64_t left = o->dim[DIM_HEAD_PART_T] - o->dim[DIM_HEAD_PART_FIRST];
    return left < 0 ? 0 : left < o->dim[DIM_HEAD_PART_ROWS] ? left : o->dim[DIM_HEAD_PART_ROWS];
}

static void fast_head_part(const op *o, void *const *in, void *const *out)
{
    const op_head_part a = op_head_part_of(o, in, out);
    const int64_t n = rows_there(o);
    const float *x = a.x + a.FIRST * a.H;       /* [ROWS][H] */
    const int32_t *labels = a.labels + a.FIRST; /* [ROWS] */
    const blas_operands p = blas_forward(x, a.w, a.logits, n, a.V, a.H);
    blas_gemm(&p);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i++) {
        const float *l = a.logits + i * a.V; /* [V] */
        const int64_t label = labels[i] - a.VFIRST;
        const float top = row_top(l, a.V);
        a.stats[i * 3] = top;
        a.stats[i * 3 + 1] = (float)row_exp_sum(l, a.V, top);
        a.stats[i * 3 + 2] = label >= 0 && label < a.V ? l[label] : 0;
    }
    memset(a.logits + n * a.V, 0, sizeof(float) * (size_t)((a.ROWS - n) * a.V));
    memset(a.stats + n * 3, 0, sizeof(float) * (size_t)((a.ROWS - n) * 3));
}

/* What all ranks together know of a row. */
typedef struct totals {
    float top;
    double sum, right; /* sum of e^(logit - top), the label's logit */
} totals;

static totals row_totals(const op *o, const float *stats /* [PARTS][ROWS][3] */, int64_t i)
{
    const int64_t step = o->dim[DIM_HEAD_PART_D_ROWS] * 3, n_parts = o->dim[DIM_HEAD_PART_D_PARTS];
    const float *s = stats + i * 3; /* [3], PARTS times */
    totals all = {.top = s[0]};
    for (int64_t p = 1; p < n_parts; p++)
        if (s[p * step] > all.top) all.top = s[p * step];
    for (int64_t p = 0; p < n_parts; p++) {
        all.sum += (double)s[p * step + 1] * exp((double)s[p * step] - (double)all.top);
        all.right += (double)s[p * step + 2];
    }
    return all;
}

/* Every rank has as many words, so PARTS * V is the whole vocabulary. */
static float part_weight(const call *c, int64_t t)
{
    const op_head_part_d a = op_head_part_d_of(c->o, c->in, c->out);
    const int32_t label = (a.labels)[t];
    if (label < 0 || label >= a.V * a.PARTS) return 0;
    return a.mask ? a.mask[t] : 1;
}

/* Logits of row i become gradients. */
static void part_gradient(const call *c, int64_t i)
{
    const op_head_part_d a = op_head_part_d_of(c->o, c->in, c->out);
    const op *o = c->o;
    const int64_t t = a.FIRST + i;
    const int64_t label = (a.labels)[t] - a.VFIRST;
    float *l = a.logits + i * a.V; /* [V] */
    const double scale = (double)part_weight(c, t) * a.scale;
    if (scale == 0) {
        memset(l, 0, sizeof(float) * (size_t)a.V);
        return;
    }
    const totals all = row_totals(o, a.stats, i);
    row_softmax(l, a.V, all.top, (float)(scale / all.sum));
    if (label >= 0 && label < a.V) l[label] -= (float)scale;
}

/* The losses of a chunk in the order of rows: I2. */
static void part_loss(const call *c, float *loss /* [2] */)
{
    const op_head_part_d a = op_head_part_d_of(c->o, c->in, c->out);
    const int64_t n = rows_there(c->o);
    double sum = 0, weights = 0;
    for (int64_t i = 0; i < n; i++) {
        const double weight = (double)part_weight(c, a.FIRST + i);
        if (weight == 0) continue;
        const totals all = row_totals(c->o, a.stats, i);
        sum += weight * (log(all.sum) + (double)all.top - all.right);
        weights += weight;
    }
    loss[0] = (float)((double)loss[0] + sum);
    loss[1] = (float)((double)loss[1] + weights);
}

static void fast_head_part_d(const op *o, void *const *in, void *const *out)
{
    const op_head_part_d a = op_head_part_d_of(o, in, out);
    const int64_t n = rows_there(o);
    const float *x = a.x + a.FIRST * a.H; /* [ROWS][H] */
    const call c = {o, in, out};
    part_loss(&c, a.loss);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i++) part_gradient(&c, i); /* I1 */
    memset(a.logits + n * a.V, 0, sizeof(float) * (size_t)((a.ROWS - n) * a.V));
    const blas_operands data =
        blas_data(a.logits, a.w, a.dx ? a.dx + a.FIRST * a.H : NULL, n, a.V, a.H);
    blas_operands weight = blas_weight(a.logits, x, a.dw, n, a.V, a.H);
    weight.add = !(o->flags & OVERWRITE);
    if (a.dx) blas_gemm(&data);
    if (a.dw) blas_gemm(&weight);
}

kernel_rows fast_dense_loss(void)
{
    static const kernel rows[] = {
        {OP_HEAD_LOSS, "openblas", .accepts = library_takes, .run = fast_head_loss},
        {OP_HEAD_PART, "openblas", .accepts = library_takes, .run = fast_head_part},
        {OP_HEAD_PART_D, "openblas", .accepts = library_takes, .run = fast_head_part_d},
    };
    return (kernel_rows){rows, sizeof rows / sizeof rows[0]};
}

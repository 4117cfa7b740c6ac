/* plain_attention.c - row 0 of attention: what the fast rows are measured against.
 *
 * One query or one key at a time, sums in double; scores are made where they are needed and kept
 * nowhere but in a block on the stack. The gradient goes over the scores twice (by query for dq, by
 * key for dk and dv): each sum then has one owner and one order, which is worth more here.
 *
 * I1  Query i sees key j if j <= i and, with a window, i - j < WINDOW.
 * I2  lse is the logarithm of all that a query's weights are divided by, the sink included, so a
 *     weight is exp(score - lse) in both directions.
 * I3  A sink has no value: its gradient is -weight * (do . o), and it adds nothing to o. */
#include <math.h>
#include <stddef.h>

#include "kernels/cpu/real.h"
#include "kernels/cpu/rows.h"

enum { SCORES = 256 }; /* scores held at once */

/* The sizes and tensors of one operation; what a direction does not have is NULL. */
typedef struct attention {
    int64_t b, s, n, g, d, dv, window;
    double scale;
    const real *q;     /* [B*S][N][D] */
    const real *k;     /* [B*S][G][D] */
    const real *v;     /* [B*S][G][DV] */
    const real *sinks; /* [N], or NULL */
    const real *o;     /* [B*S][N][DV] */
    const real *d_o;   /* [B*S][N][DV] */
    const real *lse;   /* [B*S][N] */
} attention;

static void set_sizes(attention *a, const op *o)
{
    a->b = o->dim[0], a->s = o->dim[1], a->n = o->dim[2], a->g = o->dim[3];
    a->d = o->dim[4], a->dv = o->dim[5], a->window = o->dim[6];
    a->scale = o->real[0];
}

static double dot(const real *x, const real *y, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)x[i] * (double)y[i];
    return sum;
}

/* I1: the first key that query i of a sequence sees, one past the last query that sees key j. */
static int64_t first_key(const attention *a, int64_t i)
{
    return a->window > 0 && i >= a->window ? i - a->window + 1 : 0;
}

static int64_t past_query(const attention *a, int64_t j)
{
    return a->window > 0 && a->s - j > a->window ? j + a->window : a->s;
}

/* Query i and key j count from the start of sequence b; h is the query's head. */
static int64_t query_row(const attention *a, int64_t b, int64_t i, int64_t h)
{
    return (b * a->s + i) * a->n + h;
}

static int64_t key_row(const attention *a, int64_t b, int64_t j, int64_t h)
{
    return (b * a->s + j) * a->g + h / (a->n / a->g);
}

static double score(const attention *a, int64_t query, int64_t key)
{
    return a->scale * dot(a->q + query * a->d, a->k + key * a->d, a->d);
}

static double log_sum(const attention *a, int64_t b, int64_t i, int64_t h)
{
    double top = a->sinks ? (double)a->sinks[h] : -INFINITY, sum = a->sinks ? 1 : 0;
    for (int64_t j = first_key(a, i); j <= i; j++) {
        double s = score(a, query_row(a, b, i, h), key_row(a, b, j, h));
        if (s > top) {
            sum = sum * exp(top - s) + 1;
            top = s;
        } else {
            sum += exp(s - top);
        }
    }
    return top + log(sum);
}

static void forward_query(const attention *a, int64_t b, int64_t i, int64_t h, double lse,
                          real *o /* [DV] */)
{
    double weight[SCORES];
    for (int64_t d = 0; d < a->dv; d++) o[d] = 0;
    for (int64_t j = first_key(a, i); j <= i; j += SCORES) {
        int64_t n = i + 1 - j < SCORES ? i + 1 - j : SCORES;
        for (int64_t e = 0; e < n; e++)
            weight[e] = exp(score(a, query_row(a, b, i, h), key_row(a, b, j + e, h)) - lse);
        for (int64_t d = 0; d < a->dv; d++) {
            double sum = (double)o[d];
            for (int64_t e = 0; e < n; e++)
                sum += weight[e] * (double)a->v[key_row(a, b, j + e, h) * a->dv + d];
            o[d] = (real)sum;
        }
    }
}

static void attn(const op *what, void *const *in, void *const *out)
{
    attention a = {.q = in[0], .k = in[1], .v = in[2], .sinks = in[3]};
    set_sizes(&a, what);
    real *o = out[0];   /* [B*S][N][DV] */
    real *lse = out[1]; /* [B*S][N] */
    for (int64_t row = 0; row < a.b * a.s * a.n; row++) {
        int64_t h = row % a.n, i = row / a.n % a.s, b = row / a.n / a.s;
        double l = log_sum(&a, b, i, h);
        forward_query(&a, b, i, h, l, o + row * a.dv);
        lse[row] = (real)l;
    }
}

/* A weight and the gradient by its score, before `scale`. `delta` is do . o of the query. */
static void weigh(const attention *a, int64_t query, int64_t key, double delta, double *p,
                  double *ds)
{
    *p = exp(score(a, query, key) - (double)a->lse[query]);
    *ds = *p * (dot(a->d_o + query * a->dv, a->v + key * a->dv, a->dv) - delta);
}

static double delta_of(const attention *a, int64_t query)
{
    return dot(a->d_o + query * a->dv, a->o + query * a->dv, a->dv);
}

static void backward_query(const attention *a, int64_t b, int64_t i, int64_t h, real *dq /* [D] */)
{
    int64_t query = query_row(a, b, i, h);
    double delta = delta_of(a, query), p, ds[SCORES];
    for (int64_t d = 0; d < a->d; d++) dq[d] = 0;
    for (int64_t j = first_key(a, i); j <= i; j += SCORES) {
        int64_t n = i + 1 - j < SCORES ? i + 1 - j : SCORES;
        for (int64_t e = 0; e < n; e++) weigh(a, query, key_row(a, b, j + e, h), delta, &p, &ds[e]);
        for (int64_t d = 0; d < a->d; d++) {
            double sum = (double)dq[d];
            for (int64_t e = 0; e < n; e++)
                sum += a->scale * ds[e] * (double)a->k[key_row(a, b, j + e, h) * a->d + d];
            dq[d] = (real)sum;
        }
    }
}

/* Adds to dk, dv what the queries of one head give to key j. */
static void backward_key(const attention *a, int64_t b, int64_t j, int64_t h, real *dk /* [D] */,
                         real *dv /* [DV] */)
{
    int64_t key = key_row(a, b, j, h), past = past_query(a, j);
    double p[SCORES], ds[SCORES];
    for (int64_t i = j; i < past; i += SCORES) {
        int64_t n = past - i < SCORES ? past - i : SCORES;
        for (int64_t e = 0; e < n; e++) {
            int64_t query = query_row(a, b, i + e, h);
            weigh(a, query, key, delta_of(a, query), &p[e], &ds[e]);
        }
        for (int64_t d = 0; d < a->d; d++) {
            double sum = (double)dk[d];
            for (int64_t e = 0; e < n; e++)
                sum += a->scale * ds[e] * (double)a->q[query_row(a, b, i + e, h) * a->d + d];
            dk[d] = (real)sum;
        }
        for (int64_t d = 0; d < a->dv; d++) {
            double sum = (double)dv[d];
            for (int64_t e = 0; e < n; e++)
                sum += p[e] * (double)a->d_o[query_row(a, b, i + e, h) * a->dv + d];
            dv[d] = (real)sum;
        }
    }
}

static double sink_gradient(const attention *a, int64_t h)
{
    double sum = 0;
    for (int64_t t = 0; t < a->b * a->s; t++) {
        int64_t query = t * a->n + h;
        sum -= exp((double)a->sinks[h] - (double)a->lse[query]) * delta_of(a, query); /* I3 */
    }
    return sum;
}

static void attn_d(const op *what, void *const *in, void *const *out)
{
    attention a = {
        .d_o = in[0], .q = in[1], .k = in[2], .v = in[3], .o = in[4], .lse = in[5], .sinks = in[6]};
    set_sizes(&a, what);
    real *dq = out[0];     /* [B*S][N][D] */
    real *dk = out[1];     /* [B*S][G][D] */
    real *dv = out[2];     /* [B*S][G][DV] */
    real *dsinks = out[3]; /* [N], or NULL */
    for (int64_t row = 0; row < a.b * a.s * a.n; row++)
        backward_query(&a, row / a.n / a.s, row / a.n % a.s, row % a.n, dq + row * a.d);
    for (int64_t row = 0; row < a.b * a.s * a.g; row++) {
        int64_t heads = a.n / a.g, first = row % a.g * heads;
        for (int64_t d = 0; d < a.d; d++) dk[row * a.d + d] = 0;
        for (int64_t d = 0; d < a.dv; d++) dv[row * a.dv + d] = 0;
        for (int64_t h = first; h < first + heads; h++)
            backward_key(&a, row / a.g / a.s, row / a.g % a.s, h, dk + row * a.d, dv + row * a.dv);
    }
    for (int64_t h = 0; a.sinks && dsinks && h < a.n; h++)
        dsinks[h] = (real)((double)dsinks[h] + sink_gradient(&a, h));
}

kernel_rows plain_attention(void)
{
    static const kernel rows[] = {{OP_ATTN, "plain", NULL, attn},
                                  {OP_ATTN_D, "plain", NULL, attn_d}};
    return (kernel_rows){rows, (int)(sizeof rows / sizeof rows[0])};
}

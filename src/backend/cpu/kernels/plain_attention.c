/* plain_attention.c - row 0 of attention: what the fast rows are measured against.
 *
 * One query or one key at a time, sums in double; scores are made where they are needed and kept
 * nowhere but in a block on the stack. The gradient goes over the scores twice (by query for dq, by
 * key for dk and dv): each sum then has one owner and one order, which is worth more here.
 *
 * I1  A query at position i sees a key at position j if j <= i and, with a window, i - j < WINDOW.
 * I2  lse is the logarithm of all that a query's weights are divided by, the sink included, so a
 *     weight is exp(score - lse) in both directions.
 * I3  A sink has no value: its gradient is -weight * (do . o), and it adds nothing to o.
 * I4  What earlier blocks gave counts as one more key with score lse and value o. A query that has
 *     seen nothing yet has lse minus infinity and o zero. */
#include <math.h>
#include <stddef.h>

#include "backend/cpu/kernels/attention_stretch.h"
#include "backend/cpu/kernels/real.h"
#include "backend/cpu/kernels/rows.h"
#include "op/op_operands.h"

enum { SCORES = 256 }; /* scores held at once */

/* The sizes and tensors of one operation; what a direction does not have is NULL. */
typedef struct attention {
    int64_t b, sq, sk, n, g, d, dv, window; /* ATTN: sq = sk = S */
    int n_stretches;
    stretch queries[STRETCHES_MAX], keys[STRETCHES_MAX];
    double scale;
    bool merges;       /* I4 */
    const real *q;     /* [B*SQ][N][D] */
    const real *k;     /* [B*SK][G][D] */
    const real *v;     /* [B*SK][G][DV] */
    const real *sinks; /* [N], or NULL */
    const real *o;     /* [B*SQ][N][DV] */
    const real *d_o;   /* [B*SQ][N][DV] */
    const real *lse;   /* [B*SQ][N] */
} attention;

static void set_sizes(attention *a, const op *o)
{
    a->b = attention_dim(o, DIM_ATTN_B, DIM_ATTN_BLOCK_B);
    a->sq = attention_dim(o, DIM_ATTN_S, DIM_ATTN_BLOCK_SQ);
    a->sk = attention_dim(o, DIM_ATTN_S, DIM_ATTN_BLOCK_SK);
    a->n = attention_dim(o, DIM_ATTN_N, DIM_ATTN_BLOCK_N);
    a->g = attention_dim(o, DIM_ATTN_G, DIM_ATTN_BLOCK_G);
    a->d = attention_dim(o, DIM_ATTN_D, DIM_ATTN_BLOCK_D);
    a->dv = attention_dim(o, DIM_ATTN_DV, DIM_ATTN_BLOCK_DV);
    a->window = attention_dim(o, DIM_ATTN_WINDOW, DIM_ATTN_BLOCK_WINDOW);
    a->n_stretches = attention_stretches(o, a->queries, a->keys);
    a->scale = o->real[REAL_ATTN_scale];
    a->merges = attention_is_block(o) && o->flags & ACCUMULATE;
}

static double dot(const real *x, const real *y, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)x[i] * (double)y[i];
    return sum;
}

/* Rows of a sample; none where past <= first. */
typedef struct range {
    int64_t first, past;
} range;

/* The rows of a stretch at positions first .. past-1. */
static range rows_between(const stretch *t, int64_t first, int64_t past)
{
    if (first < t->position) first = t->position;
    if (past > t->position + t->n) past = t->position + t->n;
    return (range){t->row + first - t->position, t->row + past - t->position};
}

/* I1: the keys of stretch p that a query sees, and the queries of stretch p that see a key. */
static range keys_seen(const attention *a, int p, int64_t position)
{
    int64_t first = a->window > 0 ? position - a->window + 1 : 0;
    return rows_between(&a->keys[p], first, position + 1);
}

static range queries_seeing(const attention *a, int p, int64_t position)
{
    int64_t past = a->window > 0 ? position + a->window : INT64_MAX;
    return rows_between(&a->queries[p], position, past);
}

static int64_t position_of(const stretch *t, int n, int64_t row)
{
    const stretch *in = n > 1 && row >= t[1].row ? &t[1] : &t[0];
    return in->position + row - in->row;
}

/* Query i and key j are rows of sample b; h is the query's head. */
static int64_t query_row(const attention *a, int64_t b, int64_t i, int64_t h)
{
    return (b * a->sq + i) * a->n + h;
}

static int64_t key_row(const attention *a, int64_t b, int64_t j, int64_t h)
{
    return (b * a->sk + j) * a->g + h / (a->n / a->g);
}

static double score(const attention *a, int64_t query, int64_t key)
{
    return a->scale * dot(a->q + query * a->d, a->k + key * a->d, a->d);
}

/* `start` is a score that counts besides, minus infinity: none. */
static double log_sum(const attention *a, int64_t b, int64_t i, int64_t h, double start)
{
    const int64_t position = position_of(a->queries, a->n_stretches, i);
    double top = start, sum = start == -INFINITY ? 0 : 1;
    for (int p = 0; p < a->n_stretches; p++) {
        range keys = keys_seen(a, p, position);
        for (int64_t j = keys.first; j < keys.past; j++) {
            double s = score(a, query_row(a, b, i, h), key_row(a, b, j, h));
            if (s > top) {
                sum = sum * exp(top - s) + 1;
                top = s;
            } else {
                sum += exp(s - top);
            }
        }
    }
    return top + log(sum);
}

/* Token t of sample b, as head h of the queries sees it. */
typedef struct spot {
    int64_t b, t, h;
} spot;

/* Adds to o the values of the keys in a range, for the query at `at`. */
static void forward_range(const attention *a, spot at, range keys, double lse, real *o /* [DV] */)
{
    const int64_t b = at.b, i = at.t, h = at.h;
    double weight[SCORES];
    for (int64_t j = keys.first; j < keys.past; j += SCORES) {
        int64_t n = keys.past - j < SCORES ? keys.past - j : SCORES;
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
    const op_attn x = op_attn_of(what, in, out); /* an ATTN_BLOCK's operands stand alike */
    attention a = {.q = x.q, .k = x.k, .v = x.v};
    set_sizes(&a, what);
    if (!attention_is_block(what)) a.sinks = x.sinks;
    real *o = x.o, *lse = x.lse;
    for (int64_t row = 0; row < a.b * a.sq * a.n; row++) {
        int64_t h = row % a.n, i = row / a.n % a.sq, b = row / a.n / a.sq;
        double old = a.merges ? (double)lse[row] : -INFINITY; /* I4 */
        double l = log_sum(&a, b, i, h, a.sinks ? (double)a.sinks[h] : old);
        double keep = old == -INFINITY ? 0 : exp(old - l);
        for (int64_t d = 0; d < a.dv; d++)
            o[row * a.dv + d] = a.merges ? (real)(keep * (double)o[row * a.dv + d]) : 0;
        for (int p = 0; p < a.n_stretches; p++) {
            range keys = keys_seen(&a, p, position_of(a.queries, a.n_stretches, i));
            forward_range(&a, (spot){b, i, h}, keys, l, o + row * a.dv);
        }
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

/* Adds to dq what the keys in a range give to query i. */
static void backward_query(const attention *a, int64_t b, int64_t i, int64_t h, range keys,
                           real *dq /* [D] */)
{
    int64_t query = query_row(a, b, i, h);
    double delta = delta_of(a, query), p, ds[SCORES];
    for (int64_t j = keys.first; j < keys.past; j += SCORES) {
        int64_t n = keys.past - j < SCORES ? keys.past - j : SCORES;
        for (int64_t e = 0; e < n; e++) weigh(a, query, key_row(a, b, j + e, h), delta, &p, &ds[e]);
        for (int64_t d = 0; d < a->d; d++) {
            double sum = (double)dq[d];
            for (int64_t e = 0; e < n; e++)
                sum += a->scale * ds[e] * (double)a->k[key_row(a, b, j + e, h) * a->d + d];
            dq[d] = (real)sum;
        }
    }
}

/* Adds to dk, dv what the queries of one head in a range give to the key at `at`. */
static void backward_key(const attention *a, spot at, range queries, real *dk /* [D] */,
                         real *dv /* [DV] */)
{
    const int64_t b = at.b, j = at.t, h = at.h;
    int64_t key = key_row(a, b, j, h);
    double p[SCORES], ds[SCORES];
    for (int64_t i = queries.first; i < queries.past; i += SCORES) {
        int64_t n = queries.past - i < SCORES ? queries.past - i : SCORES;
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
    for (int64_t t = 0; t < a->b * a->sq; t++) {
        int64_t query = t * a->n + h;
        sum -= exp((double)a->sinks[h] - (double)a->lse[query]) * delta_of(a, query); /* I3 */
    }
    return sum;
}

static void clear(real *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) x[i] = 0;
}

static void backward_queries(const attention *a, real *dq /* [B*SQ][N][D] */)
{
    for (int64_t row = 0; row < a->b * a->sq * a->n; row++) {
        int64_t h = row % a->n, i = row / a->n % a->sq, b = row / a->n / a->sq;
        int64_t position = position_of(a->queries, a->n_stretches, i);
        if (!a->merges) clear(dq + row * a->d, a->d);
        for (int p = 0; p < a->n_stretches; p++)
            backward_query(a, b, i, h, keys_seen(a, p, position), dq + row * a->d);
    }
}

static void backward_keys(const attention *a, bool add, real *dk /* [B*SK][G][D] */,
                          real *dv /* [B*SK][G][DV] */)
{
    const int64_t heads = a->n / a->g;
    for (int64_t row = 0; row < a->b * a->sk * a->g; row++) {
        int64_t j = row / a->g % a->sk, b = row / a->g / a->sk, first = row % a->g * heads;
        int64_t position = position_of(a->keys, a->n_stretches, j);
        if (!add) clear(dk + row * a->d, a->d), clear(dv + row * a->dv, a->dv);
        for (int64_t h = first; h < first + heads; h++)
            for (int p = 0; p < a->n_stretches; p++)
                backward_key(a, (spot){b, j, h}, queries_seeing(a, p, position), dk + row * a->d,
                             dv + row * a->dv);
    }
}

static void attn_d(const op *what, void *const *in, void *const *out)
{
    const op_attn_d x = op_attn_d_of(what, in, out);
    attention a = {.d_o = x.do_, .q = x.q, .k = x.k, .v = x.v, .o = x.o, .lse = x.lse};
    set_sizes(&a, what);
    backward_queries(&a, x.dq);
    backward_keys(&a, attention_is_block(what) && what->flags & ADD_KV, x.dk, x.dv);
    if (attention_is_block(what)) return;
    a.sinks = x.sinks;
    real *dsinks = x.dsinks;
    for (int64_t h = 0; a.sinks && dsinks && h < a.n; h++)
        dsinks[h] = (real)((double)dsinks[h] + sink_gradient(&a, h));
}

kernel_rows plain_attention(void)
{
    static const kernel rows[] = {{OP_ATTN, "plain", .run = attn},
                                  {OP_ATTN_D, "plain", .run = attn_d},
                                  {OP_ATTN_BLOCK, "plain", .run = attn},
                                  {OP_ATTN_BLOCK_D, "plain", .run = attn_d}};
    return (kernel_rows){rows, (int)(sizeof rows / sizeof rows[0])};
}

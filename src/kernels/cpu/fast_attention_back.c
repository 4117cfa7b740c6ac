/* fast_attention_back.c - the gradient of attention in blocks, in one pass of five products.
 *
 * A pass by queries and one by keys would make scores and their gradients twice: seven products.
 * One pass needs five, but its blocks add to rows of dq (by queries) and of dk and dv (by keys) at
 * once. So the sequence is cut into spans, and the square of query spans by key spans is worked
 * through diagonal by diagonal: the pairs of one diagonal share neither queries nor keys.
 *
 * I1  Within a diagonal every pair owns its rows; between diagonals all threads wait. Every sum has
 *     one order, whatever the number of threads.
 * I2  Spans depend on sizes alone.
 * I3  The first to touch a row writes it: the main diagonal for dq, and in it the block of equal
 *     query and key of a group's first head for dk and dv. Nothing is cleared before.
 * I4  Queries past the end are zeros with lse and delta zero: they add exactly nothing. */
#include "kernels/cpu/fast_attention.h"

#include <math.h>
#include <string.h>

typedef struct scratch {
    _Alignas(64) float qt[HEAD_MAX * QUERIES]; /* [D][QUERIES], times scale and log2(e) */
    float q[QUERIES * HEAD_MAX];               /* [QUERIES][round D], times scale */
    float dot[HEAD_MAX * QUERIES];             /* [DV][QUERIES] */
    float d_o[QUERIES * HEAD_MAX];             /* [QUERIES][round DV] */
    float dqt[HEAD_MAX * QUERIES];             /* [D][QUERIES] */
    float s[KEYS * QUERIES];                   /* [KEYS][QUERIES] */
    float ds[KEYS * QUERIES];                  /* [KEYS][QUERIES] */
    float lse[QUERIES], delta[QUERIES];
} scratch;

/* y[QUERIES][round n] = by * rows of x; zeros around. */
static void copy_rows(const attention_block *at, const float *x, int64_t x_row, int64_t n, float by,
                      float *y)
{
    int64_t y_row = lanes_round(n);
    memset(y, 0, (size_t)(QUERIES * y_row) * sizeof *y);
    for (int64_t i = 0; i < at->n_queries; i++)
        for (int64_t d = 0; d < n; d++) y[i * y_row + d] = by * x[i * x_row + d];
}

static void turn_rows(const attention_block *at, const float *x, int64_t x_row, int64_t n, float by,
                      float *y)
{
    lanes_turn(&(turn){.x = x,
                       .n_rows = at->n_queries,
                       .n_cols = n,
                       .x_row = x_row,
                       .y = y,
                       .y_row = QUERIES,
                       .pad = QUERIES,
                       .by = by});
}

static void begin(const attention *a, const attention_block *at, scratch *w)
{
    int64_t row = (at->batch * a->s + at->query) * a->n + at->head;
    const float *q = a->q + row * a->d, *d_o = a->d_o + row * a->dv, *o = a->o + row * a->dv;
    turn_rows(at, q, a->n * a->d, a->d, (float)(a->scale * LOG2_E), w->qt);
    copy_rows(at, q, a->n * a->d, a->d, (float)a->scale, w->q);
    turn_rows(at, d_o, a->n * a->dv, a->dv, 1, w->dot);
    copy_rows(at, d_o, a->n * a->dv, a->dv, 1, w->d_o);
    memset(w->dqt, 0, (size_t)(a->d * QUERIES) * sizeof w->dqt[0]);
    for (int64_t i = 0; i < QUERIES; i++) {
        bool real = i < at->n_queries; /* I4 */
        int64_t skip = i * a->n * a->dv;
        w->lse[i] = real ? (float)((double)a->lse[row + i * a->n] * LOG2_E) : 0;
        w->delta[i] = real ? a->use->dot(d_o + skip, o + skip, a->dv) : 0;
    }
}

/* Weights into s, gradients by scores into ds; v[n_keys][G DV]. */
static void weigh(const attention *a, const attention_block *at, const float *v, scratch *w)
{
    attention_scores(a, at, w->qt, w->s);
    product p = {.m = at->n_keys, .n = QUERIES, .k = a->dv};
    p.a = v, p.a_row = a->g * a->dv, p.a_col = 1;
    p.b = w->dot, p.b_row = QUERIES;
    p.c = w->ds, p.c_row = QUERIES;
    a->use->product(&p);
    a->use->weigh_d(&(score_block){
        .n_keys = at->n_keys, .s = w->s, .ds = w->ds, .lse = w->lse, .delta = w->delta});
}

/* to[n_keys][n] = or += x[n_keys][QUERIES] y[QUERIES][round n] */
static void give_keys(const attention *a, const attention_block *at, const float *x, const float *y,
                      product to)
{
    to.m = at->n_keys, to.k = QUERIES;
    to.a = x, to.a_row = QUERIES, to.a_col = 1;
    to.b = y, to.b_row = lanes_round(to.n);
    a->use->product(&to);
}

static void take_keys(const attention *a, const attention_block *at, bool first, scratch *w)
{
    const int64_t key = attention_key_row(a, at);
    weigh(a, at, a->v + key * a->dv, w);
    product dv = {.n = a->dv, .c = a->dv_out + key * a->dv, .c_row = a->g * a->dv, .add = !first};
    give_keys(a, at, w->s, w->d_o, dv);
    product dk = {.n = a->d, .c = a->dk + key * a->d, .c_row = a->g * a->d, .add = !first};
    give_keys(a, at, w->ds, w->q, dk);
    product dq = {.m = a->d, .n = QUERIES, .k = at->n_keys, .add = true};
    dq.a = a->k + key * a->d, dq.a_row = 1, dq.a_col = a->g * a->d;
    dq.b = w->ds, dq.b_row = QUERIES;
    dq.c = w->dqt, dq.c_row = QUERIES;
    a->use->product(&dq);
}

static void end(const attention *a, const attention_block *at, bool first, const scratch *w)
{
    int64_t row = (at->batch * a->s + at->query) * a->n + at->head;
    lanes_turn(&(turn){.x = w->dqt,
                       .n_rows = a->d,
                       .n_cols = at->n_queries,
                       .x_row = QUERIES,
                       .y = a->dq + row * a->d,
                       .y_row = a->n * a->d,
                       .by = (float)a->scale,
                       .add = !first}); /* I3 */
}

/* A block of queries of one head against the keys of a span. `first` is the first head of its
 * group, `main` says that the queries are of the same span. */
static void query_block(const attention *a, attention_block at, int64_t first, bool main)
{
    scratch w;
    const int64_t past = at.key + at.n_keys;
    begin(a, &at, &w);
    for (; at.key < past; at.key += KEYS) {
        at.n_keys = past - at.key < KEYS ? past - at.key : KEYS;
        bool fresh = at.query == at.key && at.head == first; /* I3 */
        if (attention_block_seen(a, &at)) take_keys(a, &at, fresh, &w);
    }
    end(a, &at, main, &w);
}

/* A pair of spans for all heads that share keys; `at` has the spans and the first head. */
static void span_pair(const attention *a, attention_block at)
{
    const bool main = at.query == at.key;
    const int64_t past = at.query + at.n_queries, first = at.head, n_heads = a->n / a->g;
    for (; at.query < past; at.query += QUERIES) {
        at.n_queries = past - at.query < QUERIES ? past - at.query : QUERIES;
        if (!attention_block_seen(a, &at)) continue;
        for (at.head = first; at.head < first + n_heads; at.head++) query_block(a, at, first, main);
    }
}

/* I2: long enough that turning queries round is cheap, short enough to share out. */
static int64_t span_length(const attention *a)
{
    enum { SHORTEST = 4 * QUERIES, LONGEST = 8 * QUERIES, PARTS = 8 };
    int64_t span = (a->s / PARTS + QUERIES - 1) / QUERIES * QUERIES;
    return span < SHORTEST ? SHORTEST : span > LONGEST ? LONGEST : span;
}

static void diagonal(const attention *a, int64_t span, int64_t n_spans, int64_t apart)
{
    int64_t n_groups = a->b * a->g;
#pragma omp parallel for schedule(dynamic)
    for (int64_t task = 0; task < (n_spans - apart) * n_groups; task++) {
        int64_t group = task % n_groups, key = task / n_groups * span, query = key + apart * span;
        attention_block at = {.batch = group / a->g, .head = group % a->g * (a->n / a->g)};
        at.query = query, at.n_queries = a->s - query < span ? a->s - query : span;
        at.key = key, at.n_keys = a->s - key < span ? a->s - key : span;
        span_pair(a, at);
    }
}

static void add_dsinks(const attention *a, float *dsinks /* [N] */)
{
#pragma omp parallel for
    for (int64_t h = 0; h < a->n; h++) {
        double sum = 0;
        for (int64_t row = h; row < a->b * a->s * a->n; row += a->n) {
            float delta = a->use->dot(a->d_o + row * a->dv, a->o + row * a->dv, a->dv);
            sum -= exp((double)a->sinks[h] - (double)a->lse[row]) * (double)delta;
        }
        dsinks[h] += (float)sum;
    }
}

void fast_attention_back(const op *what, void *const *in, void *const *out)
{
    attention a = {.d_o = in[0], .q = in[1], .k = in[2], .v = in[3], .o = in[4], .lse = in[5]};
    a.sinks = in[6], a.dq = out[0], a.dk = out[1], a.dv_out = out[2];
    attention_sizes(&a, what);
    const int64_t span = span_length(&a), n_spans = (a.s + span - 1) / span;
    for (int64_t apart = 0; apart < n_spans; apart++) {
        if (a.window > 0 && apart * span >= a.window + span - 1) break; /* all out of sight */
        diagonal(&a, span, n_spans, apart);                             /* I1 */
    }
    if (a.sinks && out[3]) add_dsinks(&a, out[3]);
}

/* fast_attention_back.c - the gradient of attention in blocks, in one pass of five GEMMs.
 *
 * A pass by queries and one by keys would make scores and their gradients twice: seven GEMMs.
 * One pass needs five, but its blocks add to rows of dq (by queries) and of dk and dv (by keys) at
 * once. So the stretches are cut into spans, and the square of query spans by key spans is worked
 * through diagonal by diagonal, round and round: the pairs of one diagonal share neither queries
 * nor keys.
 *
 * I1  Within a diagonal every pair owns its rows; between diagonals all threads wait. Every sum has
 *     one order, whatever the number of threads.
 * I2  Spans depend on sizes alone.
 * I3  Of a whole sequence (ATTN_D), the first to touch a row writes it: the main diagonal for dq,
 *     and in it the block of equal query and key of a group's first head for dk and dv. Nothing is
 *     cleared before. Where tokens are in stretches nobody is known to be first: what is not added
 *     to is cleared.
 * I4  Queries past the end are zeros with lse and delta zero: they add exactly nothing. So does a
 *     query that sees nothing, whose lse is minus infinity: zero stands in for it. */
#include "backend/cpu/kernels/fast_attention.h"

#include <math.h>
#include <string.h>

#include "op/op_operands.h"

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
    lanes_transpose(&(transposition){.x = x,
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
    int64_t row = attention_query_row(a, at);
    const float *q = a->q + row * a->d, *d_o = a->d_o + row * a->dv, *o = a->o + row * a->dv;
    turn_rows(at, q, a->n * a->d, a->d, (float)(a->scale * LOG2_E), w->qt);
    copy_rows(at, q, a->n * a->d, a->d, (float)a->scale, w->q);
    turn_rows(at, d_o, a->n * a->dv, a->dv, 1, w->dot);
    copy_rows(at, d_o, a->n * a->dv, a->dv, 1, w->d_o);
    memset(w->dqt, 0, (size_t)(a->d * QUERIES) * sizeof w->dqt[0]);
    for (int64_t i = 0; i < QUERIES; i++) {
        bool real = i < at->n_queries; /* I4 */
        int64_t skip = i * a->n * a->dv;
        float lse = real ? a->lse[row + i * a->n] : 0;
        w->lse[i] = lse == -INFINITY ? 0 : (float)((double)lse * LOG2_E);
        w->delta[i] = real ? a->use->dot(d_o + skip, o + skip, a->dv) : 0;
    }
}

/* Weights into s, gradients by scores into ds; v[n_keys][G DV]. */
static void weigh(const attention *a, const attention_block *at, const float *v, scratch *w)
{
    attention_scores(a, at, w->qt, w->s);
    gemm p = {.m = at->n_keys, .n = QUERIES, .k = a->dv};
    p.a = v, p.a_row = a->g * a->dv, p.a_col = 1;
    p.b = w->dot, p.b_row = QUERIES;
    p.c = w->ds, p.c_row = QUERIES;
    a->use->gemm(&p);
    a->use->weigh_d(&(score_block){
        .n_keys = at->n_keys, .s = w->s, .ds = w->ds, .lse = w->lse, .delta = w->delta});
}

/* to[n_keys][n] = or += x[n_keys][QUERIES] y[QUERIES][round n] */
static void give_keys(const attention *a, const attention_block *at, const float *x, const float *y,
                      gemm to)
{
    to.m = at->n_keys, to.k = QUERIES;
    to.a = x, to.a_row = QUERIES, to.a_col = 1;
    to.b = y, to.b_row = lanes_round(to.n);
    a->use->gemm(&to);
}

static void take_keys(const attention *a, const attention_block *at, bool first, scratch *w)
{
    const int64_t key = attention_key_row(a, at);
    weigh(a, at, a->v + key * a->dv, w);
    gemm dv = {.n = a->dv, .c = a->dv_out + key * a->dv, .c_row = a->g * a->dv, .add = !first};
    give_keys(a, at, w->s, w->d_o, dv);
    gemm dk = {.n = a->d, .c = a->dk + key * a->d, .c_row = a->g * a->d, .add = !first};
    give_keys(a, at, w->ds, w->q, dk);
    gemm dq = {.m = a->d, .n = QUERIES, .k = at->n_keys, .add = true};
    dq.a = a->k + key * a->d, dq.a_row = 1, dq.a_col = a->g * a->d;
    dq.b = w->ds, dq.b_row = QUERIES;
    dq.c = w->dqt, dq.c_row = QUERIES;
    a->use->gemm(&dq);
}

static void end(const attention *a, const attention_block *at, bool first, const scratch *w)
{
    int64_t row = attention_query_row(a, at);
    lanes_transpose(&(transposition){.x = w->dqt,
                                     .n_rows = a->d,
                                     .n_cols = at->n_queries,
                                     .x_row = QUERIES,
                                     .y = a->dq + row * a->d,
                                     .y_row = a->n * a->d,
                                     .by = (float)a->scale,
                                     .add = !first}); /* I3 */
}

/* A block of queries of one head against the keys of a span. `first` is the first head of its
 * group, or -1 where nobody writes (I3); `main` says that the queries are of the same span. */
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
    const bool whole = a->n_stretches == 1, main = whole && at.query == at.key; /* I3 */
    const int64_t past = at.query + at.n_queries, head = at.head, n_heads = a->n / a->g;
    for (; at.query < past; at.query += QUERIES) {
        at.n_queries = past - at.query < QUERIES ? past - at.query : QUERIES;
        if (!attention_block_seen(a, &at)) continue;
        for (at.head = head; at.head < head + n_heads; at.head++)
            query_block(a, at, whole ? head : -1, main);
    }
}

/* ---- spans and diagonals */

typedef struct spans {
    int64_t length;            /* of a span, the last of a stretch apart */
    int64_t queries, keys;     /* spans of a stretch */
    int64_t n_queries, n_keys; /* spans of all */
    int64_t n;                 /* the side of the square */
} spans;

/* I2: long enough that turning queries round is cheap, short enough to share out. */
static spans cut(const attention *a)
{
    enum { SHORTEST = 4 * QUERIES, LONGEST = 8 * QUERIES, PARTS = 8 };
    int64_t span = (a->sq / PARTS + QUERIES - 1) / QUERIES * QUERIES;
    spans c = {.length = span < SHORTEST ? SHORTEST : span > LONGEST ? LONGEST : span};
    c.queries = (a->queries[0].n + c.length - 1) / c.length;
    c.keys = (a->keys[0].n + c.length - 1) / c.length;
    c.n_queries = c.queries * a->n_stretches, c.n_keys = c.keys * a->n_stretches;
    c.n = c.n_queries > c.n_keys ? c.n_queries : c.n_keys;
    return c;
}

/* Pair `i` of a diagonal; false: there is none, or its queries see none of its keys. */
static bool pair_at(const attention *a, const spans *c, int64_t apart, int64_t i,
                    attention_block *at)
{
    const int64_t key = i, query = (i + apart) % c->n;
    if (key >= c->n_keys || query >= c->n_queries) return false;
    const stretch *q = &a->queries[query / c->queries], *k = &a->keys[key / c->keys];
    const int64_t q_skip = query % c->queries * c->length, k_skip = key % c->keys * c->length;
    at->query = q->row + q_skip, at->key = k->row + k_skip, at->ahead = attention_ahead(q, k);
    at->n_queries = q->n - q_skip < c->length ? q->n - q_skip : c->length;
    at->n_keys = k->n - k_skip < c->length ? k->n - k_skip : c->length;
    return attention_block_seen(a, at);
}

static void diagonal(const attention *a, const spans *c, int64_t apart)
{
    const int64_t n_groups = a->b * a->g;
#pragma omp parallel for schedule(dynamic)
    for (int64_t task = 0; task < c->n * n_groups; task++) {
        int64_t group = task % n_groups;
        attention_block at = {.batch = group / a->g, .head = group % a->g * (a->n / a->g)};
        if (pair_at(a, c, apart, task / n_groups, &at)) span_pair(a, at);
    }
}

static bool diagonal_is_seen(const attention *a, const spans *c, int64_t apart)
{
    attention_block at;
    for (int64_t i = 0; i < c->n; i++)
        if (pair_at(a, c, apart, i, &at)) return true;
    return false;
}

static void clear(float *x, int64_t n)
{
    enum { PIECE = 1 << 14 };
#pragma omp parallel for
    for (int64_t i = 0; i < n; i += PIECE)
        memset(x + i, 0, (size_t)(n - i < PIECE ? n - i : PIECE) * sizeof *x);
}

/* I3 */
static void clear_what_is_written(const attention *a, bool adds_keys)
{
    const int64_t n_keys = a->b * a->sk * a->g;
    if (!a->merges) clear(a->dq, a->b * a->sq * a->n * a->d);
    if (adds_keys) return;
    clear(a->dk, n_keys * a->d);
    clear(a->dv_out, n_keys * a->dv);
}

static void add_dsinks(const attention *a, float *dsinks /* [N] */)
{
#pragma omp parallel for
    for (int64_t h = 0; h < a->n; h++) {
        double sum = 0;
        for (int64_t row = h; row < a->b * a->sq * a->n; row += a->n) {
            float delta = a->use->dot(a->d_o + row * a->dv, a->o + row * a->dv, a->dv);
            sum -= exp((double)a->sinks[h] - (double)a->lse[row]) * (double)delta;
        }
        dsinks[h] += (float)sum;
    }
}

void fast_attention_back(const op *what, void *const *in, void *const *out)
{
    const op_attn_d x = op_attn_d_of(what, in, out);
    attention a = {
        .d_o = x.do_, .q = x.q, .k = x.k, .v = x.v, .o = in[IN_ATTN_D_o], .lse = in[IN_ATTN_D_lse]};
    const bool block = attention_is_block(what);
    a.dq = x.dq, a.dk = x.dk, a.dv_out = x.dv;
    attention_sizes(&a, what);
    if (block) clear_what_is_written(&a, what->flags & ADD_KV);
    const spans c = cut(&a);
    for (int64_t apart = 0; apart < c.n; apart++)
        if (diagonal_is_seen(&a, &c, apart)) diagonal(&a, &c, apart); /* I1 */
    if (block) return;
    a.sinks = x.sinks;
    if (a.sinks && x.dsinks) add_dsinks(&a, x.dsinks);
}

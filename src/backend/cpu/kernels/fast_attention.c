/* fast_attention.c - attention in blocks: no S x S buffer, all work in GEMMs of small matrices.
 *
 * A block of 64 queries of one head goes over the keys once, 64 at a time, and keeps for each query
 * the largest score so far, and under that score the sum of weights and the output; a larger score
 * shrinks what was summed before (the online softmax of flash attention).
 *
 * I1  Blocks that no query sees are never touched: causal attention does half the work, a window of
 *     W about W / S of it.
 * I2  A task owns its rows of o and lse and goes over keys in ascending order: same bits for any
 *     number of threads. Blocks of one task go together, so that keys are fetched once for both.
 * I3  Scores are in units of ln 2 from the start (log2(e) is part of the scaled query), since 2^x
 *     is cheaper than e^x.
 * I4  "Nothing seen yet" is a finite score: infinity less infinity is not a number.
 * I5  What earlier blocks gave is where a query starts from: lse is the largest score so far, with
 *     weight 1 and o its value. A query that has seen nothing has lse minus infinity. */
#include "backend/cpu/kernels/fast_attention.h"

#include <math.h>

#include "backend/cpu/kernels/rows.h"
#include "op/op_operands.h"

enum { TOGETHER = 2 }; /* blocks of a task: I2 */

#define NOTHING_SEEN -1e30f /* I4 */

void attention_sizes(attention *a, const op *o)
{
    a->use = lanes_best();
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

static bool accepts(const op *o, const op_types *t)
{
    (void)t;
    attention a;
    attention_sizes(&a, o);
    return a.d <= HEAD_MAX && a.dv <= HEAD_MAX;
}

int64_t attention_ahead(const stretch *queries, const stretch *keys)
{
    return (queries->position - queries->row) - (keys->position - keys->row);
}

bool attention_block_seen(const attention *a, const attention_block *at)
{
    int64_t query = at->query + at->ahead, last_query = query + at->n_queries - 1;
    int64_t last_key = at->key + at->n_keys - 1;
    return at->key <= last_query && (a->window <= 0 || query - last_key < a->window);
}

static bool seen_whole(const attention *a, const attention_block *at)
{
    int64_t query = at->query + at->ahead, last_query = query + at->n_queries - 1;
    int64_t last_key = at->key + at->n_keys - 1;
    return last_key <= query && (a->window <= 0 || last_query - at->key < a->window);
}

static void hide(const attention *a, const attention_block *at, float *s /* [n_keys][QUERIES] */)
{
    for (int64_t j = 0; j < at->n_keys; j++, s += QUERIES) {
        int64_t first =
            at->key + j - at->query - at->ahead; /* the first query that has the key behind it */
        int64_t past = a->window > 0 ? first + a->window : QUERIES;
        for (int64_t i = 0; i < first && i < QUERIES; i++) s[i] = -INFINITY;
        for (int64_t i = past > 0 ? past : 0; i < QUERIES; i++) s[i] = -INFINITY;
    }
}

int64_t attention_query_row(const attention *a, const attention_block *at)
{
    return (at->batch * a->sq + at->query) * a->n + at->head;
}

int64_t attention_key_row(const attention *a, const attention_block *at)
{
    return (at->batch * a->sk + at->key) * a->g + at->head / (a->n / a->g);
}

void attention_scores(const attention *a, const attention_block *at,
                      const float *qt /* [D][QUERIES] */, float *s /* [n_keys][QUERIES] */)
{
    gemm p = {.m = at->n_keys, .n = QUERIES, .k = a->d};
    p.a = a->k + attention_key_row(a, at) * a->d, p.a_row = a->g * a->d, p.a_col = 1;
    p.b = qt, p.b_row = QUERIES;
    p.c = s, p.c_row = QUERIES;
    a->use->gemm(&p);
    if (!seen_whole(a, at)) hide(a, at, s);
}

/* A block of queries on its way over the keys. */
typedef struct passage {
    attention_block at;
    _Alignas(64) float qt[HEAD_MAX * QUERIES]; /* [D][QUERIES] */
    float ot[HEAD_MAX * QUERIES];              /* [DV][QUERIES] */
    float top[QUERIES], sum[QUERIES], shrink[QUERIES];
} passage;

/* The scores and outputs that a block of queries starts from: I5. */
static void start_merging(const attention *a, passage *w)
{
    const int64_t row = attention_query_row(a, &w->at);
    for (int64_t i = 0; i < w->at.n_queries; i++) {
        float lse = a->lse[row + i * a->n];
        if (lse == -INFINITY) continue;
        w->top[i] = (float)((double)lse * LOG2_E);
        w->sum[i] = 1;
    }
    lanes_transpose(&(transposition){.x = a->o + row * a->dv,
                                     .n_rows = w->at.n_queries,
                                     .n_cols = a->dv,
                                     .x_row = a->n * a->dv,
                                     .y = w->ot,
                                     .y_row = QUERIES,
                                     .pad = QUERIES,
                                     .by = 1});
}

static void begin(const attention *a, passage *w)
{
    lanes_transpose(&(transposition){.x = a->q + attention_query_row(a, &w->at) * a->d,
                                     .n_rows = w->at.n_queries,
                                     .n_cols = a->d,
                                     .x_row = a->n * a->d,
                                     .y = w->qt,
                                     .y_row = QUERIES,
                                     .pad = QUERIES,
                                     .by = (float)(a->scale * LOG2_E)}); /* I3 */
    for (int64_t i = 0; i < QUERIES; i++) {
        w->top[i] = a->sinks ? (float)((double)a->sinks[w->at.head] * LOG2_E) : NOTHING_SEEN;
        w->sum[i] = a->sinks ? 1.0f : 0.0f;
    }
    if (a->merges)
        start_merging(a, w);
    else
        for (int64_t i = 0; i < a->dv * QUERIES; i++) w->ot[i] = 0;
}

static void take_keys(const attention *a, passage *w)
{
    float s[KEYS * QUERIES]; /* [n_keys][QUERIES] */
    attention_scores(a, &w->at, w->qt, s);
    a->use->weigh(&(score_block){
        .n_keys = w->at.n_keys, .s = s, .top = w->top, .sum = w->sum, .shrink = w->shrink});
    a->use->scale_columns(w->ot, a->dv, w->shrink);
    gemm p = {.m = a->dv, .n = QUERIES, .k = w->at.n_keys, .add = true};
    p.a = a->v + attention_key_row(a, &w->at) * a->dv, p.a_row = 1, p.a_col = a->g * a->dv;
    p.b = s, p.b_row = QUERIES;
    p.c = w->ot, p.c_row = QUERIES;
    a->use->gemm(&p);
}

static void end(const attention *a, passage *w)
{
    const int64_t row = attention_query_row(a, &w->at);
    for (int64_t i = 0; i < w->at.n_queries; i++) {
        a->lse[row + i * a->n] = (float)(((double)w->top[i] + log2((double)w->sum[i])) / LOG2_E);
        w->shrink[i] = w->sum[i] == 0 ? 0 : 1 / w->sum[i]; /* I5 */
    }
    a->use->scale_columns(w->ot, a->dv, w->shrink);
    lanes_transpose(&(transposition){.x = w->ot,
                                     .n_rows = a->dv,
                                     .n_cols = w->at.n_queries,
                                     .x_row = QUERIES,
                                     .y = a->o + row * a->dv,
                                     .y_row = a->n * a->dv,
                                     .by = 1});
}

/* The keys of a stretch for n blocks of queries. */
static void take_stretch(const attention *a, const stretch *queries, const stretch *keys,
                         passage *w, int n)
{
    const int64_t past = keys->row + keys->n;
    for (int i = 0; i < n; i++) w[i].at.ahead = attention_ahead(queries, keys);
    const attention_block *last = &w[n - 1].at;
    const int64_t seen = last->query + last->n_queries + last->ahead; /* rows that the last sees */
    for (int64_t key = keys->row; key < past && key < seen; key += KEYS) /* I2 */
        for (int i = 0; i < n; i++) {
            w[i].at.key = key;
            w[i].at.n_keys = past - key < KEYS ? past - key : KEYS;
            if (attention_block_seen(a, &w[i].at)) take_keys(a, &w[i]); /* I1 */
        }
}

/* Is there any key for n queries of a stretch? */
static bool sees_any(const attention *a, const stretch *queries, int64_t query, int64_t n)
{
    attention_block at = {.query = query, .n_queries = n};
    for (int p = 0; p < a->n_stretches; p++) {
        at.key = a->keys[p].row, at.n_keys = a->keys[p].n;
        at.ahead = attention_ahead(queries, &a->keys[p]);
        if (attention_block_seen(a, &at)) return true;
    }
    return false;
}

/* Up to TOGETHER blocks of queries of a stretch, from row `query` on. */
static void task(const attention *a, int64_t head, const stretch *queries, int64_t query)
{
    passage w[TOGETHER];
    const int64_t end_row = queries->row + queries->n, each = TOGETHER * QUERIES;
    const int64_t past = end_row - query < each ? end_row : query + each;
    if (a->merges && !sees_any(a, queries, query, past - query)) return; /* nothing new */
    int n = 0;
    for (; query < past; n++, query += QUERIES) {
        w[n].at = (attention_block){.batch = head / a->n, .head = head % a->n, .query = query};
        w[n].at.n_queries = past - query < QUERIES ? past - query : QUERIES;
        begin(a, &w[n]);
    }
    for (int p = 0; p < a->n_stretches; p++) take_stretch(a, queries, &a->keys[p], w, n);
    for (int i = 0; i < n; i++) end(a, &w[i]);
}

static void forward(const op *what, void *const *in, void *const *out)
{
    const op_attn x = op_attn_of(what, in, out);
    attention a = {.q = x.q, .k = x.k, .v = x.v, .o = x.o, .lse = x.lse};
    attention_sizes(&a, what);
    if (!attention_is_block(what)) a.sinks = x.sinks;
    const int64_t each = TOGETHER * QUERIES, n_heads = a.b * a.n;
    const int64_t parts = (a.queries[0].n + each - 1) / each, n_parts = a.n_stretches * parts;
    /* The last queries see most: they go first, so that no thread is left with a long task. */
#pragma omp parallel for schedule(dynamic)
    for (int64_t i = 0; i < n_parts * n_heads; i++) {
        int64_t part = n_parts - 1 - i / n_heads;
        const stretch *queries = &a.queries[part / parts];
        task(&a, i % n_heads, queries, queries->row + part % parts * each);
    }
}

kernel_rows fast_attention(void)
{
    static const kernel rows[] = {
        {OP_ATTN, "blocks", .accepts = accepts, .run = forward},
        {OP_ATTN_D, "blocks", .accepts = accepts, .run = fast_attention_back},
        {OP_ATTN_BLOCK, "blocks", .accepts = accepts, .run = forward},
        {OP_ATTN_BLOCK_D, "blocks", .accepts = accepts, .run = fast_attention_back}};
    return (kernel_rows){rows, (int)(sizeof rows / sizeof rows[0])};
}

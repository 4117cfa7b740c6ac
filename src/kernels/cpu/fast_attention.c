/* fast_attention.c - attention in blocks: no S x S buffer, all work in products of small matrices.
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
 * I4  "Nothing seen yet" is a finite score: infinity less infinity is not a number. */
#include "kernels/cpu/fast_attention.h"

#include <math.h>

#include "kernels/cpu/rows.h"

enum { TOGETHER = 2 }; /* blocks of a task: I2 */

#define NOTHING_SEEN -1e30f /* I4 */

void attention_sizes(attention *a, const op *o)
{
    a->use = lanes_best();
    a->b = o->dim[0], a->s = o->dim[1], a->n = o->dim[2], a->g = o->dim[3];
    a->d = o->dim[4], a->dv = o->dim[5], a->window = o->dim[6];
    a->scale = o->real[0];
}

static bool accepts(const op *o)
{
    return o->dim[4] <= HEAD_MAX && o->dim[5] <= HEAD_MAX;
}

bool attention_block_seen(const attention *a, const attention_block *at)
{
    int64_t last_query = at->query + at->n_queries - 1, last_key = at->key + at->n_keys - 1;
    return at->key <= last_query && (a->window <= 0 || at->query - last_key < a->window);
}

static bool seen_whole(const attention *a, const attention_block *at)
{
    int64_t last_query = at->query + at->n_queries - 1, last_key = at->key + at->n_keys - 1;
    return last_key <= at->query && (a->window <= 0 || last_query - at->key < a->window);
}

static void hide(const attention *a, const attention_block *at, float *s /* [n_keys][QUERIES] */)
{
    for (int64_t j = 0; j < at->n_keys; j++, s += QUERIES) {
        int64_t first = at->key + j - at->query; /* the first query that has the key behind it */
        int64_t past = a->window > 0 ? first + a->window : QUERIES;
        for (int64_t i = 0; i < first && i < QUERIES; i++) s[i] = -INFINITY;
        for (int64_t i = past > 0 ? past : 0; i < QUERIES; i++) s[i] = -INFINITY;
    }
}

int64_t attention_key_row(const attention *a, const attention_block *at)
{
    return (at->batch * a->s + at->key) * a->g + at->head / (a->n / a->g);
}

void attention_scores(const attention *a, const attention_block *at,
                      const float *qt /* [D][QUERIES] */, float *s /* [n_keys][QUERIES] */)
{
    product p = {.m = at->n_keys, .n = QUERIES, .k = a->d};
    p.a = a->k + attention_key_row(a, at) * a->d, p.a_row = a->g * a->d, p.a_col = 1;
    p.b = qt, p.b_row = QUERIES;
    p.c = s, p.c_row = QUERIES;
    a->use->product(&p);
    if (!seen_whole(a, at)) hide(a, at, s);
}

/* A block of queries on its way over the keys. */
typedef struct passage {
    attention_block at;
    _Alignas(64) float qt[HEAD_MAX * QUERIES]; /* [D][QUERIES] */
    float ot[HEAD_MAX * QUERIES];              /* [DV][QUERIES] */
    float top[QUERIES], sum[QUERIES], shrink[QUERIES];
} passage;

static int64_t first_row(const attention *a, const attention_block *at)
{
    return (at->batch * a->s + at->query) * a->n + at->head;
}

static void begin(const attention *a, passage *w)
{
    lanes_turn(&(turn){.x = a->q + first_row(a, &w->at) * a->d,
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
    for (int64_t i = 0; i < a->dv * QUERIES; i++) w->ot[i] = 0;
}

static void take_keys(const attention *a, passage *w)
{
    float s[KEYS * QUERIES]; /* [n_keys][QUERIES] */
    attention_scores(a, &w->at, w->qt, s);
    a->use->weigh(&(score_block){
        .n_keys = w->at.n_keys, .s = s, .top = w->top, .sum = w->sum, .shrink = w->shrink});
    a->use->scale_columns(w->ot, a->dv, w->shrink);
    product p = {.m = a->dv, .n = QUERIES, .k = w->at.n_keys, .add = true};
    p.a = a->v + attention_key_row(a, &w->at) * a->dv, p.a_row = 1, p.a_col = a->g * a->dv;
    p.b = s, p.b_row = QUERIES;
    p.c = w->ot, p.c_row = QUERIES;
    a->use->product(&p);
}

static void end(const attention *a, passage *w, float *o /* [B*S][N][DV] */,
                float *lse /* [B*S][N] */)
{
    const int64_t row = first_row(a, &w->at);
    for (int64_t i = 0; i < w->at.n_queries; i++) {
        lse[row + i * a->n] = (float)(((double)w->top[i] + log2((double)w->sum[i])) / LOG2_E);
        w->shrink[i] = 1 / w->sum[i];
    }
    a->use->scale_columns(w->ot, a->dv, w->shrink);
    lanes_turn(&(turn){.x = w->ot,
                       .n_rows = a->dv,
                       .n_cols = w->at.n_queries,
                       .x_row = QUERIES,
                       .y = o + row * a->dv,
                       .y_row = a->n * a->dv,
                       .by = 1});
}

/* Up to TOGETHER blocks of queries from `query` on. */
static void task(const attention *a, int64_t head, int64_t query, float *o /* [B*S][N][DV] */,
                 float *lse /* [B*S][N] */)
{
    passage w[TOGETHER];
    int n = 0;
    for (; n < TOGETHER && query < a->s; n++, query += QUERIES) {
        w[n].at = (attention_block){.batch = head / a->n, .head = head % a->n, .query = query};
        w[n].at.n_queries = a->s - query < QUERIES ? a->s - query : QUERIES;
        begin(a, &w[n]);
    }
    for (int64_t key = 0; key < query && key < a->s; key += KEYS) /* I2 */
        for (int i = 0; i < n; i++) {
            w[i].at.key = key;
            w[i].at.n_keys = a->s - key < KEYS ? a->s - key : KEYS;
            if (attention_block_seen(a, &w[i].at)) take_keys(a, &w[i]); /* I1 */
        }
    for (int i = 0; i < n; i++) end(a, &w[i], o, lse);
}

static void forward(const op *what, void *const *in, void *const *out)
{
    attention a = {.q = in[0], .k = in[1], .v = in[2], .sinks = in[3]};
    attention_sizes(&a, what);
    const int64_t each = TOGETHER * QUERIES, n_heads = a.b * a.n;
    const int64_t n_parts = (a.s + each - 1) / each;
    /* The last queries see most: they go first, so that no thread is left with a long task. */
#pragma omp parallel for schedule(dynamic)
    for (int64_t i = 0; i < n_parts * n_heads; i++)
        task(&a, i % n_heads, (n_parts - 1 - i / n_heads) * each, out[0], out[1]);
}

kernel_rows fast_attention(void)
{
    static const kernel rows[] = {{OP_ATTN, "blocks", accepts, forward},
                                  {OP_ATTN_D, "blocks", accepts, fast_attention_back}};
    return (kernel_rows){rows, (int)(sizeof rows / sizeof rows[0])};
}

/* fast_attention.h - what the forward and the gradient of fast attention share. */
#ifndef BACKEND_CPU_KERNELS_FAST_ATTENTION_H
#define BACKEND_CPU_KERNELS_FAST_ATTENTION_H

#include "backend/cpu/kernels/attention_stretch.h"
#include "backend/cpu/kernels/fast_attention_lanes.h"
#include "backend/kernels/kernels.h"

/* Blocks of 64 queries by 64 keys. Scratch lies on the stack of each thread (at most 400 KiB),
 * hence the largest head. */
enum { QUERIES = LANES_BLOCK, KEYS = 64, HEAD_MAX = 256 };

#define LOG2_E 1.44269504088896340736

typedef struct attention {
    const lanes *use;
    int64_t b, sq, sk, n, g, d, dv, window; /* ATTN: sq = sk = S */
    int n_stretches;
    stretch queries[STRETCHES_MAX], keys[STRETCHES_MAX];
    double scale;
    bool merges;        /* adds to what is there: o and lse, or dq */
    const float *q;     /* [B*SQ][N][D] */
    const float *k;     /* [B*SK][G][D] */
    const float *v;     /* [B*SK][G][DV] */
    const float *sinks; /* [N], or NULL */
    float *o;           /* [B*SQ][N][DV] */
    float *lse;         /* [B*SQ][N] */
    const float *d_o;   /* [B*SQ][N][DV]; the gradient's, as all below */
    float *dq;          /* [B*SQ][N][D] */
    float *dk;          /* [B*SK][G][D] */
    float *dv_out;      /* [B*SK][G][DV] */
} attention;

/* Up to QUERIES queries of one head against up to KEYS keys, by their rows in the sample. A query
 * stands `ahead` further on than the key in the row of the same number. */
typedef struct attention_block {
    int64_t batch, head, query, n_queries, key, n_keys, ahead;
} attention_block;

void attention_sizes(attention *a, const op *o);

/* What `ahead` is between two stretches. */
int64_t attention_ahead(const stretch *queries, const stretch *keys);

/* Does any query of the block see any key? */
bool attention_block_seen(const attention *a, const attention_block *at);

/* The block's first query in q and o, in rows of [B*SQ][N], and its first key in k and v, in rows
 * of [B*SK][G]. */
int64_t attention_query_row(const attention *a, const attention_block *at);
int64_t attention_key_row(const attention *a, const attention_block *at);

/* s[n_keys][QUERIES] = scores of a block in units of ln 2, minus infinity where a query does not
 * see the key. qt[D][QUERIES] are the queries turned round, times scale and log2(e). */
void attention_scores(const attention *a, const attention_block *at, const float *qt, float *s);

/* ATTN_D and ATTN_BLOCK_D (fast_attention_back.c). */
void fast_attention_back(const op *o, void *const *in, void *const *out);

#endif

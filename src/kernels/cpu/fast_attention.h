/* fast_attention.h - what the forward and the gradient of fast attention share. */
#ifndef KERNELS_CPU_FAST_ATTENTION_H
#define KERNELS_CPU_FAST_ATTENTION_H

#include "kernels/cpu/fast_attention_lanes.h"
#include "kernels/kernels.h"

/* Blocks of 64 queries by 64 keys. Scratch lies on the stack of each thread (at most 400 KiB),
 * hence the largest head. */
enum { QUERIES = LANES_BLOCK, KEYS = 64, HEAD_MAX = 256 };

#define LOG2_E 1.44269504088896340736

typedef struct attention {
    const lanes *use;
    int64_t b, s, n, g, d, dv, window;
    double scale;
    const float *q;     /* [B*S][N][D] */
    const float *k;     /* [B*S][G][D] */
    const float *v;     /* [B*S][G][DV] */
    const float *sinks; /* [N], or NULL */
    const float *o;     /* [B*S][N][DV]; the gradient's, as all below */
    const float *d_o;   /* [B*S][N][DV] */
    const float *lse;   /* [B*S][N] */
    float *dq;          /* [B*S][N][D] */
    float *dk;          /* [B*S][G][D] */
    float *dv_out;      /* [B*S][G][DV] */
} attention;

/* Up to QUERIES queries of one head against up to KEYS keys, counted from the sequence's start. */
typedef struct attention_block {
    int64_t batch, head, query, n_queries, key, n_keys;
} attention_block;

void attention_sizes(attention *a, const op *o);

/* Does any query of the block see any key? */
bool attention_block_seen(const attention *a, const attention_block *at);

/* The block's first key in k and v, counted in rows of [B*S][G]. */
int64_t attention_key_row(const attention *a, const attention_block *at);

/* s[n_keys][QUERIES] = scores of a block in units of ln 2, minus infinity where a query does not
 * see the key. qt[D][QUERIES] are the queries turned round, times scale and log2(e). */
void attention_scores(const attention *a, const attention_block *at, const float *qt, float *s);

/* ATTN_D (fast_attention_back.c). */
void fast_attention_back(const op *o, void *const *in, void *const *out);

#endif

/* attention_stretch.h - where the tokens of attention stand in the sequence.
 *
 * Tokens of a sample are stretches of consecutive positions: one for ATTN, which has the whole
 * sequence, two for a block of a sequence that is cut over ranks (ATTN_BLOCK). All of attention is
 * then rectangles, a stretch of queries by a stretch of keys, with one distance between positions
 * and row numbers in each. */
#ifndef BACKEND_CPU_KERNELS_ATTENTION_STRETCH_H
#define BACKEND_CPU_KERNELS_ATTENTION_STRETCH_H

#include <stdbool.h>

#include "op/op.h"

enum { STRETCHES_MAX = 2 };

typedef struct stretch {
    int64_t row, n;   /* rows of a sample: row .. row+n-1 */
    int64_t position; /* of the first */
} stretch;

static inline bool attention_is_block(const op *o)
{
    return o->kind == OP_ATTN_BLOCK || o->kind == OP_ATTN_BLOCK_D;
}

/* A size that whole sequences and blocks have at different positions. */
static inline int64_t attention_dim(const op *o, int of_whole, int of_block)
{
    return o->dim[attention_is_block(o) ? of_block : of_whole];
}

/* The stretches of an operation; how many there are on each side. */
static inline int attention_stretches(const op *o, stretch *queries, stretch *keys)
{
    if (!attention_is_block(o)) {
        queries[0] = keys[0] = (stretch){0, o->dim[DIM_ATTN_S], 0};
        return 1;
    }
    const int64_t sq = o->dim[DIM_ATTN_BLOCK_SQ] / 2, sk = o->dim[DIM_ATTN_BLOCK_SK] / 2;
    queries[0] = (stretch){0, sq, o->dim[DIM_ATTN_BLOCK_QA]};
    queries[1] = (stretch){sq, sq, o->dim[DIM_ATTN_BLOCK_QB]};
    keys[0] = (stretch){0, sk, o->dim[DIM_ATTN_BLOCK_KA]};
    keys[1] = (stretch){sk, sk, o->dim[DIM_ATTN_BLOCK_KB]};
    return 2;
}

#endif

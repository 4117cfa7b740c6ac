/* offload.h - fine-grained activation offload: which saved buffers wait on the host. */
#ifndef IR_MEMORY_OFFLOAD_H
#define IR_MEMORY_OFFLOAD_H

#include "ir/segment.h"

typedef struct offload_options {
    unsigned names; /* OFF_ bits of model.offload_modules; 0: no offload */
    int64_t least;  /* elements; smaller buffers stay */
} offload_options;

offload_options offload_options_of(const job *j);

/* Does this buffer go to the host, as long as it is saved? */
bool offload_takes(const offload_options *o, const buf *b);

/* The name of a block's input: that of its norm, or with GQA of the GEMM the norm is fused with.
 * Linear attention has none, and only experts have their norm apart from the GEMM behind it. */
static inline unsigned offload_of_block(const model_block *b)
{
    if (b->kind == BLOCK_ATTENTION) return b->attention.mla ? OFF_ATTN_NORM : OFF_QKV;
    return b->kind == BLOCK_MOE ? OFF_MLP_NORM : 0;
}

/* Of a layer's input, which its first block reads; a module's own comes before the layer. */
static inline unsigned offload_of_input(const model *m, int64_t layer)
{
    const layer_kind *l = model_layer(m, layer);
    return offload_of_block(l->block[l->block[0]->kind == BLOCK_MTP]);
}

/* Does a layer's input of T tokens wait on the host? */
bool offload_takes_input(const setup *s, int64_t layer, int64_t T);

/* Moves what is named to the host, between forward and backward; after segment_recompute, before
 * segment_fit. */
void segment_offload(segment *seg, const offload_options *o, arena *a);

#endif

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

/* The name of a layer's input: that of its norm, or with GQA of the GEMM the norm is fused
 * with. Linear attention has none. */
static inline unsigned offload_of_input(const model *m, int64_t layer)
{
    if (model_layer_is(m, layer, LAYER_LINEAR)) return 0;
    return m->mla ? OFF_ATTN_NORM : OFF_QKV;
}

/* Of the hidden state behind attention: only a layer of experts has its norm apart. */
static inline unsigned offload_of_hidden(const model *m, int64_t layer)
{
    return model_layer_is(m, layer, LAYER_MOE) ? OFF_MLP_NORM : 0;
}

/* Does a layer's input of T tokens wait on the host? */
bool offload_takes_input(const setup *s, int64_t layer, int64_t T);

/* Moves what is named to the host, between forward and backward; after segment_recompute, before
 * segment_fit. */
void segment_offload(segment *seg, const offload_options *o, arena *a);

#endif

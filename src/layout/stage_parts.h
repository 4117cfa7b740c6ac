/* stage_parts.h - which weights a stage holds, in the order of its gradient buffers.
 *
 * That is the reverse of the network, as Megatron registers and reverses them: embedding, layers,
 * final norm, prediction modules, head, backwards. */
#ifndef LAYOUT_STAGE_PARTS_H
#define LAYOUT_STAGE_PARTS_H

#include "layout/buffer.h"
#include "layout/layout.h"
#include "layout/pipeline.h"
#include "model/params.h"

typedef enum part_rows {
    ROWS_ALL,
    ROWS_MATRIX,  /* of the head: the matrix */
    ROWS_VECTORS, /* of the head: the final norm */
    ROWS_WORDS,   /* of the embedding: its first row, the table of words */
    ROWS_OTHER,   /* of the embedding: the others */
} part_rows;

typedef struct stage_part {
    const model_block *block;
    part_rows rows;
    int64_t layer; /* 0 for embedding and head */
    bool alone;    /* each weight in a bucket of its own: copies are kept equal across stages */
} stage_part;

/* Is the decoder's last layer there, which may have the final norm behind it? */
static inline bool stage_ends_layers(const model *m, const stage *s)
{
    return s->n_layers > 0 && s->first_layer + s->n_layers == m->n_layers;
}

/* Do they hold the same weights, but for which layers' they are? */
bool stages_alike(const model *m, const stage *a, const stage *b);

/* Calls `see` for each; rows of a part are to be taken from the last to the first. */
void stage_parts(const model *m, const stage *st, int64_t pp,
                 void (*see)(void *with, const stage_part *p), void *with);

/* Is a row of the part's block among the part's rows? `first`: it is the block's first row. */
bool stage_part_has(const stage_part *p, const param *row, bool first);

/* Over how many ranks the optimizer of dense (0) and expert (1) weights is sharded, and an empty
 * gradient buffer of each. */
int64_t optimizer_shards(const job *j, const layout *l, int which);
buffer empty_buffer(const job *j, const layout *l, int which);

/* In which of the two buffers a weight lies. With EP 1 and ETP = TP experts are reduced over the
 * same ranks as the rest, and lie among it. */
static inline int buffer_of(const layout *l, param_class kind)
{
    return kind == PARAM_EXPERT && (l->ep > 1 || l->etp != l->tp);
}

#endif

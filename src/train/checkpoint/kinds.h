/* kinds.h - the arrays of a checkpoint: one row a kind of file; and what of a weight a
 * rank writes and reads. Private to its files. */
#ifndef TRAIN_CHECKPOINT_KINDS_H
#define TRAIN_CHECKPOINT_KINDS_H

#include "train/checkpoint/checkpoint.h"
#include "train/executor/part_map.h"

enum { CHECKPOINT_KINDS = 3 };

typedef struct checkpoint_kind {
    const char *name;
    float *values; /* NULL: not wanted */
    bool moments;  /* of trained weights only, and only those of this rank's slices */
} checkpoint_kind;

static inline checkpoint_kind checkpoint_kind_of(const checkpoint *c, int i)
{
    const checkpoint_kind kinds[CHECKPOINT_KINDS] = {
        {"weights", c->weights, false},
        {"exp_avg", c->exp_avg, true},
        {"exp_avg_sq", c->exp_avg_sq, true},
    };
    return kinds[i];
}

/* A table of the vocabulary: how many rows pad it depends on the layout. */
static inline bool checkpoint_is_table(const param *p)
{
    return p->kind == PARAM_EMBEDDING && p->hf_names[0];
}

static inline bool checkpoint_kind_has(const checkpoint_kind *k, const weight *w)
{
    return w->row->trained || !k->moments;
}

/* Boxes of a weight that lie in the array of a kind. */
typedef struct checkpoint_pieces {
    weight_box box[PART_BOXES_MAX];
    int n;
    int64_t base; /* element `part` of the weight is element base + part of the array */
} checkpoint_pieces;

/* What this rank writes: each element of the model is one rank's. */
void checkpoint_pieces_written(checkpoint_pieces *p, const checkpoint *c, const checkpoint_kind *k,
                               const weight *w);

/* What it reads: all that it holds. */
void checkpoint_pieces_read(checkpoint_pieces *p, const checkpoint *c, const checkpoint_kind *k,
                            const weight *w);

#endif

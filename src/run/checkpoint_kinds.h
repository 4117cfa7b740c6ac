/* checkpoint_kinds.h - the arrays of a checkpoint: one row a kind of file. Private to its files. */
#ifndef RUN_CHECKPOINT_KINDS_H
#define RUN_CHECKPOINT_KINDS_H

#include "run/checkpoint.h"

enum { CHECKPOINT_KINDS = 3 };

typedef struct checkpoint_kind {
    const char *name;
    float *values; /* NULL: not wanted */
    bool trained_only;
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
    return w->row->trained || !k->trained_only;
}

#endif

/* timing.h - where the seconds of a step went, beside where the price expected them.
 *
 * The executor adds up the seconds of each operation by its cost kind, waiting for a message by the
 * message's kind; what a step takes outside of the parts that the price plays (reading data,
 * upload, sums over ranks, the optimizer) is the difference to the whole step. One reading of the
 * clock an operation. */
#ifndef TRAIN_EXECUTOR_TIMING_H
#define TRAIN_EXECUTOR_TIMING_H

#include "backend/comm/comm.h"
#include "predict/price.h"

typedef struct timing {
    double seconds[COST_KINDS]; /* of operations */
    double step;                /* of whole steps */
    double steps;               /* how many */
} timing;

static inline void timing_add(timing *t, cost_kind k, double seconds)
{
    t->seconds[k] += seconds;
}

/* A row of the table: seconds a step. */
typedef struct timing_row {
    const char *name;
    double predicted, measured;
} timing_row;

enum { TIMING_ROWS = COST_KINDS + 2 };

/* Rows that are not zero on both sides, then the optimizer and all else, then the step. Returns how
 * many. */
int timing_rows(timing_row *rows, const timing *t, const price *p, const hardware *hw);

/* What the rank of the slowest stage measured, on every rank. Collective over the world; `c` NULL:
 * alone. */
timing timing_of_slowest(const timing *mine, const price *p, const setup *s, comm *c, arena *a);

#endif

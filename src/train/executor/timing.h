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

/* The description of what a recipe runs on: of cluster.gpu, and for `cpu` what `moefold bench`
 * measured for that many ranks, or for the next fewer: local-4.yaml, ..., local-2.yaml, local.yaml
 * in ./hardware, ~/.config/moefold/hardware or beside the program; else cpu.yaml. */
status timing_machine(hardware *h, const setup *s, arena *a, error *err);

/* moefold.memory_limit: less is usable. timing_machine has done it. */
void timing_limit(hardware *h, const job *j);

/* The description of a GPU by its name or path. For our own program that is what `moefold bench`
 * measured of such a GPU, NAME-measured.yaml in the same folders; where there is none, peaks,
 * memory and links of the GPU as it is sold with what was measured of the kernels on another one of
 * its architecture: an estimate. */
status timing_gpu(hardware *h, const char *name, bool ours, arena *a, error *err);

/* The same for `ranks` of this machine; 0: sets it to the most that were measured, but not more
 * than there are cores. ERR_INPUT: nothing was measured. */
status timing_local(hardware *h, int64_t *ranks, arena *a, error *err);

/* Has `moefold bench` measured the machine that the recipe runs on? */
bool timing_measured(const setup *s, arena *a);

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

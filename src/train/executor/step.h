/* step.h - a step of a program as the host sees it: what it gives, what it launches, what it reads.
 *
 * The host writes the batch, and then a block of rates and flags, into the staging, launches the
 * parts one after another, and reads one report. It touches no memory of the arena in between, and
 * whether an update is made is decided where it is made: by the verdict, in memory. Collective over
 * the world, as running a program is. */
#ifndef TRAIN_EXECUTOR_STEP_H
#define TRAIN_EXECUTOR_STEP_H

#include "op/update.h"
#include "train/executor/executor.h"
#include "train/executor/optimizer.h"

/* Once, before the first step: what the update works on. */
void step_table(executor *e, const program *p, const optimizer *o);

/* What a step may end with. STEP_ONLY: sums and verdict; what is updated, if anything, is left
 * alone. STEP_UPDATES: and the update, and gathers where they are not late. */
typedef enum step_end { STEP_ONLY, STEP_UPDATES } step_end;

/* A step is four calls: batch_load of every microbatch, step_run_begin (all up to the last
 * backward), step_give (rates and flags, as late as a host can give them that does not wait), and
 * step_run_end. */
void step_run_begin(executor *e);
void step_give(executor *e, const double given[GIVEN_COUNT]);
void step_run_end(executor *e, const program *p, step_end end);
void step_run_update(executor *e, const program *p); /* behind a STEP_ONLY */

/* What the last step gave; the same on all ranks but for rows and loads, which are this rank's. */
typedef struct step_report {
    const double *sums;    /* [SUM_COUNT] */
    const double *verdict; /* [VERDICT_COUNT] */
    const float *rows;     /* [layers][2] of routed buffers: wanted, room; NULL: no experts */
    const float *loads;    /* [layers][E]; NULL: no experts */
    int64_t n_layers;
} step_report;
step_report step_report_of(const executor *e, const program *p);

#endif

/* tracing.h - the operations of a run as a trace: `train --trace FILE [--trace-steps A-B]`.
 *
 * The executor stamps operations of the steps that are wanted (executor_times.h); at the end
 * each rank describes its own, in the words of the predicted timeline, and rank 0 gets all of them
 * and writes one file. Nothing is sent while steps run.
 *
 * I1  Without --trace-steps the last two steps are traced. A run does not know when it will be told
 *     to leave, so its second and third step are traced, too, and are what is written where the end
 *     came sooner.
 * I2  A message between stages is numbered by both of its ends from the first traced step on, with
 *     which all ranks begin alike.
 * I3  Ranks of one machine share a clock. Those of others are moved by the median difference at
 *     some barriers.
 * I4  A step leaves start and end of its operations, nothing more: eight ranks on two cores would
 *     describe theirs while others still run the step. */
#ifndef TRAIN_LOOP_TRACING_H
#define TRAIN_LOOP_TRACING_H

#include "base/planted.h"
#include "report/alive.h"
#include "train/executor/executor.h"
#include "predict/trace/trace.h"

typedef struct tracing tracing;

/* Iterations, both included; 0: the last two. */
typedef struct trace_steps {
    int64_t first, last;
} trace_steps;

enum { TRACE_STEPS_MAX = 1000 };

/* "7", "7-9". ERR_INPUT: neither. */
status trace_steps_read(trace_steps *out, const char *word, error *err);

typedef struct tracing_job {
    const char *path; /* of the file */
    trace_steps steps;
    int64_t begun, end; /* iterations before this run's first, and the last it means to do */
    const char *machine;
} tracing_job;

/* Memory comes from `a`. ERR_INPUT: steps that the run does not have. */
status tracing_open(tracing **out, const tracing_job *j, arena *a, error *err);

/* Before the batch of an iteration is read: are its operations stamped? Once more where it is run
 * again. Nothing where tracing is NULL, like all below. */
status tracing_begin(tracing *t, executor *e, int64_t iteration, error *err);

/* It is over; `p` is the program that ran. The clock when its batch was there, and at its end: what
 * this call takes is no part of the step. */
typedef struct step_clock {
    double loaded, ended;
} step_clock;
void tracing_end(tracing *t, executor *e, const program *p, step_clock at);

/* What this rank held in the course of its last traced step, in `n` equal parts; the seconds of
 * that step, 0: none was traced. Before tracing_merge. */
double tracing_alive(const tracing *t, memory_point *out, int64_t n);

/* The trace of all ranks, on rank 0; elsewhere, and where no step was traced, it is empty (n 0).
 * Collective over the world. Lives as long as the arena of tracing_open. */
const trace *tracing_merge(tracing *t, const setup *s, comm *c);

/* Of a test build: which steps are left out, so that traced ones stand between others. */
PLANTED status planted_tracing(bool (**leaves_out)(int64_t iteration), error *err);

#endif

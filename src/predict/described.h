/* described.h - an operation of a program as a trace has it: name, kind, phase, group, microbatch,
 * layer, bytes. The predicted timeline and a run's both say it in these words, so that the two can
 * be compared. */
#ifndef PREDICT_DESCRIBED_H
#define PREDICT_DESCRIBED_H

#include "predict/cost.h"
#include "predict/trace/trace.h"

/* Everything but rank, stream, times and message. `o` NULL: of no operation, then of its item
 * alone. */
trace_op described(const program *p, const item *it, const op *o, cost_kind kind);

/* The pipeline stages' rank that shares all other places with `rank`. */
int64_t described_at_stage(const setup *s, int64_t rank, int64_t pp);

/* "rank 8, pipeline stage 1" */
const char *described_rank(const setup *s, int64_t rank, arena *a);

#endif

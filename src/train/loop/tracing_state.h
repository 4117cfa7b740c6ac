/* tracing_state.h - what tracing.c, tracing_ops.c and tracing_merge.c share. */
#ifndef TRAIN_LOOP_TRACING_STATE_H
#define TRAIN_LOOP_TRACING_STATE_H

#include "train/executor/executor_times.h"
#include "train/loop/tracing.h"

/* How many messages went to or came from a rank with a tag. */
typedef struct message_count {
    int64_t peer, tag, n;
    bool sends;
} message_count;

/* A traced step as the executor saw it: 32 bytes an operation. It is told in words when the run is
 * over (I4). */
typedef struct kept_step {
    const program *p;
    op_times *rows;
    int64_t n;
    double origin, begun; /* clock */
    step_clock at;
} kept_step;

struct tracing {
    tracing_job j;
    arena *a;     /* of the job */
    arena *steps; /* of what is traced now, given back with each window */
    arena_place steps_begin;
    trace own;    /* of this rank; seconds are of this host's clock */
    double begun; /* clock: the first traced step, */
    double ended; /* and the last one's end */
    kept_step *kept;
    int64_t n_steps, kept_room, last;
    bool (*leaves_out)(int64_t iteration); /* as a test build may; NULL in a release */
    bool on;
    double step_begun;
    double compute_end; /* clock: what compute did last */
    message_count *counts;
    int64_t n_counts, counts_room;
    const trace_op **awaited[2]; /* [events] of the list, of the program: what was put last */
    int n_awaited[2];
    trace merged;
};

/* tracing_ops.c: all kept steps as operations of t->own, by this host's clock. */
void tracing_describe(tracing *t);

#endif

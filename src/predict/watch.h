/* watch.h - the interface by which a simulated step reports each operation, for the timeline.
 *
 * A price is a sum; a timeline needs its terms. The simulators (simulate.c, stages.c) tell a
 * watcher of every list, operation and wait in their order, with times from the start of the step.
 * Without a watcher they compute the same sums and report nothing.
 *
 * I1  What is told of the compute stream of a rank has no gap and no overlap from the start of the
 *     step to the end of its last list: operations, waits with a cause, and what is added to both.
 * I2  Times of PART_GATHER follow those of PART_FINISH; the optimizer between is not played. */
#ifndef PREDICT_WATCH_H
#define PREDICT_WATCH_H

#include "predict/cost.h"

typedef enum seen_as {
    SEEN_OP,      /* an operation */
    SEEN_EXPOSED, /* the stream waits for a message or copy of `kind` */
    SEEN_HOST,    /* ... for the host to launch */
    SEEN_BUBBLE,  /* ... for a message that the other stage has not sent yet */
    SEEN_STREAM,  /* a stream beside compute waits for another one */
    SEEN_END,     /* compute is through with a list whose messages still run */
    SEEN_SLOWED,  /* what hidden messages of a list cost compute, at its end */
    SEEN_COUNT
} seen_as;

/* A message between stages: the number-th with this tag that arrives at `to`. */
typedef struct seen_message {
    bool is, sends;   /* else it receives */
    int64_t from, to; /* pipeline ranks */
    int64_t tag, number;
} seen_message;

typedef struct seen_op {
    const program *p;
    item_part part;
    const item *it;
    const op *o; /* a wait: what is waited for, NULL: not known; SEEN_END, SEEN_SLOWED: NULL */
    seen_as as;
    cost_kind kind; /* of an operation, or of what is waited for */
    int lane;       /* of simulation_lane */
    double start, end;
    seen_message message;
} seen_op;

typedef struct seen_item {
    const program *p;
    item_part part;
    const item *it;
    double start, end;
} seen_item;

typedef struct watcher {
    void *to;
    /* A list of computation: are its operations wanted? NULL: always. */
    bool (*item)(void *to, const seen_item *i);
    void (*see)(void *to, const seen_op *s); /* NULL: only items are of interest */
} watcher;

#endif

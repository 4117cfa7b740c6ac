/* lives.h - walks a pipeline rank's schedule and reports which saved activations are live at each
 * moment.
 *
 * I1  The input of an instance lives from the forward of the instance before it, or from the
 *     receive that is posted for it, to its own backward. Everything else that it saves lives from
 *     its forward to its backward.
 * I2  With combined 1F1B the forward of one instance overlaps with the backward of another, so the
 *     activations of both are live at once. The order is that of items.c.
 * I3  What a forward or a backward of a chunk adds does not depend on the microbatch.
 *
 * The memory plan, which has segments, and the search, which has only sizes, both use this walk. */
#ifndef IR_MEMORY_LIVES_H
#define IR_MEMORY_LIVES_H

#include "ir/order.h"
#include "ir/segment.h"

/* An instance of a chunk, messages left out. */
typedef struct slot_bytes {
    int64_t bytes[SAVED_PARTS];
} slot_bytes;

typedef struct slot_row {
    slot_bytes *list;
    segment_kind *kinds; /* [n] */
    int n;
    bool receives; /* its first input comes from another stage */
} slot_row;

/* The chunks of a rank. */
typedef struct slot_rows {
    const slot_row *rows; /* [n_chunks] */
    int64_t n_chunks;
    bool pairs; /* combined 1F1B */
    bool posts; /* receives are posted one unit ahead */
} slot_rows;

/* A part begins or ends to live; only parts that have bytes. */
typedef struct slot_event {
    int64_t chunk, micro, bytes;
    int instance;
    saved_part part;
    bool leaves;
} slot_event;
typedef void slot_sees(void *with, const slot_event *e);

/* Calls `sees` for every part in the order of a step. */
void lives_walk(const slot_rows *s, const step_order *o, slot_sees *sees, void *with);

/* The most bytes that live at once. A search asks it of hundreds of layouts with thousands of
 * microbatches, so each unit of the order is walked once (I3). */
int64_t lives_most(const slot_rows *s, const step_order *o);

#endif

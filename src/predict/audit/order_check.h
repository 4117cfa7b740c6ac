/* order_check.h - are all conflicting accesses of a rank's program in order?
 *
 * Two operations conflict where one writes memory that the other reads or writes. Memory is
 * compared by addresses, so that buffers that share a place, of one list or of two, are seen. How
 * waits were derived (ir/schedule/waits.c) is not looked at.
 *
 * Every stream is a queue that runs in order and knows nothing of the others but what WAITs tell
 * it, the compute stream included: a message that begins before its input is computed is found as
 * surely as an operation that reads what is still on its way. Two steps are replayed, all parts in
 * the order in which they run: so a step is checked against the one before it, too. */
#ifndef PREDICT_AUDIT_ORDER_CHECK_H
#define PREDICT_AUDIT_ORDER_CHECK_H

#include "base/planted.h"
#include "predict/audit/order_map.h"

/* An operation of an item. */
typedef struct order_at {
    const item *it;
    const op *o; /* NULL: none */
} order_at;

typedef struct order_report {
    int64_t compared;  /* accesses with earlier ones of other streams that they conflict with */
    int64_t unordered; /* operations that do not know what they conflict with to be complete */
    /* Messages and copies that the compute stream has not waited for at the end of their list; of
     * events of the program: when the event is taken again, and at the end. */
    int64_t unfinished;
    order_at first[2]; /* the first that are not ordered; [1] none: the first that is not finished;
                        * both none: all is well */
} order_report;

/* Memory comes from `scratch` and is given back. */
void order_check(order_report *out, const order_map *m, arena *scratch);

/* Of a test: is this WAIT taken out, to see whether it is missed? */
PLANTED bool planted_deaf(const op *wait, const item *it);

/* "SEND hidden state (send, forward, microbatch 0) on stream ... and ...": what is wrong, for
 * people; NULL: nothing. */
const char *order_text(const order_report *r, arena *a);

#endif

/* wait_finder.h - which operations of a list an operation must wait for, by the memory they touch.
 *
 * Lists of a program have all buffers in their places (waits.c), those that bounds are played from
 * have every buffer at a place of its own (src/plan): both ask here, and say by touches where
 * memory lies. Here a message is any operation that runs beside others: copies to and from the
 * host, too. */
#ifndef IR_SCHEDULE_WAIT_FINDER_H
#define IR_SCHEDULE_WAIT_FINDER_H

#include "base/arena.h"
#include "op/op.h"
#include "ir/schedule/touch.h"

/* The memory that an operation touches; stays in place as long as the finder is used. */
typedef struct touched {
    const touch *list;
    int n;
} touched;

typedef struct wait_finder {
    touched *t;            /* [1 .. n] by event */
    uint64_t *spaces;      /* bits: operations without one in common share no memory */
    unsigned char *stream; /* op_stream */
    int n;
    struct flight {
        int event;
        bool copy;
        bool met; /* another message has waited for it */
    } * flight;   /* [n_flight] messages that the compute stream has not waited for, in order */
    int n_flight;
    uint64_t flight_spaces; /* of all that have been in it */
    bool copies;            /* there are some */
} wait_finder;

/* For a list of `n` operations. */
void wait_finder_init(wait_finder *f, int n, arena *a);

/* The events that the operation's stream must wait for before it, in `events` [n]; returns how
 * many. They count as waited for then, and the operation is event f->n, unless it has one of the
 * program (ACROSS). */
int wait_finder_next(wait_finder *f, const op *o, touched t, int *events);

/* The messages that the compute stream must still wait for at the end of the list. */
int wait_finder_left(const wait_finder *f, int *events);

#endif

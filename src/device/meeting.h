/* meeting.h - one message of a stream: its members meet, each moves its share, they meet again.
 *
 * Each member moves what it receives. Of a sum it adds a part of its own, in the order of places,
 * and writes that part to all who get it. Nothing is taken beside the buffers of the operation. */
#ifndef DEVICE_MEETING_H
#define DEVICE_MEETING_H

#include "device/issue.h"

/* Where an operation's data lies on one member. */
typedef struct note {
    int32_t kind, type;
    int64_t n, step;
    device_address x, y;
    int32_t table[4 * PEERS_MAX]; /* of EXCHANGE; else not sent */
} note;

typedef enum meeting_state {
    MEETING_BEGINS,
    MEETING_REACHES, /* the host waits for the stream: counts, or the start on an emulated link */
    MEETING_MEETS,
    MEETING_LEAVES
} meeting_state;

typedef struct meeting {
    meeting_state state;
    int request; /* MEETS, LEAVES */
    const int32_t *table;
    note mine;
    char *all; /* [PEERS_MAX] notes */
} meeting;

/* The operation of a message with its addresses. */
typedef struct meeting_op {
    const op *o;
    void *const *in, *const *out;
    uint32_t number; /* in the log */
} meeting_op;

/* Moves on as far as it can; true: the message has been issued to its end. */
bool meeting_step(device *d, const issue_hooks *h, const device_calls *calls, meeting *m,
                  op_stream s, const meeting_op *x);

#endif

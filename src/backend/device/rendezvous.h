/* rendezvous.h - how the members of a group run one collective: they synchronise, each moves its
 * share of the data, and they synchronise again.
 *
 * Each member copies the data that it receives. For a reduction it sums one part, in the order of
 * group ranks, and writes that part to every member that needs it. No memory is used other than the
 * buffers of the operation. */
#ifndef BACKEND_DEVICE_RENDEZVOUS_H
#define BACKEND_DEVICE_RENDEZVOUS_H

#include "backend/device/issue.h"

/* Where an operation's data lies on one member. */
typedef struct note {
    int32_t kind, type;
    int64_t n, step;
    device_address x, y;
    int32_t table[4 * PEERS_MAX]; /* of EXCHANGE; else not sent */
} note;

typedef enum rendezvous_state {
    MEETING_BEGINS,
    MEETING_COUNTS,  /* the host waits for the table of an exchange */
    MEETING_REACHES, /* the host waits for the stream: staged, or the start on an emulated link */
    MEETING_MEETS,
    MEETING_MOVES, /* staged: the host waits until the share is moved */
    MEETING_LEAVES
} rendezvous_state;

typedef struct rendezvous {
    rendezvous_state state;
    int request; /* MEETS, LEAVES */
    const int32_t *table;
    note mine;
    char *all; /* [PEERS_MAX] notes */
} rendezvous;

/* The operation of a message with its addresses. */
typedef struct rendezvous_op {
    const op *o;
    void *const *in, *const *out;
    uint32_t number; /* in the log */
} rendezvous_op;

/* Is it at a place where the host looks at the device, instead of waiting for a request? */
static inline bool rendezvous_looks(const rendezvous *m)
{
    return m->state == MEETING_COUNTS || m->state == MEETING_REACHES || m->state == MEETING_MOVES;
}

/* Bytes that a member of a group of n sends, as they lie in its memory; of an EXCHANGE, whose table
 * says that when it runs, at most. `t` has the number of its elements. */
int64_t rendezvous_sent(const op *o, const op_types *t, int64_t n);

/* Moves on as far as it can; true: the message has been issued to its end. */
bool rendezvous_step(device *d, const issue_hooks *h, const device_calls *calls, rendezvous *m,
                     op_stream s, const rendezvous_op *x);

#endif

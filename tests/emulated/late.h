/* late.h - streams of a CPU that run by themselves, as a GPU's do: each is a thread of its own that
 * does what it was given some time later, with pauses of random length. For tests of several ranks:
 * what is not ordered by waits goes wrong here sooner or later, in a rank and between ranks.
 *
 * I1  An event knows how many records of it were put, and how many have passed. A wait is for the
 *     last one that was put before it (device.h, D3), whichever rank's event it is.
 * I2  A stream never waits for a host: whoever gives it more than its queue holds waits for it. */
#ifndef TESTS_EMULATED_LATE_H
#define TESTS_EMULATED_LATE_H

#include "backend/device/issue.h"

typedef struct late_event {
    uint64_t put, passed; /* under the lock of late.c */
} late_event;

typedef enum late_kind {
    LATE_WAIT,
    LATE_RECORD,
    LATE_LAUNCH,
    LATE_REPLAY,
    LATE_COPY,
    LATE_SUM,
    LATE_STAMP,
    LATE_END /* of an operation: the log is told */
} late_kind;

typedef struct late_task {
    late_kind kind;
    late_event *event; /* WAIT, RECORD */
    uint64_t record;   /* the same: which one */
    kernel_call call;
    int number; /* REPLAY, STAMP */
    issue_copy copy;
    issue_sum sum;
    void *in[OP_IN_MAX], *out[OP_OUT_MAX];
} late_task;

typedef struct late late;

/* `run` does LAUNCH to END in the stream's thread. NULL: no memory. */
late *late_open(device *d, uint64_t seed, void (*run)(device *d, op_stream s, late_task *t));
void late_close(late *l); /* when everything is done */

void late_put(late *l, op_stream s, const late_task *t);
void late_record(late *l, op_stream s, late_event *e);
void late_wait(late *l, op_stream s, late_event *e);

/* Has the last record that was put passed? The host waits until it has; until a stream is done. */
bool late_is_past(const late_event *e);
void late_until(const late_event *e);
void late_until_stream(late *l, op_stream s);
void late_until_all(late *l);

#endif

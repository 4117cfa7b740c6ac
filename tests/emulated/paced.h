/* paced.h - when streams of a CPU would have come to what they were given, if operations took time
 * there as they do on a GPU: for tests of several ranks.
 *
 * What is issued is computed when the call returns, but counts as done at a later time: an
 * operation begins when it is issued, or behind the one before in its stream, whichever is later,
 * and takes a fixed time. Waits, events and points of messages carry those times from stream to
 * stream and from rank to rank, so the host runs ahead of its streams, and a rank's streams run
 * beside each other, on any machine, however loaded. */
#ifndef TESTS_EMULATED_PACED_H
#define TESTS_EMULATED_PACED_H

#include "backend/device/issue.h"

typedef struct paced {
    double seconds;           /* of an operation; 0: nothing takes time */
    double end[STREAM_COUNT]; /* clock: when all that was issued is done */
    double marks[STREAM_COUNT];
    double points[STREAM_COUNT][GROUP_COUNT][POINT_COUNT];
    double *events; /* [n_events] */
} paced;

status paced_events(paced *p, int n, error *err);
void paced_close(paced *p);

/* Of `n` operations that were issued at `from`, and have been computed. */
void paced_launch(paced *p, op_stream s, double from, int n);
void paced_behind(paced *p, op_stream s, double time); /* the stream waits until then */
bool paced_is_past(double time);
void paced_until(double time); /* the host waits */
void paced_until_all(const paced *p);

#endif

/* touched.h - which bytes a step touches, beside those that were planned.
 *
 * All memory of a program is filled with a pattern before a step; what is not the pattern behind it
 * was touched. A byte that is written as the pattern would be missed, so there are two steps with
 * two patterns, and a byte counts that either of them shows. It is the same on every device: the
 * device compares, and only a bit of each byte comes to the host.
 *
 *     touched_open(&m, e, p, a);
 *     for (int k = 0; k < TOUCHED_PATTERNS; k++) {
 *         touched_fill(&m, k);     then weights, tables and the batch as for any step,
 *         ...                      the step,
 *         touched_mark(&m, k);
 *     }
 *     touched_report r = touched_close(&m, a); */
#ifndef TRAIN_EXECUTOR_TOUCHED_H
#define TRAIN_EXECUTOR_TOUCHED_H

#include "train/executor/executor.h"

enum { TOUCHED_PATTERNS = 2, TOUCHED_GUARD = 1 << 16 };

typedef struct touched {
    executor *e;
    const program *p;
    unsigned char *map; /* a bit of each byte: the arena, the host's pool, the staging */
    int64_t bytes;
    int64_t behind;      /* bytes of the guard that were touched */
    program_range *work; /* [n_work] where operations may have workspace */
    int64_t n_work;
} touched;

typedef struct touched_report {
    int64_t planned, used;             /* bytes of buffers in the arena */
    int64_t host_planned, host_used;   /* in pinned memory of the host */
    int64_t workspace, workspace_used; /* of which operations use what they use */
    int64_t outside;                   /* touched, and of no buffer: gaps, and behind the arena */
    const char *first;                 /* the first byte that is wrong, in words; NULL: none is */
} touched_report;

/* The executor was opened with a guard of TOUCHED_GUARD bytes, and has run nothing of it yet.
 * ERR_MACHINE: no host memory for the map. */
status touched_open(touched *m, executor *e, const program *p, error *err);
void touched_fill(touched *m, int pattern);
void touched_mark(touched *m, int pattern);
touched_report touched_close(touched *m, arena *a);

/* Is all right? `even`: routed buffers were full, and all of every buffer must be touched. */
bool touched_is_right(const touched_report *r, bool even);

#endif

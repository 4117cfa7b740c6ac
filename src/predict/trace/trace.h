/* trace.h - what the operations of some ranks did, and when: predicted by a price or measured by a
 * run, in one form.
 *
 * Files are Chrome's trace events as JSON (docs/TRACE.md), which Perfetto and chrome://tracing
 * show: a rank is a process, a stream a thread of it, an operation or a wait a complete event, a
 * message between stages a flow from its send to its receive.
 *
 * Who makes one: trace_init, then trace_add for each operation, in any order; ranks may be traced
 * apart and joined (trace_join), because a message is named by its ends and its number, which both
 * ends know without talking. Seconds count from the start of what is traced. Texts are not copied
 * and live as long as the trace.
 *
 * I1  On a stream nothing overlaps: an operation or wait starts when the one before it has ended.
 * I2  What is on no operation and no wait is idle: the three add up to the span of the trace. */
#ifndef PREDICT_TRACE_TRACE_H
#define PREDICT_TRACE_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"

typedef enum trace_what {
    TRACE_OPERATION,
    TRACE_WAIT, /* the stream stands still, and `kind` says for what */
} trace_what;

typedef enum trace_end { TRACE_NO_MESSAGE, TRACE_SENDS, TRACE_RECEIVES } trace_end;

typedef struct trace_op {
    trace_what what;
    const char *name;  /* "qkv"; of a wait what is waited for */
    const char *kind;  /* "GEMM", "EP communication": as prices name their kinds */
    const char *phase; /* "forward", ...; NULL: of none */
    const char *group; /* communication: who takes part; NULL: nobody else */
    int64_t rank;
    int stream;           /* of the trace's names */
    int64_t micro, layer; /* -1: of none */
    int64_t bytes;        /* read and written, or carried by a message; -1: not known */
    double start, end;
    double seconds; /* of the whole operation, where the window cut it; else end - start */
    trace_end message;
    int64_t peer, tag, number; /* of a message: the other rank; its number with this tag */
    bool awaits;               /* a wait for the receive with these; not in files */
} trace_op;

typedef struct trace_rank {
    int64_t rank;
    const char *name; /* "rank 8, pipeline stage 1" */
} trace_rank;

typedef struct trace {
    arena *a;
    const char *source; /* "predicted", "measured" */
    const char *recipe, *machine;
    double from;               /* of the step, where the trace begins: 0 for a whole one */
    double span;               /* seconds that it covers */
    double step;               /* seconds of a whole step */
    int64_t steps, first_step; /* of a run: how many it covers, and the first one's iteration; 0: a
                                * prediction, of one step or a window of it */
    trace_rank *ranks;
    int64_t n_ranks, ranks_room;
    const char **streams; /* [n_streams] names, by stream */
    int n_streams;
    trace_op *ops;
    int64_t n, room;
} trace;

void trace_init(trace *t, const char *source, arena *a);
void trace_add_rank(trace *t, int64_t rank, const char *name);
void trace_add(trace *t, trace_op o); /* what has no length is left out */

/* How many steps it covers, in its operations' counts. */
static inline double trace_steps_of(const trace *t)
{
    return t->steps > 0 ? (double)t->steps : 1;
}

/* By rank, stream and start: as files have them. */
void trace_sort(trace *t);

/* Appends the ranks and operations of another trace, whose streams are the same. Its ranks become
 * `rank` + `shift`: 0 for other ranks of one run, and what keeps them apart for two runs. Their
 * names get `prefix` before them. */
void trace_join(trace *to, const trace *from, int64_t shift, const char *prefix);

/* ---- what must be true of it; of a sorted trace */

/* One stream of one rank. */
typedef struct trace_sum {
    int64_t rank;
    int stream;
    int64_t n;
    double operations, waits, idle;
    double overlap; /* seconds against I1: 0 */
    double first, last;
} trace_sum;

/* Every stream that has anything; returns how many. Memory comes from `a`. */
int64_t trace_sums(const trace *t, trace_sum **out, arena *a);

/* Sends without their receive and receives without their send, among ranks of the trace and inside
 * its window; `matched` counts pairs. */
typedef struct trace_matches {
    int64_t matched, lost;
} trace_matches;
trace_matches trace_match(const trace *t, arena *a);

/* ---- files */

enum { TRACE_BYTES_MAX = 512 << 20 };

/* Packed by gzip where the name ends in .gz. Whole or not at all. */
status trace_write(const trace *t, const char *path, error *err);

/* ERR_INPUT: no trace of ours, and why. */
status trace_read(trace *t, const char *path, arena *a, error *err);
status trace_parse(trace *t, const char *path, const char *data, size_t n, arena *a, error *err);

#endif

/* state.h - a communicator from inside; for src/comm only. */
#ifndef COMM_STATE_H
#define COMM_STATE_H

#include <time.h>

#include "base/arena.h"
#include "comm/delay.h"
#include "comm/message.h"

/* How long MPI's start may take, and what a process does after its end: the recipe is not known. */
enum { MPI_SECONDS = 600 };

/* What the watchdog and the signal handler read of a rank. `since` is written last when a wait
 * begins and first when it ends. */
typedef struct comm_watch {
    atomic_llong since; /* nanoseconds; 0: not waiting */
    const char *what, *name;
    comm_group group;
    const char *_Atomic where, *_Atomic detail;
    struct comm *next;
} comm_watch;

struct comm {
    const backend *b;
    void *state;
    const backend *alone; /* for groups of one member */
    void *alone_state;
    int64_t rank, size;
    arena *a;
    const setup *s;
    members groups[GROUP_COUNT];
    unsigned char *level[GROUP_COUNT]; /* [n] of each member's link */
    comm_delay delay;
    double link_free[LEVEL_COUNT]; /* emulated: when what was admitted has passed */
    double timeout;                /* seconds */

    message *messages; /* [COMM_REQUESTS_MAX] */
    int first_free;
    message *oldest, *newest; /* under way */
    double *collected;        /* for sums: [collected_room] */
    int64_t collected_room;

    comm_stats stats;
    comm_watch watch;
};

/* Gives a free message of the table, in its place among those under way; `kind`, `group`, `what`
 * are set, the rest is 0. Too many under way ends the job. */
message *comm_take(comm *c, message_kind kind, comm_group g, const char *what);
void comm_begin(comm *c, message *m);
void comm_finish(comm *c, message *m);

/* traffic.c: levels of links; what a message sends and how long the emulated link takes it. */
void comm_levels(comm *c);
void comm_count(comm *c, message *m);
void comm_admit(comm *c, message *m);

/* watch.c */
void watch_add(comm *c);
void watch_remove(comm *c);
void watch_begin(comm *c, const message *m);
void watch_end(comm *c);
void watch_call(const char *what, double timeout); /* is in it from now on; NULL: in none */
void watch_signals(comm *c); /* this process is this rank, and says so when it is told to end */

/* Seconds: MOEFOLD_TIMEOUT_SECONDS in the environment, or `otherwise`. */
status comm_timeout(double otherwise, double *seconds, error *err);

/* Creates a communicator around a backend's state; board.c, mpi.c. */
comm *comm_make(const backend *b, void *state, int64_t rank, int64_t size);

#endif

/* state.h - a communicator from inside; for src/backend/comm only. */
#ifndef BACKEND_COMM_STATE_H
#define BACKEND_COMM_STATE_H

#include <time.h>

#include "base/arena.h"
#include "base/planted.h"
#include "backend/comm/delay.h"
#include "backend/comm/message.h"

/* How long MPI's start may take, and what a process does after its end: the recipe is not known. */
enum { MPI_SECONDS = 600 };

/* What the watchdog and the signal handler read of a rank. `since` is written last when a wait
 * begins and first when it ends. */
typedef struct comm_watch {
    atomic_llong since; /* nanoseconds; 0: not waiting */
    const char *_Atomic what, *_Atomic name;
    atomic_int group;
    const char *_Atomic where, *_Atomic detail;
    atomic_int work;         /* comm_work */
    atomic_llong work_since; /* nanoseconds: its begin, or the end of the last wait in it */
    struct comm *next;
    bool listed;
    /* Of the device, under the watchdog's lock. */
    comm_device device;
    uint64_t device_progress;
    long long device_since; /* nanoseconds: when it last moved, or had nothing to do */
} comm_watch;

typedef struct plane {
    const backend *b;
    void *state;
} plane;

/* The queue of a stream (streams.c). */
typedef struct comm_stream {
    message *first, *last;
    uint64_t started, passed;      /* messages: numbers of the last ones */
    double passed_at;              /* on an emulated link: when that was complete */
    uint64_t awaits[STREAM_COUNT]; /* of the next message: numbers in other streams; 0: none */
} comm_stream;

struct comm {
    plane control, data;
    plane alone; /* for groups of one member */
    int64_t rank, size, local;
    arena *a;
    const setup *s;
    members groups[GROUP_COUNT];
    unsigned char *level[GROUP_COUNT]; /* [n] of each member's link */
    comm_delay delay;
    double link_free[WAY_COUNT][LEVEL_COUNT]; /* emulated: when what was admitted has passed */
    /* Seconds: of messages; of long work of the host. The watchdog reads them. */
    _Atomic double timeout, host_timeout;

    message *messages; /* [COMM_REQUESTS_MAX] */
    int first_free;
    message *oldest, *newest; /* under way */
    comm_stream streams[STREAM_COUNT];
    int queued;        /* messages that have not begun */
    comm_use open;     /* communicators of data, by group and channel */
    double *collected; /* for sums: [collected_room] */
    int64_t collected_room;

    void (*settle)(void *with); /* see comm_settles */
    void *settle_with;

    comm_stats stats;
    comm_watch watch;
};

/* Gives a free message of the table, in its place among those under way; `kind`, `group`, `what`
 * are set, the rest is 0. Too many under way ends the job. */
message *comm_take(comm *c, message_kind kind, comm_group g, const char *what);
void comm_begin(comm *c, message *m);  /* the backend has it from here on */
bool comm_passed(comm *c, message *m); /* it has begun: is it complete? */
void comm_finish(comm *c, message *m);

/* streams.c */
void stream_put(comm *c, message *m);
void stream_move(comm *c); /* begins what can begin */
void stream_leave(comm *c, message *m);

/* traffic.c: levels of links; what a message sends and how long the emulated link takes it. */
void comm_levels(comm *c);
void comm_count(comm *c, message *m);
void comm_count_as(comm *c, message *m, const message *data); /* what `data` sends is m's */
void comm_admit(comm *c, message *m);

/* What this rank is at. */
static inline comm_work watch_work(comm *c)
{
    return (comm_work)atomic_load_explicit(&c->watch.work, memory_order_acquire);
}

/* watch.c */
void watch_add(comm *c);
void watch_remove(comm *c);
void watch_begin(comm *c, const message *m);
void watch_end(comm *c);
void watch_message(comm *c); /* has one: what the rank does itself counts from here on */
void watch_call(const char *what, double timeout); /* is in it from now on; NULL: in none */
void watch_signals(comm *c); /* this process is this rank, and says so when it is told to end */

/* crash.c: the thread's rank leaves. */
void crash_forget(comm *c);

/* work.c */
typedef struct work_row {
    const char *name;  /* "save" */
    const char *doing; /* "saving a checkpoint" */
    bool shared;
} work_row;
extern const work_row work_rows[WORK_COUNT];
double work_limit(const comm *c, comm_work w);          /* seconds that this rank may be at it */
double work_patience(const comm *c, comm_work w);       /* seconds that it may wait in it */
status work_open(comm *c, error *err);                  /* reads the limit */
long long watch_now(void);                              /* nanoseconds */
PLANTED status planted_slow(const comm *c, error *err); /* of a test build: reads what .. */
PLANTED void planted_work(const comm *c, comm_work w);  /* .. a rank that begins it is to meet */
PLANTED status planted_mpi(int64_t *most, error *err);  /* makes MPI's messages smaller */

/* Seconds: what this variable of the environment says, or `otherwise`, as the knob `key` says. */
status comm_seconds(const char *variable, const char *key, double otherwise, double *seconds,
                    error *err);
/* That of messages: MOEFOLD_TIMEOUT_SECONDS. */
status comm_timeout(double otherwise, double *seconds, error *err);

/* Creates a communicator around a backend's state; shm.c, mpi.c. */
comm *comm_make(const backend *b, void *state, int64_t rank, int64_t size);

#endif

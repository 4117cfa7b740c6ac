/* comm.h - messages between ranks: one interface, three backends.
 *
 * A message is an operation of the program (op/ops_comm.def) on addresses: comm_start puts it
 * into the queue of its stream and returns at once, comm_wait ends it. It begins when the one
 * before it on its stream is complete, and what its stream was told to wait for (comm_stream_wait),
 * as on a GPU's streams. Messages of one group and stream
 * start in the same order on all members: each such pair that is in use has a communicator of its
 * own, and so has the control plane (the small blocking calls), which no queue holds up. Nothing is
 * allocated after comm_streams, other than what a backend's library does for itself.
 *
 *     self     one rank; a message is a copy
 *     threads  ranks are threads of this process: for proofs and tests
 *     mpi      Open MPI, in a shared object beside the program, opened when it is asked for
 *
 * moefold.comm_delay (delay.h) emulates links: a message is complete no sooner than its modelled
 * time after the last of its members has started it, and messages over one link follow each other.
 * Under MPI a sender does not hear of its receive: there the time counts from the send. Clocks are
 * compared between ranks, so all of them have to be on one machine.
 *
 * A rank that waits longer than the timeout, dies, or meets an error ends the job: every rank that
 * still can says where it was (comm_where) and exits with 3. The timeout is
 * dist.distributed_timeout_minutes; MOEFOLD_TIMEOUT_SECONDS in the environment comes before it.
 * MPI's start, the making of groups and MPI's end are watched like messages; its start, at which
 * recipes are not compared yet, may take 10 minutes. Long work of the host (comm_work) has a limit
 * of its own, and the rank that is at it longer than that names itself and what it does. */
#ifndef BACKEND_COMM_COMM_H
#define BACKEND_COMM_COMM_H

#include "base/status.h"
#include "layout/members.h"
#include "op/op.h"

typedef struct comm comm;

enum { COMM_REQUESTS_MAX = 4096 }; /* messages that may be under way at once */

/* ---- opening */

status comm_open_self(comm **out, error *err);

/* n communicators that know each other, one for each thread; out[n]. */
status comm_open_threads(comm **out, int n, error *err);

/* The job that mpirun or srun started this process in. ERR_MACHINE: no MPI here (what is missing is
 * named). Calls MPI_Init; comm_close finalises. */
status comm_open_mpi(comm **out, error *err);

/* Was this process started by mpirun or srun as one of several? Of how many: 0 where it was not,
 * LAUNCHED_UNCOUNTED where nothing says so before MPI is opened. */
enum { LAUNCHED_UNCOUNTED = -1 };
bool comm_launched(void);
int comm_launched_ranks(void);

/* Ends the use. Every rank calls it, with no message under way, or none (a rank that leaves with an
 * error calls comm_abort). */
void comm_close(comm *c);

int64_t comm_rank(const comm *c);
int64_t comm_size(const comm *c);
int64_t comm_local(const comm *c); /* ranks of this one's machine, by MPI's shared-memory split */
int64_t comm_members(const comm *c, comm_group g); /* of this rank's group; after comm_groups */
const members *comm_group_of(const comm *c, comm_group g); /* the same, by rank */
bool comm_is_delayed(const comm *c);     /* moefold.comm_delay is set; after comm_groups */
bool comm_shares_process(const comm *c); /* are the ranks threads of this process? */

/* Makes the groups of this rank; collective. `s` and its layout stay in place until comm_close.
 * Reads moefold.comm_delay, cluster sizes (which link a message takes) and the timeout. Nothing
 * above and below but rank, size, local, where and abort may be called before it. ERR_RULE: the
 * layout has another number of ranks than the job; all ranks see that. It may be called again with
 * another setup while no message is under way: ranks compare their recipes before they trust
 * them. */
status comm_groups(comm *c, const setup *s, error *err);

/* Which groups have messages on which streams. */
typedef struct comm_use {
    bool on[GROUP_COUNT][STREAM_COUNT];
} comm_use;

/* Adds what an operation uses; nothing where it is no message. */
void comm_use_add(comm_use *u, const op *o);

/* Opens the communicators of data; collective over every group that is named, whose members name
 * the same streams. Those that are open stay open until comm_groups is called again. */
void comm_streams(comm *c, const comm_use *use);

/* ---- messages */

/* Can a message of this operation's kind and format be run? Formats are only moved, but for sums:
 * those of FP32, FP64 and INT32 are in their format (FP32 and FP64 under MPI in an order of the
 * library's), those of BF16 and FP16 in FP32, in the order of ranks, rounded once. ERR_MACHINE: it
 * cannot, and the text names operation and format; comm_start ends the job with it. */
status comm_can(const op *o, error *err);

/* Starts an operation with op_is_comm; in[], out[] are the addresses of its buffers (host memory),
 * as ops_comm.def names them; `left` of REDUCE_SCATTER says by being there that y is x's own part.
 * Never waits. Returns a number for comm_wait. `o` may go, what
 * its name points to stays. Groups of one member are done by a copy.
 * Nothing of these is read before the message begins; exchange: the table belongs to it like x and
 * y until it is complete. */
int comm_start(comm *c, const op *o, void *const *in, void *const *out);

/* Is it complete? Moves messages on. */
bool comm_test(comm *c, int request);

/* Ends it; the number is free again. Time spent here counts as exposed on the operation's stream
 * (that of the small calls below: on STREAM_HOST). */
void comm_wait(comm *c, int request);

/* Waits until one of these n > 0 messages is complete and says which: requests[i]. It is not ended
 * yet. Time spent here counts as exposed on the stream of the first. */
int comm_wait_any(comm *c, const int *requests, int n);

/* What is started on `stream` from here on begins only when this message, which may be of another
 * stream, is complete. The host does not wait: messages begin while others are waited for, and in
 * comm_progress. The message is still to be ended by comm_wait, before or after. */
void comm_stream_wait(comm *c, op_stream stream, int request);

/* Gives the library a chance to move messages on: to be called between operations. */
void comm_progress(comm *c);

/* ---- messages whose data a device moves by itself
 *
 * Its members meet twice. First they tell each other where their data lies; when that is complete
 * all of them have come to the message, and on an emulated link as much time has passed as its data
 * would take. Then each moves its share, and they meet again to say that it is moved. A meeting is
 * a message like others: comm_test, comm_wait and comm_wait_any end it. */
typedef struct comm_note {
    bool last;        /* the second meeting */
    size_t bytes;     /* of a note */
    const void *mine; /* stays in place until it is complete, as does `all` */
    void *all;        /* [P][bytes] by place; of SEND and RECV one note: the sender's in the first
                           * meeting, the receiver's in the second */
    const int32_t *table; /* of EXCHANGE, as the host can read it: what is counted */
} comm_note;

int comm_meet(comm *c, const op *o, const comm_note *n);

/* Counts what an operation sends, where nobody meets for it. */
void comm_counts(comm *c, const op *o, const int32_t *table);

/* ---- small, blocking, on host memory: for counters, control and files */

/* Before any of these, on this rank, `settle` is called: who has put work aside (a device, in its
 * streams) begins it there, for another rank may wait for it before it comes to the same call.
 * NULL: nobody has. */
void comm_settles(comm *c, void (*settle)(void *with), void *with);

void comm_barrier(comm *c, comm_group g);
void comm_sum(comm *c, comm_group g, double *values, int n);
void comm_max(comm *c, comm_group g, double *values, int n);
void comm_broadcast(comm *c, comm_group g, int64_t root_place, void *bytes, size_t n);
/* all[P][n] on every member. */
void comm_collect(comm *c, comm_group g, const void *mine, size_t n, void *all);

/* ---- what was sent and what it cost */

typedef enum comm_level {
    LEVEL_SELF,
    LEVEL_NODE,
    LEVEL_DOMAIN,
    LEVEL_ACROSS,
    LEVEL_COUNT
} comm_level;

typedef struct comm_stats {
    /* Bytes that this rank sent to other ranks, by how far they went (inside the node; outside it
     * but inside the NVLink domain; outside both) and by group. What a collective sends is counted
     * by definition, not by the library's algorithm: all-gather N*(P-1), reduce-scatter N*(P-1),
     * all-reduce both for N/P, all-to-all and exchange what goes to each member. The small calls
     * are not counted here. */
    double bytes[GROUP_COUNT][LEVEL_COUNT];
    double exposed[STREAM_COUNT];  /* seconds in comm_wait */
    double messages[STREAM_COUNT]; /* started; the small calls are STREAM_HOST's */
} comm_stats;

const comm_stats *comm_statistics(const comm *c);
void comm_statistics_clear(comm *c);

/* ---- faults */

/* Says where this rank is, for the message of a fault; the text stays in place. Cheap. */
void comm_where(comm *c, const char *what, const char *detail);

/* A device that runs by itself: the watchdog asks it, from its own thread, how many operations are
 * complete and whether others are under way. Where for the timeout of messages none has been
 * completed, the job ends, and `text` names what it was at. NULL: there is none (any more). */
typedef struct comm_device {
    uint64_t (*progress)(const void *with, bool *busy);
    void (*text)(const void *with, char *out, size_t room);
    const void *with;
} comm_device;
void comm_watches(comm *c, const comm_device *w);

/* Long work of the host, between messages. Saving to a slow disk takes as long as it takes: that is
 * no hanging message, and ranks that wait for it are not at fault.
 *
 *     shared  All ranks begin it at about the same place between messages, so whoever waits in it
 *             knows that others may still be at it. The rank that works may take
 *             moefold.host_timeout_minutes from its last message on
 *             (MOEFOLD_HOST_TIMEOUT_SECONDS in the environment comes before it); whoever waits is
 *             patient for that and the timeout of messages besides.
 *     alone   Others do not know of it: they wait as for any message. The rank that works gives up
 *             a little sooner than they do (at nine tenths of their timeout), because it knows the
 *             reason. */
typedef enum comm_work {
    WORK_NONE,
    WORK_START, /* shared: everything before the first step */
    WORK_BUILD, /* shared: the program, anew */
    WORK_LOAD,  /* shared: weights from a checkpoint or from files */
    WORK_SAVE,  /* shared: a checkpoint */
    WORK_READ,  /* alone: data */
    WORK_WRITE, /* alone: metrics and the like */
    WORK_COUNT
} comm_work;

/* Returns what this rank was at before: works nest. Cheap. */
comm_work comm_work_begin(comm *c, comm_work w);
void comm_work_end(comm *c, comm_work before);

/* For the program's own handler of SIGTERM. (Where there is none yet, comm_open_mpi sets one that
 * says where this rank is and exits with 3.) Says where this rank is and no more: a launcher that
 * ends the job for another rank's sake kills it soon, and one that asks it to stop must not cut off
 * a save that others wait for. Safe in a handler; nothing outside a job of MPI. */
void comm_told_to_end(void);

/* A fault of the program itself (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT) is never silent: from
 * here on it prints the rank, what the rank and its device were at, and the calls that led there,
 * and ends the process with 3, or with a core file where `ulimit -c` allows one. Where somebody
 * handles such a signal already (a sanitizer), that stays. */
void comm_crashes(void);

/* This thread runs this rank, until comm_close. Not needed by a process that has one rank only. */
void comm_here(comm *c);

/* Ends the job on all ranks with this exit code after printing `why` with this rank's number. */
void comm_abort(comm *c, int code, const char *why);

#endif

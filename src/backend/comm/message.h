/* message.h - a message under way, and what a backend does with it; inside src/backend/comm only.
 *
 * I1  A message belongs to its rank, lies in that rank's table, and its addresses stay valid until
 *     comm_wait has ended it.
 * I2  A backend sets `done` last, once the data is where it belongs; from then on only the owner
 *     touches the message.
 * I3  A communicator is a pair of a group and a channel: the stream, or of a receive the stream of
 *     its send. Collective messages match by their order in a communicator; a send and a receive by
 *     their order among those of the same two ranks and tag in it.
 * I4  A backend is given the messages of a stream one after another (streams.c), each once the one
 *     before is complete. Those of the control plane (STREAM_HOST) have communicators of their own.
 * I5  What a backend has to remember of a message it keeps by itself, at the message's `index`.
 *
 * The MPI backend is a shared object that calls nothing of the program: it sees the program through
 * these structs alone. */
#ifndef BACKEND_COMM_MESSAGE_H
#define BACKEND_COMM_MESSAGE_H

#include <stdatomic.h>

#include "backend/comm/comm.h"

typedef enum message_kind {
    MESSAGE_GATHER,
    MESSAGE_REDUCE_SCATTER,
    MESSAGE_ALL_REDUCE,
    MESSAGE_ALL_TO_ALL,
    MESSAGE_EXCHANGE,
    MESSAGE_SHIFT,
    MESSAGE_BROADCAST, /* y of the member at place `step` to all */
    MESSAGE_SEND,
    MESSAGE_RECV
} message_kind;

/* Links are open both ways at once. */
typedef enum message_way { WAY_OUT, WAY_IN, WAY_COUNT } message_way;

typedef struct message {
    message_kind kind;
    comm_group group;
    const char *group_name;
    op_stream stream, channel; /* I3 */
    int index;                 /* in its rank's table (I5) */
    const char *what;          /* the operation's kind, for messages to people */
    const char *name;          /* of the operation; may be NULL */

    const char *x;        /* what goes out */
    char *y;              /* what comes in */
    bool in_place;        /* reduce-scatter: y is x's own part, the rest of x may be written */
    const int32_t *table; /* exchange: int32[4][P] */
    int64_t n;            /* elements of a block; exchange: of a row */
    dtype type;           /* of an element; raw bytes are UINT8 */
    int64_t step, tag;

    double started;    /* seconds; when it began on this rank */
    double last_start; /* on the last member to start, as far as the backend can know; with done */
    double ready;      /* emulated link: complete no sooner than this; see `admitted` */
    bool admitted;     /* `ready` has been worked out */
    bool counted;      /* `bytes` is set: a note that stands for data which a device moves */
    double bytes[WAY_COUNT][LEVEL_COUNT]; /* that this rank sends and receives, by level */
    atomic_bool done;

    struct message *before, *after; /* of this rank, in the order of their start */
    struct message *behind;         /* the next of its stream */
    uint64_t number;                /* in its stream, from 1 on; see streams.c */
    uint64_t awaits[STREAM_COUNT];  /* numbers of messages in other streams; 0: none */
    bool begun, left;               /* the backend has it; the next of the stream may begin */
    int next_free;
} message;

/* Bytes of a block. */
static inline size_t message_bytes(const message *m)
{
    return (size_t)dtype_bytes(m->type, m->n);
}

static inline bool message_is_pair(const message *m)
{
    return m->kind == MESSAGE_SEND || m->kind == MESSAGE_RECV;
}

typedef struct backend {
    const char *name;
    /* Collective: communicators of the control plane; those of data are closed. `groups`
     * [GROUP_COUNT] stays in place. With `stamped`, last_start is wanted. */
    status (*groups)(void *state, const members *groups, bool stamped, error *err);
    /* Collective over the groups: opens the communicators of data that are named by group and
     * channel and are not open yet. */
    status (*channels)(void *state, const comm_use *use, error *err);
    void (*start)(void *state, message *m);
    bool (*test)(void *state, message *m); /* moves on; is it done? */
    void (*progress)(void *state);
    /* Rests a little, at most some milliseconds, less where `m` may be done sooner. `tries`: how
     * often it was called for this wait. */
    void (*rest)(void *state, message *m, int tries);
    void (*abort)(void *state, int code); /* does not return */
    void (*close)(void *state);
} backend;

/* The MPI backend as it comes out of its shared object. */
typedef struct mpi_entry {
    const backend *table;
    void *state;
    int64_t rank, size;
    int64_t local; /* ranks of this one's machine */
} mpi_entry;

enum { MPI_ENTRY_VERSION = 8 };

/* Initialises MPI. `version` and `bytes` (of a message) are those of the caller: a shared object of
 * another build is refused. `most`: elements of all members together that one call may have;
 * messages with more are cut. */
typedef status (*mpi_open_function)(int version, size_t bytes, int64_t most, mpi_entry *out,
                                    error *err);
#define MPI_OPEN_NAME "moefold_mpi_open"

#endif

/* message.h - a message under way, and what a backend does with it; inside src/comm only.
 *
 * I1  A message belongs to its rank, lies in that rank's table, and its addresses stay valid until
 *     comm_wait has ended it.
 * I2  A backend sets `done` last, once the data is where it belongs; from then on only the owner
 *     touches the message.
 * I3  Collective messages of a group match by their order; a send and a receive by their order
 *     among those of the same two places and tag.
 *
 * The MPI backend is a shared object that calls nothing of the program: it sees the program through
 * these structs alone. */
#ifndef COMM_MESSAGE_H
#define COMM_MESSAGE_H

#include <stdatomic.h>

#include "comm/comm.h"

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

enum { MESSAGE_REQUESTS = 4 };

typedef struct message {
    message_kind kind;
    comm_group group;
    const char *group_name;
    op_stream stream;
    const char *what; /* the operation's kind, for messages to people */
    const char *name; /* of the operation; may be NULL */

    const char *x;        /* what goes out */
    char *y;              /* what comes in */
    char *scratch;        /* reduce-scatter with y inside x */
    const int32_t *table; /* exchange: int32[4][P] */
    int64_t n;            /* elements of a block; exchange: of a row */
    dtype type;           /* of an element; raw bytes are UINT8 */
    int64_t step, tag;

    double started;    /* seconds; on this rank */
    double last_start; /* on the last member to start, as far as the backend can know; with done */
    double ready;      /* emulated link: complete no sooner than this; see `admitted` */
    bool admitted;     /* `ready` has been worked out */
    double seen[LEVEL_COUNT]; /* bytes sent or received by level, whichever is more */
    atomic_bool done;

    struct message *before, *after; /* of this rank, in the order of their start */
    int next_free;

    /* the board's */
    struct seat *seat;
    int64_t place;
    uint64_t sequence;
    int64_t arrived;      /* of the first to arrive: how many have */
    struct message *with; /* others of the same meeting */
    struct message *next; /* in the room's lists */

    /* the library's */
    void *request[MESSAGE_REQUESTS];
    void **more; /* [n_more]: requests of a message that was cut */
    int n_more;
    int32_t *heard; /* [P] rows that others say they send, of an exchange that is checked */
    void *memory;   /* of a sum that the library does not make */
    struct message *summing; /* the next of those that others' blocks are still missing of */
} message;

/* Bytes of a block. */
static inline size_t message_bytes(const message *m)
{
    return (size_t)dtype_bytes(m->type, m->n);
}

typedef struct backend {
    const char *name;
    /* Collective; `groups` [GROUP_COUNT] stays in place. With `stamped`, last_start is wanted. */
    status (*groups)(void *state, const members *groups, bool stamped, error *err);
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
} mpi_entry;

enum { MPI_ENTRY_VERSION = 2 };
/* Initialises MPI. `version` and `bytes` (of a message) are those of the caller: a shared object of
 * another build is refused. */
typedef status (*mpi_open_function)(int version, size_t bytes, mpi_entry *out, error *err);
#define MPI_OPEN_NAME "moefold_mpi_open"

#endif

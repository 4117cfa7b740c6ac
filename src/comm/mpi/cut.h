/* cut.h - messages that are too large for MPI's counts, and the MPI backend's state.
 *
 * MPI counts in int, and so does Open MPI inside collectives for all members together. What is only
 * moved goes as one element of a type that is large enough; what is summed goes in pieces. */
#ifndef COMM_MPI_CUT_H
#define COMM_MPI_CUT_H

#include <mpi.h>

#include "comm/message.h"

enum { ROWS_MAX = 64 };

typedef struct state {
    int rank, size, most_tag;
    bool stamped;
    const members *groups; /* [GROUP_COUNT] */
    MPI_Comm comms[GROUP_COUNT];
    MPI_Comm quiet;
    int64_t piece; /* elements of all members together that one call may have */
    struct {
        dtype element;
        int64_t n;
        MPI_Datatype type;
    } rows[ROWS_MAX]; /* types of the rows that are exchanged */
    int n_rows;
    int64_t exchanges[GROUP_COUNT];  /* so far */
    int64_t wider_sums[GROUP_COUNT]; /* all-reduces of wider.c so far */
    struct message *summing;         /* see wider.c */
    struct wider_room *rooms;        /* memory for wider.c that no message has */
} state;

/* Requests are pointers in Open MPI; message.h keeps them as such. */
_Static_assert(sizeof(MPI_Request) == sizeof(void *), "requests of Open MPI are pointers");
#define REQUEST(m, i) ((MPI_Request *)(void *)&(m)->request[i])

/* Says what failed where, and ends the job. */
_Noreturn void mpi_stop(const message *m, const char *call, int code);

/* MOEFOLD_MPI_PIECE in the environment sets the limit: for tests, which cannot send 2^31 floats. */
status cut_open(state *s, error *err);
void cut_close(state *s);

bool cut_needed(const state *s, const message *m, int64_t n);

MPI_Datatype cut_element(dtype t);

/* A block of n elements of the message as count elements of a type. */
typedef struct cut_type {
    MPI_Datatype type;
    int count;
    bool own; /* to be freed */
} cut_type;
cut_type cut_typed(const state *s, const message *m, int64_t n);
void cut_release(cut_type *t); /* once the message has started */

/* Rows of n elements; kept for the next time. */
MPI_Datatype cut_row(state *s, dtype element, int64_t n);

void cut_all_reduce(state *s, message *m, MPI_Comm among);
void cut_reduce_scatter(state *s, message *m, MPI_Comm among);

#endif

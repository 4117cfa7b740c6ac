/* cut.h - messages that are too large for MPI's counts, and the MPI backend's state.
 *
 * MPI counts in int, and so does Open MPI inside collectives for all members together. What is only
 * moved goes as one element of a type that is large enough; what is summed goes in pieces. */
#ifndef BACKEND_MPI_CUT_H
#define BACKEND_MPI_CUT_H

#include <mpi.h>

#include "backend/comm/message.h"

enum { ROWS_MAX = 64, JOB_REQUESTS = 4 };

/* What the library has of a message; at the message's index. */
typedef struct mpi_job {
    MPI_Request request[JOB_REQUESTS];
    MPI_Request *more; /* [n_more]: requests of a message that was cut */
    int n_more;
    int32_t *heard; /* [P] rows that others say they send, of an exchange that is checked */
    struct wider_room *memory; /* of a sum that the library does not make */
    struct message *summing;   /* the next of those that others' blocks are still missing of */
} mpi_job;

typedef struct state {
    int rank, size, most_tag;
    bool stamped;
    const members *groups;                     /* [GROUP_COUNT] */
    MPI_Comm comms[GROUP_COUNT][STREAM_COUNT]; /* by channel */
    mpi_job *jobs;                             /* [COMM_REQUESTS_MAX] */
    MPI_Comm quiet;
    int64_t piece; /* elements of all members together that one call may have */
    struct {
        dtype element;
        int64_t n;
        MPI_Datatype type;
    } rows[ROWS_MAX]; /* types of the rows that are exchanged */
    int n_rows;
    int64_t exchanges[GROUP_COUNT][STREAM_COUNT]; /* so far */
    struct message *summing;                      /* see wider.c */
    struct wider_room *rooms;                     /* memory for wider.c that no message has */
} state;

static inline mpi_job *mpi_job_of(const state *s, const message *m)
{
    return &s->jobs[m->index];
}

static inline MPI_Comm comm_of(const state *s, const message *m)
{
    return s->comms[m->group][m->channel];
}

/* Says what failed where, and ends the job. */
_Noreturn void mpi_stop(const message *m, const char *call, int code);

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

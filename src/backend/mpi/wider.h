/* wider.h - sums of BF16 and FP16, which MPI has no operation for. */
#ifndef BACKEND_MPI_WIDER_H
#define BACKEND_MPI_WIDER_H

#include "backend/mpi/cut.h"
#include "backend/comm/adder.h"

void wider_reduce_scatter(state *s, message *m, MPI_Comm among);
void wider_all_reduce(state *s, message *m, MPI_Comm among);

/* Starts the second part of every all-reduce whose first part is complete. To be called whenever
 * this rank looks after any message: others wait for it. */
void wider_go_on(state *s);

/* Is its first part not complete, or was when it was last looked at? */
bool wider_is_summing(const mpi_job *j);

/* All requests of the message are complete: makes the sum where it is not made yet, and puts it
 * where it belongs. */
void wider_end(state *s, message *m);

void wider_close(state *s);

#endif

/* executor.h - runs a step program on this machine's CPU.
 *
 * The arena of the plan is taken once; addresses and kernels of every operation are bound once. A
 * step then only follows the schedule and calls kernels: it allocates nothing. */
#ifndef RUN_EXECUTOR_H
#define RUN_EXECUTOR_H

#include "kernels/kernels.h"
#include "program/program.h"

typedef struct executor executor;

/* Takes the arena (zeroed) and binds kernels; `plain` binds the oracle rows only. */
status executor_open(executor **out, const program *p, bool plain, error *err);
void executor_close(executor *e);

/* One entry of the schedule. */
void executor_run(executor *e, int phase, int64_t chunk_id, int64_t micro);

/* Only the loss of a microbatch whose forward has run: for validation. */
void executor_loss(executor *e, int64_t micro);

/* Addresses of regions and of buffers of the step. */
void *executor_region(const executor *e, region r);
void *executor_step_buffer(const executor *e, step_buffer which);
float *executor_hidden(const executor *e, int64_t micro); /* input of the head: [T][H] */

/* Gradients, losses and counters to zero: the start of a step. */
void executor_clear(executor *e);

/* For tests: fills the arena with a byte; counts bytes that are not it. */
void executor_fill(executor *e, unsigned char pattern);
unsigned char *executor_arena(const executor *e);

#endif

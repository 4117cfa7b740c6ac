/* executor.h - runs a step program on this machine's CPU.
 *
 * The arena of the plan is taken once; addresses and kernels of every operation are bound once. A
 * step then only walks the items, calls kernels, and starts and ends messages: it allocates
 * nothing. */
#ifndef RUN_EXECUTOR_H
#define RUN_EXECUTOR_H

#include "comm/comm.h"
#include "kernels/kernels.h"
#include "program/program.h"
#include "run/timing.h"

typedef struct executor executor;

/* Takes the arena (zeroed) and binds kernels; `plain` binds the oracle rows only. `c` has its
 * groups, or is NULL where the rank is alone. */
status executor_open(executor **out, const program *p, comm *c, bool plain, error *err);
void executor_close(executor *e);

/* All items of a part, or one. */
void executor_part(executor *e, item_part part);
void executor_item(executor *e, item_part part, int64_t i);

/* From now on adds the seconds of every operation to `t`, by the kind that `cost` gives it; a wait
 * counts as its message. `t` stays in place until executor_close. */
void executor_time(executor *e, timing *t, const cost_model *cost);

/* Addresses of regions and of buffers of the step; of those that exist once for each microbatch,
 * the first one's (p->step_bytes apart). */
void *executor_region(const executor *e, region r);
void *executor_step_buffer(const executor *e, step_buffer which);

/* The copy of a buffer of the step on the host: what PART_BEGIN uploads (of all microbatches), what
 * PART_REPORT has fetched. */
void *executor_staging(const executor *e, step_buffer which);

/* For tests: fills the arena with a byte; counts bytes that are not it. */
void executor_fill(executor *e, unsigned char pattern);
unsigned char *executor_arena(const executor *e);

#endif

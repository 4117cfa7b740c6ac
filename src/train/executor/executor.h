/* executor.h - binds a step program to a device and enqueues it.
 *
 * The memory of the plan is taken once; addresses and kernels of every operation are bound once. A
 * step then only walks the items and puts operations, messages and waits into the device's streams:
 * it allocates nothing. What happens when is the device's business (device.h): on the CPU an
 * operation is done when its call returns, elsewhere the host runs ahead.
 *
 * A place is an offset from the start of the planned arena, as program_place gives it; past its end
 * lies the host's pool. Nobody outside has pointers into it, but where the device lends them. */
#ifndef TRAIN_EXECUTOR_EXECUTOR_H
#define TRAIN_EXECUTOR_EXECUTOR_H

#include "backend/comm/comm.h"
#include "backend/device/device.h"
#include "ir/program.h"
#include "train/executor/timing.h"

typedef struct executor executor;

typedef struct executor_options {
    bool plain;    /* row 0 of every kind only: the oracle */
    int64_t guard; /* bytes behind the arena that nothing is planned for: see executor_guard_fill */
    const char
        *device; /* NULL: MOEFOLD_DEVICE of the environment, or else as moefold.device says */
} executor_options;

/* Takes memory (zeros) and binds kernels. `c` has its groups; NULL: the rank is alone. */
status executor_open(executor **out, const program *p, comm *c, executor_options o, error *err);
void executor_close(executor *e);

/* Waits until the streams of all ranks are idle; all call it. A rank that closes earlier takes away
 * events that the host of another one, which is late, has still to wait for. */
void executor_settle(executor *e);

/* Bytes in use on the device beside all that was taken here; -1: not known. */
int64_t executor_outside_arena(executor *e);

/* GEMMs for which a library of the device chose an algorithm (device.h). */
int executor_gemms(const executor *e, lt_use *list, int room);

const char *executor_device(const executor *e); /* "cpu" */
bool executor_runs_ahead(const executor *e);    /* of its device's streams */

/* "CUDA IPC, 4 ranks share a GPU": how ranks that move their messages by themselves do it, once
 * something has run; NULL: comm moves them. */
const char *executor_transport(const executor *e);

/* Goes on with another program of the same weights. Weights, gradients and optimizer stay where
 * they are; all else begins as zeros. Where it fails the executor can only be closed. */
status executor_rework(executor *e, const program *p, error *err);

/* Enqueues all items of a part, or one. The rank may use the control plane of its comm after it:
 * what is enqueued comes to its end while it waits there. */
void executor_part(executor *e, item_part part);
void executor_item(executor *e, item_part part, int64_t i);

/* Between the two calls, of GEMMs, attention and heads that are alike only the first is
 * launched: kernels are loaded, and nothing that comes out means anything. */
void executor_first(executor *e, bool begins);

/* Calls of the device so far: operations that were put one by one, graphs that were replayed; and
 * kernels in those of a step. */
typedef struct executor_calls {
    int64_t put, replayed, kernels;
} executor_calls;
executor_calls executor_calls_of(const executor *e);

/* ---- memory, from outside: behind everything that was enqueued */

void executor_read(executor *e, void *to, int64_t place, int64_t bytes);
void executor_write(executor *e, int64_t place, const void *from, int64_t bytes);
void executor_fill(executor *e, int64_t place, int64_t bytes, unsigned char byte);
void executor_zero_optimizer(executor *e); /* masters and moments, wherever they are */

/* As the device's `differ`: map[(bytes + 7) / 8]; `place` is a multiple of 8. */
void executor_differ(executor *e, int64_t place, int64_t bytes, unsigned char byte,
                     unsigned char *map);

/* Of the guard behind everything that kernels may use: fills it; how many of its bytes are another
 * one. */
void executor_guard_fill(executor *e, unsigned char byte);
int64_t executor_guard_touched(executor *e, unsigned char byte);

/* The host's own pointer to a place, or NULL where the device's memory is not the host's. The
 * region around it is contiguous. Valid until the next part, item or rework. */
void *executor_map(executor *e, int64_t place);

/* Where a buffer of the step lies; of those that exist once for each microbatch, the first one's
 * (p->step_bytes apart). */
int64_t executor_step_place(const program *p, step_buffer which);

/* The copy of a buffer of the step on the host, of all microbatches. What goes up may be written
 * once the report of the step before was read, and until the part that uploads it is put; what came
 * down is there when everything is complete, which executor_fetched waits for. */
void *executor_staging(const executor *e, step_buffer which);
const void *executor_fetched(const executor *e, step_buffer which);

/* Of a test build: what is called behind each operation, which is then put by itself. */
typedef void (*executor_planted)(const char *name);
PLANTED status planted_executor(executor_planted *out, error *err);

#endif

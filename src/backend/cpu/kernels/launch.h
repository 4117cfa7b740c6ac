/* launch.h - how the CPU launches a row: its function, on copies where operands are narrow.
 *
 * The CPU computes in FP32. An operation with BF16 operands runs its FP32 function on copies
 * in the workspace: what it reads (and what it adds to, or leaves partly alone) is widened
 * first, which is exact, and its results are rounded once, to nearest even. */
#ifndef BACKEND_CPU_KERNELS_LAUNCH_H
#define BACKEND_CPU_KERNELS_LAUNCH_H

#include "backend/kernels/kernels.h"

/* Members of every row that has a `run` and no launch of its own. */
status cpu_prepare(const op *o, const op_types *t, void **state, error *err);
void cpu_release(void *state);
int64_t cpu_workspace(const op *o, const op_types *t);
void cpu_launch(const kernel_call *c);

#endif

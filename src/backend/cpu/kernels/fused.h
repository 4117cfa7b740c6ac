/* fused.h - fused kinds on the CPU: their parts, one after another.
 *
 * One pass instead of several brings a CPU nothing that counts here. So row 0 runs the plain rows
 * of the parts and the other row their fast ones: what a fused operation computes is, bit by bit,
 * what its parts compute. */
#ifndef BACKEND_CPU_KERNELS_FUSED_H
#define BACKEND_CPU_KERNELS_FUSED_H

#include "backend/kernels/kernels.h"
#include "op/fused.h"

/* On FP32 operands, with kernel_workspace_bytes lent. What a part writes is rounded to the format
 * that `t` has for it: `in` and `out` are then copies that stand for narrow buffers. `row` says
 * whose parts: plain rows, or fast ones. */
void fused_run(const kernel *row, const op *o, const op_types *t, void *const *in,
               void *const *out);

#endif

/* widen.h - kernels on narrow operands.
 *
 * The CPU computes in FP32. An operation with BF16 operands runs its FP32 row on copies in the
 * workspace: what it reads (and what it adds to, or leaves partly alone) is widened first, which is
 * exact, and its results are rounded once, to nearest even. */
#ifndef KERNELS_CPU_WIDEN_H
#define KERNELS_CPU_WIDEN_H

#include "kernels/kernels.h"
#include "program/target.h"

typedef struct widened {
    int n;
    struct widened_part {
        int in, out;          /* the operand, or -1 */
        int64_t elements, at; /* bytes into the workspace */
    } list[OP_IN_MAX + OP_OUT_MAX];
} widened;

/* Which operands of an operation are copied, and where; false: none is. */
bool widen_plan(widened *w, const target_row *t, const segment *seg, const op *o);

/* Runs the row on the copies. `in` and `out` are changed; the workspace is as large as planned. */
void widen_run(const widened *w, kernel_run run, const op *o, void **in, void **out,
               unsigned char *workspace);

#endif

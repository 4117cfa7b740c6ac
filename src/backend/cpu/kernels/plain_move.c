/* plain_move.c - row 0 of MOVE: copies between two orders of the same numbers, one by one. */
#include "backend/cpu/kernels/rows.h"

#include "backend/cpu/kernels/real.h"
#include "op/op_operands.h"

static void move(const op *o, void *const *in, void *const *out)
{
    const op_move a = op_move_of(o, in, out);
    const int64_t *n = o->dim + DIM_MOVE_N0;  /* [4] */
    const int64_t *xs = o->dim + DIM_MOVE_X0; /* [4]: strides, where to begin */
    const int64_t *ys = o->dim + DIM_MOVE_Y0; /* [4] */
    for (int64_t i = 0; i < n[0]; i++)
        for (int64_t j = 0; j < n[1]; j++)
            for (int64_t k = 0; k < n[2]; k++) {
                const real *x = a.x + (xs[3] + i * xs[0] + j * xs[1] + k * xs[2]);
                real *y = a.y + (ys[3] + i * ys[0] + j * ys[1] + k * ys[2]);
                for (int64_t l = 0; l < n[3]; l++)
                    y[l] = o->flags & ACCUMULATE ? y[l] + x[l] : x[l];
            }
}

kernel_rows plain_move(void)
{
    static const kernel rows[] = {{OP_MOVE, "plain", .run = move}};
    return (kernel_rows){rows, (int)(sizeof rows / sizeof rows[0])};
}

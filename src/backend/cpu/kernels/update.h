/* update.h - squares and AdamW of a step's end, on addresses.
 *
 * Rows of the operations call these, and so does whoever has arrays without a program: the
 * benchmark and tests. What becomes of an element, and the verdict: op/update_math.h. Results do
 * not depend on the number of threads. */
#ifndef BACKEND_CPU_KERNELS_UPDATE_H
#define BACKEND_CPU_KERNELS_UPDATE_H

#include <omp.h>

#include "base/dtype.h"
#include "op/op.h"
#include "op/update_math.h"

/* The arrays of a rank. FP32 or BF16 each; everything in between is FP32. */
typedef struct update_arrays {
    typed weights, gradients; /* of all weights */
    typed masters;            /* of what this rank owns; NULL: the weights are their own */
    typed first, second;      /* moments: the same */
} update_arrays;

/* Of the elements that this rank answers for: their squares, and how many are zero. */
double update_squares(update_table t, typed x);
double update_zeros(update_table t, typed x);

/* Which elements: `n` whose masters and moments begin with element `from` of what this rank owns.
 * Of weights and gradients the arrays begin with element `at` of all. */
typedef struct update_window {
    int64_t from, n, at;
} update_window;

/* NULL: all. */
void update_adamw(const adam_numbers *k, const double *verdict, update_table t,
                  const update_arrays *x, const update_window *of);

/* The same for a window of weights that are copied somewhere else afterwards, whether the step is
 * taken or not: they are always written, where there are masters to write them from. */
void update_adamw_apart(const adam_numbers *k, const double *verdict, update_table t,
                        const update_arrays *x, const update_window *of);

/* Threads for what the host updates beside a GPU: of several processors one is left to the thread
 * that waits for the GPU. Else that takes turns with a thread of the update, for which all others
 * then wait: 3.32e9 elements a second with 16 threads of 16 processors, 3.67e9 with 15. */
static inline int update_threads_beside_gpu(void)
{
    int all = omp_get_max_threads();
    return all > 2 ? all - 1 : all;
}

/* The router's correction bias: experts below the mean load gain `rate`, those above lose it. */
void update_bias(float *bias, const float *load, int64_t n, double rate);

#endif

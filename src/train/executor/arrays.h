/* arrays.h - weights, gradients and moments of a rank as FP32 arrays, for whoever reads or writes
 * them between steps: drawing, loading, saving, comparing.
 *
 * Where the array of the program is FP32 in memory that the host can address it is lent as it is;
 * else a copy, which goes back when the lender says so. */
#ifndef TRAIN_EXECUTOR_ARRAYS_H
#define TRAIN_EXECUTOR_ARRAYS_H

#include "train/executor/executor.h"

typedef enum array_kind { ARRAY_WEIGHTS, ARRAY_GRADIENTS, ARRAY_FIRST, ARRAY_SECOND } array_kind;

/* An array as it lies in the device's memory: the host's pointer to it, or a copy of its bytes. */
typedef struct array_bytes {
    typed as;
    int64_t place, n;     /* n 0: there is none */
    int64_t kept, kept_n; /* where it goes on: what the host keeps of it, or 0 bytes */
    bool copied;
} array_bytes;

typedef struct array_loan {
    executor *e;
    const program *p;
    array_kind kind;
    array_bytes own, masters; /* masters: of weights only */
    float *values;            /* as many as the array has elements: p->weights says */
    bool copied;
} array_loan;

/* Weights have their masters' values where this rank owns those. ERR_MACHINE: no memory. */
status array_borrow(array_loan *l, executor *e, const program *p, array_kind k, error *err);

/* Ends a loan. WRITTEN: the values are the array's now; masters take them as they are. ROUNDED: the
 * same, but masters take what the weights became, as at the start of a run. */
typedef enum array_end { ARRAY_READ, ARRAY_WRITTEN, ARRAY_ROUNDED } array_end;
void array_return(array_loan *l, array_end how);

/* Writes elements first .. first + n - 1 of the weights, all trained or none, ROUNDED as above, in
 * pieces as large as the caller wants: a model that fills the GPU has no whole copy beside it.
 * `values` are what the weights became afterwards; `room` is for n floats. */
void array_put_weights(executor *e, const program *p, int64_t first, int64_t n, float *values,
                       float *room);

#endif

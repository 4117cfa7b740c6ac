/* arrays.h - weights, gradients and moments of a rank as FP32 arrays, for whoever reads or writes
 * them between steps: drawing, loading, saving, comparing.
 *
 * Where the array of the program is FP32 it is lent as it is; else a copy, which goes back when the
 * lender says so. */
#ifndef RUN_ARRAYS_H
#define RUN_ARRAYS_H

#include "run/executor.h"
#include "run/optimizer.h"

/* Where they lie in the executor's memory. */
update_arrays arrays_of(const executor *e, const program *p);

typedef enum array_kind { ARRAY_WEIGHTS, ARRAY_GRADIENTS, ARRAY_FIRST, ARRAY_SECOND } array_kind;

typedef struct array_loan {
    const program *p;
    update_arrays of;
    array_kind kind;
    float *values; /* as many as the array has elements: p->weights says */
    bool copied;
} array_loan;

/* Weights have their masters' values where this rank owns those. ERR_MACHINE: no memory. */
status array_borrow(array_loan *l, const executor *e, const program *p, array_kind k, error *err);

/* Ends a loan. WRITTEN: the values are the array's now; masters take them as they are. ROUNDED: the
 * same, but masters take what the weights became, as at the start of a run. */
typedef enum array_end { ARRAY_READ, ARRAY_WRITTEN, ARRAY_ROUNDED } array_end;
void array_return(array_loan *l, array_end how);

/* An untrained buffer, which is FP32 always. */
float *array_buffer(const executor *e, const program *p, const weight *w);

#endif

/* number_types.h - which number format each kind of tensor has under a job's precision.
 *
 * One answer for the program, its price and the search. What is not an activation, a weight, a
 * gradient or the optimizer's has a format of its own wherever it is made (indices, statistics). */
#ifndef LAYOUT_NUMBER_TYPES_H
#define LAYOUT_NUMBER_TYPES_H

#include "base/dtype.h"
#include "job/job.h"

typedef struct number_types {
    dtype activation;
    dtype stored; /* an activation that only GEMMs read again, which Megatron's FP8 and FP4
                   * recipes store as their GEMMs take it; scales are not counted */
    dtype weight; /* that is trained; untrained buffers are FP32 */
    dtype gradient;
    bool moments; /* is there an optimizer? Without one nothing below is there, and no update */
    bool masters; /* does the optimizer keep a copy of the weights? */
    dtype master; /* I16: only the half that the BF16 weight lacks */
    dtype first, second; /* moments */
    bool one_moment;     /* Muon's, under Megatron: the first alone */
} number_types;

number_types number_types_of(const job *j);

/* Bytes of an element of the optimizer's copy and moments together. */
double number_types_optimizer(const number_types *t);

#endif

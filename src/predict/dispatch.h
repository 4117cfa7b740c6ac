/* dispatch.h - what dispatchers cost: bytes of their libraries, seconds of their messages. */
#ifndef PREDICT_DISPATCH_H
#define PREDICT_DISPATCH_H

#include "predict/cost.h"

/* What the library of the job's dispatcher takes of a GPU, where Megatron runs. */
int64_t dispatch_library(const setup *s);

/* Fills exchanges, and the share of the chip that dispatch takes; groups are there. */
void dispatch_init(cost_model *c);

double dispatch_exchange(const cost_model *c, const segment *seg, const op *o);

/* Is it an exchange whose rows go with others, without a launch of its own? */
bool dispatch_rides_along(const cost_model *c, const op *o);

/* Do the elements of this message travel in FP32, whatever the program has? */
bool dispatch_is_wide(const cost_model *c, const op *o);

/* Seconds of everybody's routing map, which a library may gather where our program gathers counts;
 * 0: this is no such message. */
double dispatch_map(const cost_model *c, const op *o);

#endif

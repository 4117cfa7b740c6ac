/* measured.h - the parts of a measured step, read off a trace, in the form that a price has them.
 */
#ifndef PREDICT_MEASURED_H
#define PREDICT_MEASURED_H

#include "predict/price.h"
#include "predict/trace/trace.h"

/* Seconds of a step on the compute stream of a rank, in the mean over the trace's steps: operations
 * by kind, waits by what is waited for; the rest is what has no cause. `hidden`: communication and
 * copies that compute did not wait for. `rank` -1: all ranks in the mean. Returns the seconds of a
 * step, which the parts add up to; 0: the trace has no such rank. */
double measured_parts(step_part out[STEP_PARTS], const trace *t, int64_t rank);

#endif

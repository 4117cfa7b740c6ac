/* timeline.h - the predicted timeline of a step: every operation of some ranks as a trace.
 *
 * It is the price's own play that is written down, so operations and waits of the compute stream
 * add up to the step. Ranks of a stage are alike: any of them has its stage's times. */
#ifndef PREDICT_TIMELINE_H
#define PREDICT_TIMELINE_H

#include "predict/price.h"
#include "predict/trace/trace.h"

typedef struct timeline_options {
    const int64_t *ranks; /* [n_ranks], each once; NULL: the first of every stage */
    int64_t n_ranks;
    bool whole; /* the whole step; else one steady window: of the slowest stage a forward and a
                 * backward of as many microbatches as it has chunks, in the middle of the step */
} timeline_options;

/* As price_setup; `p` is its price. Memory comes from `a`. */
void price_timeline(trace *out, price *p, const price_job *j, const timeline_options *o, arena *a);

#endif

/* receives.h - what of a receive is waiting for its sender. */
#ifndef PREDICT_TRACE_RECEIVES_H
#define PREDICT_TRACE_RECEIVES_H

#include "predict/trace/trace.h"

/* A receive that was posted before its send began is a wait up to there ("pipeline bubble") and a
 * transfer from there on; so are waits of compute for it. Of a trace that has both ends; messages
 * with one end are left as they are. */
void trace_split_receives(trace *t);

#endif

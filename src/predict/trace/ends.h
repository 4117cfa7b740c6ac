/* ends.h - both ends of messages. Internal to src/predict/trace. */
#ifndef PREDICT_TRACE_ENDS_H
#define PREDICT_TRACE_ENDS_H

#include "predict/trace/trace.h"

typedef struct message_end {
    int64_t from, to, tag, number;
    bool receives;
    int64_t op; /* of the trace */
} message_end;

/* All of a trace, each send right before its receive; returns how many. */
int64_t message_ends(const trace *t, message_end **out, arena *a);

/* Are they the send and the receive of one message? */
bool message_pair(const message_end *a, const message_end *b);

#endif

/* pack.h - a trace as bytes, for the way from one rank to another of the same program.
 *
 * Not a format of files: both ends are one build on machines alike. */
#ifndef PREDICT_TRACE_PACK_H
#define PREDICT_TRACE_PACK_H

#include <stddef.h>

#include "predict/trace/trace.h"

/* Ranks, streams, operations and lengths. Memory comes from `a`. */
char *trace_pack(const trace *t, size_t *n, arena *a);

/* As it was; texts live in `a`. The bytes may go. */
void trace_unpack(trace *t, const char *data, arena *a);

#endif

/* compare.h - two traces: on one time axis, and where they differ. */
#ifndef PREDICT_TRACE_COMPARE_H
#define PREDICT_TRACE_COMPARE_H

#include "predict/trace/trace.h"

/* All operations (or waits) of a name, kind and phase, a rank in the mean. */
typedef struct trace_row {
    trace_what what;
    const char *name, *kind, *phase; /* phase NULL: of none */
    double n[2], seconds[2];         /* of each trace */
    double difference;               /* seconds that the second takes more: see trace_compare */
} trace_row;

typedef struct trace_comparison {
    bool whole;      /* both are of whole steps: sums are compared; else lengths, at the first
                      * one's count, for windows differ in what they hold */
    trace_row *rows; /* the largest difference first */
    int64_t n;
    int64_t common; /* rows that both have */
} trace_comparison;

/* Memory comes from `a`. */
void trace_compare(trace_comparison *out, const trace *x, const trace *y, arena *a);

/* Both, with their ranks as "A: rank 0" and "B: rank 0"; each starts at 0. */
void trace_merge(trace *out, const trace *x, const trace *y, arena *a);

#endif

/* price_trace.h - `price --trace`: the predicted timeline as a file. */
#ifndef LIBRARY_PRICE_TRACE_H
#define LIBRARY_PRICE_TRACE_H

#include "answer/answer.h"
#include "predict/timeline.h"

typedef struct trace_words {
    const char *path;  /* --trace; NULL: not asked for */
    const char *ranks; /* --rank; NULL: the first of each stage */
    bool whole;        /* --whole-step */
} trace_words;

/* What was written. */
typedef struct trace_written {
    int64_t operations, waits, messages, streams, ranks;
    double from, span, step;
} trace_written;

/* Options that need --trace. */
status trace_words_check(const trace_words *w, error *err);

status price_trace_write(trace_written *out, const trace_words *w, const price_job *j, error *err);
const trace_file_answer *price_trace_answer(const trace_written *t, const char *path, arena *a);

#endif

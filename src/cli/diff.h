/* diff.h - what `moefold diff` prints. */
#ifndef CLI_DIFF_H
#define CLI_DIFF_H

#include "cli/cli.h"
#include "search/differences.h"

/* Beyond the tolerance (a part, 0.05), in either direction. */
typedef struct diff_verdict {
    double tolerance;
    bool priced;         /* both sides are */
    double time, memory; /* B over A, less one */
    bool time_differs, memory_differs;
} diff_verdict;

static inline bool diff_is_beyond(const diff_verdict *v)
{
    return !v->priced || v->time_differs || v->memory_differs;
}

/* diff_print.c */
void diff_print(const differences *d, const diff_verdict *v, arena *a);
json_t *diff_json(const differences *d, const diff_verdict *v, arena *a);

#endif

/* diff.h - what `moefold diff` prints. */
#ifndef CLI_DIFF_H
#define CLI_DIFF_H

#include "cli/cli.h"
#include "plan/differences.h"

/* Beyond the tolerance (a part, 0.05), in either direction. */
typedef struct diff_verdict {
    double tolerance;
    bool priced;         /* both sides are */
    bool measured;       /* both sides were: what follows is measured, memory planned */
    bool noise;          /* of time: not more than runs vary */
    double time, memory; /* B over A, less one */
    bool time_differs, memory_differs;
} diff_verdict;

static inline bool diff_is_beyond(const diff_verdict *v)
{
    return (!v->priced && !v->measured) || v->time_differs || v->memory_differs;
}

struct diff_runs; /* what was measured of the sides (diff_runs.h); NULL: nothing */

/* What is printed below the answer. */
typedef struct diff_more {
    bool why, everything;
} diff_more;

/* diff_print.c */
void diff_print(const differences *d, const diff_verdict *v, const struct diff_runs *r,
                diff_more more, arena *a);
json_t *diff_json(const differences *d, const diff_verdict *v, const struct diff_runs *r, arena *a);

#endif

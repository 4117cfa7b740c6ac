/* search_ties.h - which of the best are really better: bands, ties, support, and their order. */
#ifndef PLAN_SEARCH_TIES_H
#define PLAN_SEARCH_TIES_H

#include "predict/bands.h"
#include "plan/search.h"

/* What a row's place is judged by. */
typedef struct tie_row {
    double seconds;
    int64_t bytes; /* its peak */
    band_traits traits;
    bool supported;    /* published runs have each of its features */
    bool roomy;        /* what the allocator may reserve at most still leaves the headroom */
    bool full;         /* everything is recomputed */
    int advice;        /* repairs that `check` would offer */
    int untried;       /* knobs in which it differs from the published run that it is most like */
    double over_range; /* the mean logarithm of its seconds over routings that may be met */
} tie_row;

/* Would nobody tell two steps apart? */
bool ties_equal(double seconds, double other);

/* Rows in the order in which a user should try them: by time, but of those that are equal to the
 * fastest that is left and need less memory than all faster ones, supported ones come first, then
 * roomy ones, those without full recompute, those that `check` has less against, those most like a
 * published run, and those that are fastest over the range of routings. */
void ties_order(int *order, const tie_row *rows, int n);

/* In what x, which is slower, is the better one; NULL: it is not slower. */
const char *ties_why_before(const tie_row *x, const tie_row *y);

/* Says of each of the best how far its time may be off, whether published runs have its features,
 * and whether it ties with the fastest: slower by less than published pairs let tell. Then puts
 * them in order. */
void search_judge_ties(search_result *r, const search_options *o);

#endif

/* search_ties.h - which of the best are really better: bands, ties, support, and their order. */
#ifndef SEARCH_SEARCH_TIES_H
#define SEARCH_SEARCH_TIES_H

#include "price/bands.h"
#include "search/search.h"

/* What a row's place is judged by. */
typedef struct tie_row {
    double seconds;
    band_traits traits;
    bool supported; /* published runs have each of its features */
    bool roomy;     /* what the allocator may reserve at most still leaves the headroom */
    int untried;    /* knobs in which it differs from the published run that it is most like */
} tie_row;

/* Is it open which of two is faster? Half as likely that the slower is as that it is not. */
bool ties_toss_up(const tie_row *a, const tie_row *b);

/* Rows in the order in which a user should try them: by time, but of those that are a toss-up with
 * the fastest that is left, supported ones come first, then roomy ones, then those most like a
 * published run, then the faster. */
void ties_order(int *order, const tie_row *rows, int n);

/* Says of each of the best how far its time may be off, whether published runs have its features,
 * and whether it ties with the fastest: slower by less than published pairs let tell. Then puts
 * them in order. */
void search_judge_ties(search_result *r, const search_options *o);

#endif

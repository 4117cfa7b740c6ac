/* search_own.h - searches sequence chunks when memory is the limit.
 *
 * Chunks cost almost no time but change the memory of every layout, and only our own programs have
 * them. So they are not an axis of the search; instead the whole search runs again with chunks. It
 * runs only once for Megatron, and if the best layout neither recomputes experts nor keeps anything
 * on the host. */
#ifndef PLAN_SEARCH_OWN_H
#define PLAN_SEARCH_OWN_H

#include "plan/search.h"

/* What was taken; all zero: nothing. */
typedef struct search_own {
    int64_t chunks;   /* moefold.sequence_chunks; 0: as given */
    double without_s; /* the step without them; 0: nothing fits */
    int tried;        /* searches */
} search_own;

/* `out` is what search_run found for *given with these options. Where something faster is found
 * with them, `out` becomes that, and *given the recipe that it was found for. Ends with
 * o->until. */
void search_own_ways(search_own *own, search_result *out, const recipe **given,
                     const search_options *o, arena *a);

#endif

/* search_own.h - sequence chunks, searched where memory binds.
 *
 * Chunks cost next to nothing but change what every layout holds, and only our own programs have
 * them, so they are no axis: the whole search is asked again with them. Plans for Megatron, and
 * plans whose best makes no experts again and has nothing on the host, are searched once. */
#ifndef SEARCH_SEARCH_OWN_H
#define SEARCH_SEARCH_OWN_H

#include "search/search.h"

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

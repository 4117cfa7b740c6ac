/* search_own.h - what only our own programs can do about memory, searched where memory binds.
 *
 * Packed steps (program/memory/step_packing.h) and sequence chunks cost next to nothing but change
 * what every layout holds, so they are no axes: the whole search is asked again with them. Plans for
 * Megatron, and plans in which nothing is recomputed or moved to the host, are searched once. */
#ifndef SEARCH_SEARCH_OWN_H
#define SEARCH_SEARCH_OWN_H

#include "search/search.h"

/* What was taken; all zero: nothing. */
typedef struct search_own {
    int64_t chunks;   /* moefold.sequence_chunks; 0: as given */
    bool packed;      /* moefold.pack_step */
    double without_s; /* the step without them; 0: nothing fits */
    int tried;        /* searches */
} search_own;

/* `out` is what search_run found for *given with these options. Where something faster is found with
 * them, `out` becomes that, and *given the recipe that it was found for. Ends with o->until. */
void search_own_ways(search_own *own, search_result *out, const recipe **given,
                     const search_options *o, arena *a);

#endif

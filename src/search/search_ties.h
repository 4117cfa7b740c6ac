/* search_ties.h - which of the best are really better: bands, ties, support. */
#ifndef SEARCH_SEARCH_TIES_H
#define SEARCH_SEARCH_TIES_H

#include "search/search.h"

/* Says of each of the best how far its time may be off, whether published runs have its features,
 * and whether it ties with the fastest: faster by less than published pairs let tell. Ties come
 * first, those with support before others, then those with more free memory (in twentieths of a
 * GPU's), then the faster. */
void search_judge_ties(search_result *r, const search_options *o);

#endif

/* search_best.h - the list of the best, and the front of speed against memory. */
#ifndef PLAN_SEARCH_BEST_H
#define PLAN_SEARCH_BEST_H

#include "plan/search.h"

/* Does a layout of these sizes with this step time enter the list? Layouts of the same sizes take
 * one place, that of the best of them. */
bool best_enters(const search_result *r, const choice *c, double step_s);

/* Above this no layout of these sizes enters; infinite while places are free. */
double best_limit(const search_result *r, const choice *c);
double best_limit_any(const search_result *r, const choice *c); /* whatever it has beside */
double best_tenth(const search_result *r); /* the same for sizes that are not in the list */

void best_put(search_result *r, const found *f);

/* The next from `*from` on that has the sizes of another and may be faster than it; NULL: none. */
const found *best_near(const search_result *r, const found *of, int *from);
bool front_takes(const search_result *r, const found *f);
void front_put(search_result *r, const found *f);
void best_sort(search_result *r); /* by the price of whole programs */

#endif

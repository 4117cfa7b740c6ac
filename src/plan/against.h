/* against.h - compares a recipe with the plan of its own job: where it ranks, and which changes
 * beat it. */
#ifndef PLAN_AGAINST_H
#define PLAN_AGAINST_H

#include "plan/path.h"
#include "plan/search.h"

typedef struct against {
    const char *why_not; /* no program can be built: nothing else is set but `found` */
    violations found;
    const setup *s;
    price p;
    int place; /* it would be the first (1), the second, ...; the list's length and one: below it */
    int same;  /* the row of the list with its parallel sizes, from 1 on; 0: none */
    path_step *path; /* to the first of the list */
    int n_path;
    int faster; /* a stop of the path, from 1 on, that fits and is faster than the first by more
                   than a thousandth: what the search does not look at; 0: none */
} against;

/* The job of a recipe: what a search decides is left open. */
void against_open(recipe *out, const recipe *own);

/* Makes a plan and a recipe the same job: what the plan leaves unset is taken from the recipe, what
 * both set is as the plan has it. What a search decides stays with each. ERR_INPUT: they are of
 * different models. */
status against_join(recipe *plan, recipe *own, error *err);

/* `own` is of the same job as the plan that was searched. Memory comes from `a`. */
typedef struct searched {
    const recipe *plan;
    search_result *r;
    const search_options *o;
} searched;
status against_price(against *out, const recipe *own, const searched *by, arena *a, error *err);

#endif

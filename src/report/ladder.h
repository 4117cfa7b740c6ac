/* ladder.h - the memory ladder of a recipe: its own layout with more and more recompute, each rung
 * priced as a whole program. */
#ifndef REPORT_LADDER_H
#define REPORT_LADDER_H

#include "predict/try.h"

typedef struct rung {
    const char *name;  /* "none", "layernorm+moe_act", "full" */
    const char *words; /* overrides, as a command line takes them */
    bool own;          /* what the recipe does now */
    double step_s;
    int64_t peak_bytes;
    bool fits;
} rung;

enum { RUNGS_MAX = 12 };

typedef struct ladder_job {
    const recipe *given; /* before setup_init */
    const job *resolved; /* after it */
    const price *now;
    const hardware *hw;
    const price_options *o;
    try_budget *budget; /* may be NULL */
} ladder_job;

/* Rungs that break no more rules than the recipe, the fullest first, from no recompute to all; the
 * recipe's own is among them. Returns how many. Memory comes from `a`. */
int report_ladder(rung out[RUNGS_MAX], const ladder_job *j, arena *a);

#endif

/* changes.h - what one changed knob would bring. */
#ifndef PLAN_CHANGES_H
#define PLAN_CHANGES_H

#include "plan/moves.h"
#include "predict/try.h"

typedef struct price_change {
    const char *words; /* overrides, as a command line takes them */
    double gain;       /* tokens a second after over before, minus one */
    double step_s;
    int64_t peak_bytes;
    bool fits;
} price_change;

/* What is changed: the recipe before setup_init, and its price. */
typedef struct change_job {
    const recipe *given;
    const price *now;
    const hardware *hw;
    const price_options *o;
    try_budget *budget; /* may be NULL */
} change_job;

/* The changes that move the step time most, the best first, among those that break no rule;
 * returns how many. */
int price_changes(price_change *out, int room, const change_job *j, arena *a);

/* These changes, each in its place of out[n]: `words` stays NULL where one (or MOVES) changes
 * nothing or breaks a rule. Returns how many could be priced. */
int price_these(price_change *out, const move_id *list, int n, const change_job *j, arena *a);

#endif

/* repairs.h - what repairs lead to: whether the recipe fits then, and what those of a warning would
 * cost: advice is held against our own price. */
#ifndef PLAN_REPAIRS_H
#define PLAN_REPAIRS_H

#include "predict/fit.h"
#include "predict/try.h"

typedef struct repair_job {
    const recipe *given; /* before setup_init */
    const setup *s;      /* what became of it */
    const hardware *hw;
    const fit *own; /* of s; NULL: not worked out yet */
    const price_options *o;
    try_budget budget;
    bool notes; /* repairs of notes are priced, too */
} repair_job;

/* Is there a repair? */
bool repairs_to_price(const violations *found);

/* Sets `prices` of every repair: does what it leads to fit? Those of warnings (and, where asked, of
 * notes) are priced, too, but where a rule says error or no program can be built. */
void price_repairs(violations *found, repair_job *j, arena *a);

/* "predicted 31.4 s a step instead of 12.8 s: ..."; NULL: nothing to say. */
const char *repair_text(const repair_price *p, arena *a);

#endif

/* autofit.h - a recipe that does not fit, made to fit on the GPUs that it has.
 *
 * What costs least is tried first: recompute of single modules, from those that free most for the
 * time they take; recompute of whole layers; activations or optimizer state on the host; parallel
 * sizes. What is found breaks no rule. Sizes beyond a few doublings are left to the search, whose
 * bounds show that nothing fits where it finds nothing. */
#ifndef PLAN_AUTOFIT_H
#define PLAN_AUTOFIT_H

#include "config/edit.h"
#include "hardware/hardware.h"

typedef struct autofit {
    bool done;                  /* with the edits no rule is broken, and it fits */
    edits e;                    /* none can be left out */
    int64_t gpus, usable_bytes; /* on which something was looked for, and what each has */
    int64_t least_bytes; /* nothing fits: the least that a layout was found to need; 0: unknown */
    bool late;           /* nothing was found, but the search was cut short: something may fit */
    int64_t enough_gpus; /* nothing fits: on so many something does; 0: not looked for, or none */
} autofit;

/* `rules`: edits that leave no broken rule (rules_fix). `given` as there. Ends
 * with a search of all layouts, which `seconds` of the processor cut short. */
void autofit_memory(autofit *out, const recipe *given, edits rules, const hardware *hw,
                    double seconds, arena *a);

/* Where nothing fits: the smallest power of two times as many GPUs on which something does, as far
 * as it is found within `seconds`. */
void autofit_more_gpus(autofit *m, const recipe *given, edits rules, const hardware *hw,
                       double seconds, arena *a);

#endif

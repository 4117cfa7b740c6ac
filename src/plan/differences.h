/* differences.h - two recipes of one model: which knobs differ, and what each of them accounts for.
 *
 * A change is counted twice: as a stop of the path from one recipe to the other (path.h), where the
 * parts add up to the whole; and alone, on top of the first recipe. Where the two differ, it acts
 * together with others. */
#ifndef PLAN_DIFFERENCES_H
#define PLAN_DIFFERENCES_H

#include "plan/path.h"

typedef struct diff_knob {
    knob_id k;
    value from, to;
    bool made; /* a person or the model set it on either side; else it follows from others */
} diff_knob;

typedef path_step diff_change;

/* One side. */
typedef struct diff_end {
    const recipe *given; /* before setup_init */
    setup *s;
    hardware *hw;
    violations found;
    const char *why_not; /* no program can be built; then there is no price */
    price p;
} diff_end;

typedef struct differences {
    diff_end a, b;
    diff_knob *knobs;
    int n_knobs;
    diff_change *changes; /* in the order of the path; none where a side has no price */
    int n_changes;
} differences;

typedef struct diff_job {
    const recipe *a, *b;
    machine_of machine;
    const price_options *o;
    try_budget *budget; /* where it ends, what is left is one change; may be NULL */
} diff_job;

/* ERR_INPUT: different models. Memory comes from `a`. */
status differences_find(differences *out, const diff_job *j, arena *a, error *err);

#endif

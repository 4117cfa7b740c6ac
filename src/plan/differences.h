/* differences.h - two recipes of one model: which knobs differ, and what each of them accounts for.
 *
 * A change is a set of knobs that mean one thing (the moves of path.h, the cluster) or one knob. It
 * is counted twice: as a stop of a path from one recipe to the other, where the parts add up to
 * the whole; and alone, on top of the first recipe. Where the two differ, it acts together with
 * others. */
#ifndef PLAN_DIFFERENCES_H
#define PLAN_DIFFERENCES_H

#include "plan/path.h"
#include "predict/try.h"

typedef struct diff_knob {
    knob_id k;
    value from, to;
    bool made; /* a person or the model set it on either side; else it follows from others */
} diff_knob;

typedef struct diff_change {
    const char *names; /* "recompute"; several where one cannot change without the other */
    const char *words; /* overrides */
    price p;           /* after it; evidence is NULL */
    double seconds;    /* of the step that came, or went where negative, along the path */
    int64_t bytes;     /* the same of the fullest rank's peak */
    bool alone;        /* what follows is known: alone it breaks no rule and can be built */
    double alone_seconds;
    int64_t alone_bytes;
    moved kinds[MOVED_MAX];
    int n_kinds;
} diff_change;

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

/* The description of what a setup runs on. */
typedef status (*machine_of)(hardware *h, const setup *s, arena *a, error *err);

typedef struct diff_job {
    const recipe *a, *b;
    machine_of machine;
    const price_options *o;
    try_budget *budget; /* where it ends, what is left is one change; may be NULL */
} diff_job;

/* ERR_INPUT: different models. Memory comes from `a`. */
status differences_find(differences *out, const diff_job *j, arena *a, error *err);

#endif

/* path.h - from one recipe to another in single moves, each priced: why one beats the other.
 *
 * A move sets the knobs of one axis (axes.def): the split of layers over stages, what is made again
 * in backward, what runs beside expert messages. All other knobs (model, cluster, batch) are the
 * job. */
#ifndef PLAN_PATH_H
#define PLAN_PATH_H

#include "plan/axes.h"
#include "predict/price.h"

enum { PATH_MOVES = AX_NONE, MOVED_MAX = STEP_PARTS };

/* Seconds of a step that went (below zero) or came, of one part. */
typedef struct moved {
    const char *name, *title; /* as in step_part */
    double seconds;
} moved;

typedef struct path_step {
    const char *names; /* "recompute", or "TP and CP" where one cannot move without the other */
    const char *words; /* overrides, as a command line takes them */
    double gain;       /* step time before over after, minus one */
    price p;           /* after it; evidence is NULL */
    moved kinds[MOVED_MAX];
    int n_kinds; /* those that moved by a thousandth of the step or more, the largest first */
} path_step;

typedef struct path_ends {
    const recipe *from, *to; /* before setup_init; the same job on the same cluster */
    const hardware *hw;
    const price_options *o;
    double until; /* of clock_seconds: then what is left is one move; 0: however long it takes */
} path_ends;

/* Copies one setting as a person made it (or left it open), without other keys that would set it
 * again. */
void path_copy(recipe *r, const recipe *from, knob_id k);

/* Are two values of a knob the same? Lists of modules are sets. */
bool path_same(knob_id k, value x, value y);

/* Leaves what a search decides open, but for settings whose reason is `kept` (may be NULL). */
void path_open(recipe *r, const char *kept);

/* The moves that lead from one end to the other, the largest gain first; returns how many. `first`
 * is the price of `from`. A stop breaks no more rules than the one before it and fits. Where no
 * move alone leads to a faster one, two are made at once if that does; where none leads to any,
 * two, three, or all that are left. */
int price_path(path_step out[PATH_MOVES], const path_ends *e, const price *first, arena *a);

/* What moved between two prices; returns how many kinds. */
int price_moved(moved out[MOVED_MAX], const price *before, const price *after);

#endif

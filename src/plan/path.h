/* path.h - from one recipe to another in single changes, each priced: why one beats the other.
 *
 * A change sets knobs that mean one thing (an axis of axes.def, the cluster), or one knob alone. */
#ifndef PLAN_PATH_H
#define PLAN_PATH_H

#include "plan/axes.h"
#include "predict/try.h"

enum { PATH_MOVES = AX_NONE, MOVED_MAX = STEP_PARTS };

/* Seconds of a step that went (below zero) or came, of one part. */
typedef struct moved {
    const char *name, *title; /* as in step_part */
    double seconds;
} moved;

typedef struct path_step {
    const char *names; /* "recompute"; several where one cannot change without the other */
    const char *words; /* overrides, as a command line takes them */
    double gain;       /* step time before over after, minus one */
    double seconds;    /* that came, or went where negative */
    int64_t bytes;     /* the same of the fullest rank's peak */
    price p;           /* after it; evidence is NULL */
    moved kinds[MOVED_MAX];
    int n_kinds; /* those that moved by a thousandth of the step or more, the largest first */
    bool alone;  /* path_job: what follows is known: alone it breaks no rule and can be built */
    double alone_seconds;
    int64_t alone_bytes;
} path_step;

typedef struct path_end {
    const recipe *given; /* before setup_init */
    const setup *s;
    const price *p;
} path_end;

typedef enum path_way {
    PATH_FASTEST, /* the largest gain first, of stops that fit and break no more rules than the one
                     before; where no change alone gains, two are made at once if they do */
    PATH_NEAREST, /* the least difference first: what matters only before or after another change is
                     else charged with what that one takes back. Each is priced alone, too. */
} path_way;

typedef struct path_job {
    path_end from, to;
    path_way way;
    try_job t;    /* with what stops are priced; errors that they may have */
    double until; /* of clock_seconds: then what is left is one change; 0: however long it takes */
} path_job;

/* The changes that lead from one end to the other; their seconds and bytes add up to the whole.
 * Changes that are not possible alone are made together. Memory comes from `a`. */
path_step *path_find(int *n, const path_job *j, arena *a);

/* Leaves what a search decides open, but for settings whose reason is `kept` (may be NULL). */
void path_open(recipe *r, const char *kept);

/* Are two values of a knob the same? Lists of modules are sets. */
bool path_same(knob_id k, value x, value y);

/* Did a person or the model set it on either side? Else it follows from others. */
bool path_made(const recipe *x, const recipe *y, knob_id k);

/* What moved between two prices; returns how many kinds. */
int price_moved(moved out[MOVED_MAX], const price *before, const price *after);

#endif

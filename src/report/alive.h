/* alive.h - activations and temporaries that a rank holds over a step. Sizes come from its program,
 * times from the simulated step or from the time stamps of a run.
 *
 * I1  Saved buffers are alive from the start of an instance's forward to the end of its backward,
 *     temporaries while their list runs. The plan has more where inputs are received ahead: their
 *     slots are taken sooner. */
#ifndef REPORT_ALIVE_H
#define REPORT_ALIVE_H

#include "ir/program.h"

typedef struct alive_change {
    double at;
    int64_t saved, temp; /* that come, or go where negative */
} alive_change;

typedef struct alive_list {
    alive_change *list;
    int64_t n, room;
} alive_list;

/* The fullest moment of a part of the step. All else is there for the whole step. */
typedef struct memory_point {
    double at;
    int64_t saved, temp;
} memory_point;

/* An item of the step ran from `start` to `end`. Items come in the order of time. */
void alive_add(alive_list *l, const program *p, const item *it, double start, double end, arena *a);

/* Fills in `n` equal parts of a step of `step` seconds. The most that was saved at once. */
int64_t alive_sample(memory_point *out, int64_t n, const alive_list *l, double step);

#endif

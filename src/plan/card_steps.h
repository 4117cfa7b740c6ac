/* card_steps.h - the time of a step, played over chunks: what whole programs are played for item by
 * item in stages.c, from cards. */
#ifndef PLAN_CARD_STEPS_H
#define PLAN_CARD_STEPS_H

#include "plan/card_ranks.h"

typedef struct step_simulation {
    const choice *c;
    const step_shape *z;
    const layout_facts *f;
    cards *k;
    const chunk_sum *chunks; /* [pp * vpp] by stage */
    double message;          /* [T][H] to a neighbour */
} step_simulation;

/* Seconds of the slowest rank. */
double step_optimizer(const step_simulation *p);

/* The step, with messages between stages, gradients and weights. */
double step_seconds(const step_simulation *p, arena *scratch);

/* What the ranks of a pipeline with combined 1F1B do at least: far quicker found, and not above
 * step_seconds but for rounding. */
double step_least(const step_simulation *p, arena *scratch);

#endif

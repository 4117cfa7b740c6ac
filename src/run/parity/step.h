/* step.h - one step of a reference case on a rank. Internal to src/run/parity*.c. */
#ifndef RUN_PARITY_STEP_H
#define RUN_PARITY_STEP_H

#include "run/data/batch.h"
#include "run/parity/case.h"
#include "run/step.h"

typedef struct parity {
    const golden_case *g;
    const setup *s;
    program *p;
    executor *e;
    comm *c;
    float *mask; /* [batch][seq]: 0 where a label does not count */
    arena *a;
    optimizer o;
    step_rates rates;
    double overflow; /* a routed buffer was asked for this many times its room, if above 1 */
} parity;

/* Sums of squares over elements. */
typedef struct squares {
    double difference, golden;
} squares;

/* Forward and backward of the whole batch, collective; the loss. With `logits`, adds those of this
 * rank to it: its tokens, its part of the vocabulary. */
double parity_step(parity *q, squares *logits);

/* AdamW with the gradients of the last step; collective. */
void parity_update(parity *q);

#endif

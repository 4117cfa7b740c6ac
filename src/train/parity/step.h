/* step.h - one step of a reference case on a rank. Internal to src/train/parity*.c. */
#ifndef TRAIN_PARITY_STEP_H
#define TRAIN_PARITY_STEP_H

#include "train/data/batch.h"
#include "train/parity/case.h"
#include "train/executor/step.h"

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

/* colours.h - ranks that can be played as one.
 *
 * Ranks of one colour have the same shape of messages and waits in the part that is played, and the
 * same colours around them: in each group that they use the same set of colours, at each distance
 * that they send over the same colour. Played in step with each other they stay in the same place,
 * so one of them stands for all (an actor). Colours of a part refine those of the part before. */
#ifndef PREDICT_AUDIT_COLOURS_H
#define PREDICT_AUDIT_COLOURS_H

#include "predict/audit/state.h"

typedef struct colours {
    int32_t *of; /* [world] */
    int32_t n;
    int64_t *rank; /* [n]: the first of each */
} colours;

/* `before` NULL: the first part. Memory comes from `a`. */
colours colours_make(const audit_state *t, item_part part, const colours *before, arena *a);

#endif

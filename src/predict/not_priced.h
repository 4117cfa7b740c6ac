/* not_priced.h - knobs that change speed or memory under Megatron and that a price does not see.
 * They are named where somebody sets them: no prediction is silent about what it leaves out. */
#ifndef PREDICT_NOT_PRICED_H
#define PREDICT_NOT_PRICED_H

#include "config/recipe.h"

typedef struct not_priced {
    const char *key, *value; /* as set */
    const char *assumed;     /* what is priced instead */
} not_priced;

enum { NOT_PRICED_MAX = 32 };

/* Those that a person set to something else than what is priced; returns how many. Texts come from
 * `a` or live for ever. */
int price_leaves_out(not_priced out[NOT_PRICED_MAX], const recipe *r, arena *a);

#endif

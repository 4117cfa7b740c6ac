/* activation_offload.h - activations on the host, which the search does not cover, tried on the
 * layouts that it found. */
#ifndef PLAN_ACTIVATION_OFFLOAD_H
#define PLAN_ACTIVATION_OFFLOAD_H

#include "plan/variant.h"

typedef struct activation_offload {
    int tried;      /* variants that could be priced */
    bool tried_any; /* what follows is there: the best that was met */
    bool helps;     /* it fits, and is faster than the first or nothing else fits */
    bool complete;  /* the time was enough */
    variant v;
    const char *modules; /* of model.offload_modules */
    price p;             /* of what does not fit memory alone, where its program is giant */
} activation_offload;

/* Ends at `until`, of clock_seconds. */
void activation_offload_try(activation_offload *out, const variant_job *j, double until, arena *a);

#endif

/* bring_up.h - the order in which an expert brings a plan's winner up: what is easiest to trust
 * first, then one thing after the other.
 *
 * First all-to-all, eager, in BF16: a loss curve to hold the rest against. Then the winner's
 * dispatcher, its overlap, its CUDA graphs, its narrow precision. The last one is the winner. */
#ifndef PLAN_BRING_UP_H
#define PLAN_BRING_UP_H

#include "plan/variant.h"

typedef enum bring_up_stage {
    BRING_UP_EAGER,
    BRING_UP_DISPATCHER,
    BRING_UP_OVERLAP,
    BRING_UP_GRAPHS,
    BRING_UP_PRECISION,
    BRING_UP_STAGES
} bring_up_stage;

typedef enum bring_up_end {
    BRING_UP_MADE,
    BRING_UP_NOT_THERE, /* the winner has no such thing */
    BRING_UP_RULE,      /* it would break `rule` */
    BRING_UP_NO_LAYOUT,
    BRING_UP_NO_ROOM /* not even with more recompute */
} bring_up_end;

/* What follows `end` is there where a program could be built. */
typedef struct bring_up_layout {
    bring_up_end end;
    const rule *rule;
    choice before; /* more is recomputed or on the host in `v`, so that it fits */
    variant v;
    edits added_rules; /* so that it breaks no rule */
    int n_warnings;    /* and notes */
    recipe *r;
    price p;
} bring_up_layout;

/* Each that is made breaks no rule and fits. */
void bring_up_find(bring_up_layout out[BRING_UP_STAGES], const variant_job *j, const setup *winner,
                   arena *a);

#endif

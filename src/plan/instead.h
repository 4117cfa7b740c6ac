/* instead.h - what the winner of a plan could have been: each of its choices beside the other ones,
 * all else equal, priced as whole programs. */
#ifndef PLAN_INSTEAD_H
#define PLAN_INSTEAD_H

#include "plan/repairs.h"
#include "plan/variant.h"

typedef struct instead {
    why_topic topic;
    knob_id k; /* which is another, or the first of them */
    variant v;
    bool priced;
    const rule *rule;        /* not priced: one that it breaks */
    const char *unsupported; /* what no published run has; NULL: all of it */
    price p;
} instead;

enum { INSTEAD_MAX = 40 };

/* By topic, in the order of why_topic; returns how many. `winner` is the setup of the first. */
int instead_find(instead out[INSTEAD_MAX], const variant_job *j, const setup *winner, arena *a);

/* What `check` says of the winner, and what each repair of a warning or a note would cost. */
void instead_warnings(violations *out, const variant_job *j, const setup *winner, arena *a);

#endif

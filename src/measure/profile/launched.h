/* launched.h - which call of the host launched a kernel, and in which operations it was. Internal
 * to src/measure/profile. */
#ifndef MEASURE_PROFILE_LAUNCHED_H
#define MEASURE_PROFILE_LAUNCHED_H

#include "measure/profile/profile.h"

enum { OPS_MAX = 32 }; /* around a launch; the outermost and the innermost ones are kept */

typedef struct launched {
    const profile_events *e;
    int64_t *parent; /* [n_ranges] of a range: the one around it; -1: none */
} launched;

/* Sorts calls and ranges of the events. */
void launched_init(launched *l, profile_events *e, arena *a);

/* NULL: the file has no call of that correlation. */
const profile_call *launched_by(const launched *l, int64_t correlation);

/* Numbers of names of the operations around a call, the outermost first; returns how many. */
int launched_ops(const launched *l, const profile_call *c, int out[OPS_MAX]);

#endif

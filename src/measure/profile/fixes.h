/* fixes.h - what the guides do about a wall, in their order, each priced for the recipe at hand. */
#ifndef MEASURE_PROFILE_FIXES_H
#define MEASURE_PROFILE_FIXES_H

#include "plan/changes.h"
#include "measure/profile/profile.h"

typedef struct profile_fix {
    const char *what;    /* a few words */
    price_change change; /* words NULL: advice without a knob */
} profile_fix;

enum { FIXES_MAX = 16 };

/* Those that the recipe does not have yet and that break no rule; returns how many. `kind` is the
 * largest exposed communication. */
int profile_fixes(profile_fix *out, wall w, cost_kind kind, const change_job *j, arena *a);

#endif

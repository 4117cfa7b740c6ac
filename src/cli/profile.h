/* profile.h - a profile beside the price of its recipe. Internal to src/cli. */
#ifndef CLI_PROFILE_H
#define CLI_PROFILE_H

#include "cli/cli.h"
#include "measure/profile/fixes.h"

enum { PROFILE_ROWS = PROFILE_KINDS + CAUSE_COUNT + 4 };

/* Seconds of a step; NAN: that side does not know it. */
typedef struct profile_row {
    const char *name, *title; /* a key of JSON, and as people say it */
    double measured, predicted;
    double hidden; /* measured, messages beside compute */
} profile_row;

typedef struct profiled {
    const char *path;
    bool json, without_optimizer, why, everything;
    int64_t steps;
    const setup *s;
    const hardware *hw;
    profile p;
    price predicted, measured; /* the same form */
    profile_row rows[PROFILE_ROWS];
    int n_rows;
    double predicted_step;
    profile_fix fixes[FIXES_MAX];
    int n_fixes;
} profiled;

void profile_make_rows(profiled *q);
void profile_print(const profiled *q, arena *a);
json_t *profile_json(const profiled *q, arena *a);

#endif

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

/* Which word is the profile: the last one that is a file behind the recipe, else the second; 0:
 * there is none. */
int profile_find_file(const cli_words *w, arena *a);

/* The words without that one. */
cli_words profile_recipe_words(const cli_words *w, int without, arena *a);

/* --without and --steps; NULL: not given. */
status profile_options(profiled *q, const char *without, const char *steps, error *err);

/* Reads q->path, prices the recipe, makes rows and fixes. */
status profile_look(profiled *q, const recipe *r, const price_options *o, arena *a, error *err);

void profile_make_rows(profiled *q);
void profile_print(const profiled *q, arena *a);
json_t *profile_json(const profiled *q, arena *a);

#endif

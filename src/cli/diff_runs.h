/* diff_runs.h - `moefold diff` where a side was measured. */
#ifndef CLI_DIFF_RUNS_H
#define CLI_DIFF_RUNS_H

#include "cli/diff.h"
#include "report/compare_runs.h"
#include "report/run_folder.h"

/* A side of the command, where it is something measured. Who reads another kind (a log, a profile)
 * adds a row to the table of diff_runs.c: what it is, its recipe if it has one, its steps. */
typedef struct diff_run {
    const char *word;   /* as it was named; NULL: a recipe, nothing was measured */
    const char *recipe; /* what to read as the side's recipe */
    measured_side m;
    run_folder folder; /* where it is one */
    trace t;
} diff_run;

/* ERR_INPUT: it is one, but cannot be read. Where it is none, `out->word` is NULL. */
status diff_run_read(diff_run *out, const char *word, arena *a, error *err);
void diff_run_release(diff_run *r);

/* Of two runs both sides' steps come from summaries, or both from metrics. */
void diff_runs_alike(diff_run side[2], arena *a);

typedef struct diff_runs {
    diff_run side[2];
    bool both;
    runs_compared c; /* both */
} diff_runs;

/* For the screen: a run beside a recipe's prediction; how much such runs vary. */
void diff_runs_screen_one(const diff_runs *r, const differences *d, arena *a);
void diff_runs_screen_noise(const diff_runs *r, arena *a);

void diff_runs_print(const diff_runs *r, const differences *d, arena *a);
const struct measured_ends_answer *diff_runs_answer(const diff_runs *r, arena *a);

#endif

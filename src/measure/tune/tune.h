/* tune.h - fit, scale, profile, retune: trials of a recipe, each measured, until none is left that
 * is predicted to be better.
 *
 * The job (model, sequence, batch, precision, data, number of ranks) is fixed; what a search
 * decides (axis_decides) and nobody pinned may change. A trial is the start recipe with a *change*:
 * overrides in the order of the knob table, so that two ways to the same recipe are one trial. All
 * trials lie in a folder:
 *
 *     start.yaml      the recipe that tuning began with; another one is refused
 *     trials.jsonl    a line for every trial that was written or measured; of a number the last
 *                     line counts
 *     hardware.yaml   the machine as the trials measured it, which the next prices use
 *     NNN/            a trial: recipe.yaml, log, run/ (as `train --run` writes it); beside/ is the
 *                     best so far, run again right before it; again/ is the trial itself, run in
 *                     turn with others as fast
 *     best.yaml       the fastest so far
 *
 * I1  Which trial comes next follows from the folder alone: a tuning that was interrupted goes on
 *     as if it had not been.
 * I2  A trial that crashes, is too slow or lacks memory is a result, and is not tried again. What
 *     needs as much memory as one that lacked it is not tried at all. */
#ifndef MEASURE_TUNE_TUNE_H
#define MEASURE_TUNE_TUNE_H

#include "base/planted.h"
#include "config/edit.h"
#include "predict/try.h"

typedef enum trial_end {
    TRIAL_PENDING, /* written for a cluster elsewhere, not told yet */
    TRIAL_MEASURED,
    TRIAL_NO_MEMORY,
    TRIAL_CRASHED, /* by a signal */
    TRIAL_FAILED,  /* it ended with an error */
    TRIAL_SLOW,    /* it was ended: its time was up */
    TRIAL_ENDS
} trial_end;
const char *trial_end_name(trial_end e);

typedef struct trial {
    int number, from;                   /* of the trial that it changes; -1: it is the start */
    const char *change, *reason, *said; /* `said`: an error's last line, or NULL */
    trial_end end;
    double step_s, spread; /* lower quartile of steps; distance of quartiles over it */
    double expected_s;     /* before it was measured; 0: nothing was known */
    int rounds;            /* in which it ran again in turn with others as fast; 0: it did not */
    double seconds;        /* that the trial took */
    int64_t peak_bytes;    /* predicted */
    bool has_parts;
    double parts[STEP_PARTS]; /* measured, as price_parts has them */
    wall wall;
    const char *evidence; /* NULL: not measured */
} trial;

enum { TRIALS_MAX = 1000, TUNE_PRICING = 30 }; /* the latter: seconds, as try_budget counts them */

typedef struct tune {
    const char *dir;
    const recipe *start; /* before setup_init, pins and all */
    bool pinned[K_COUNT];
    hardware base, hw; /* as it was described; as the trials measured it */
    double measured[STEP_PARTS], predicted[STEP_PARTS]; /* sums over the trials, with `base` */
    int n_learned;                                      /* trials whose parts those are */
    trial trials[TRIALS_MAX];
    int n;
    /* Machines that are invented: set `end`, `step_s`, `spread` and `parts` of a trial by its
     * `change`, and no process is started. NULL: a process of this program. */
    void (*measure)(const struct tune *t, trial *x);
    void *machine;       /* of `measure` */
    const char *program; /* what a process runs; NULL: this program */
    arena *a;
} tune;

/* Of a test build: another program, which invents what a trial measures. */
PLANTED status planted_trial(const char **path, error *err);

/* ---- the folder */

/* Makes it, or reads what is there. ERR_INPUT: it is of another recipe, or a line is damaged. */
status tune_open(tune *t, error *err);
/* Reads a folder that is there, and writes nothing. */
status tune_look(tune *t, error *err);
/* Appends the trial's line, and writes hardware.yaml and best.yaml anew. */
status tune_record(tune *t, const trial *x, error *err);
status tune_write_recipe(const tune *t, const trial *x, error *err);
const char *tune_path(const tune *t, const trial *x, const char *name);

/* ---- prices */

/* The recipe of a change; false: it cannot be laid out, breaks a rule or cannot run here. */
bool tune_recipe(const tune *t, const char *change, recipe *out, arena *a);
bool tune_price_of(const tune *t, const char *change, try_result *out, arena *a);
bool tune_price_within(const tune *t, const char *change, try_result *out, try_budget *budget,
                       arena *a);

/* Edits on top of a change, as a change; NULL: a knob that may not change, or a wrong one. */
const char *tune_change(const tune *t, const char *change, edits more, arena *a);

/* Sets t->hw by all trials that were measured. */
void tune_learn(tune *t);

/* The parts that were measured as a price: its wall and evidence. */
void tune_see_wall(const tune *t, trial *x);

/* ---- what comes next */

typedef struct tune_next {
    bool done;
    trial next;      /* where not done: number, from, change, reason, expected_s, peak_bytes */
    double least_s;  /* what the most promising that was not tried is expected to take; 0: none */
    double band;     /* of that, as a part */
    const char *why; /* where done */
    int n_left;      /* that were priced and not tried */
} tune_next;

const trial *tune_best(const tune *t); /* the fastest; NULL: nothing was measured */
/* What is recommended: the fastest of those that ran in turn. Before that, of those as fast as the
 * fastest, as far as measurements can tell, the one with the lowest price. */
const trial *tune_pick(const tune *t);
void tune_choose(const tune *t, tune_next *out, arena *a);

/* ---- a trial */

typedef struct trial_run {
    int64_t steps;
    const char *threads; /* NULL: the program's own choice */
    double most_seconds;
} trial_run;

/* Runs `moefold train` in a process of its own and reads what it left. ERR_MACHINE: no process
 * could be started. */
status trial_measure(tune *t, trial *x, const trial_run *r, error *err);

/* Runs the recipe of one trial once more, into the folder `again` of its own, or `beside` of
 * another's: the seconds of a step, 0: it failed. */
status trial_again(tune *t, const trial *of, const trial *in, const trial_run *r, double *out,
                   error *err);

/* How many trials are too close to the fastest to be told apart, and did not all run in turn yet;
 * 0: none. */
int tune_close(tune *t);

/* Runs those in turn and records what they took; no round begins after `until` (clock_seconds). */
status tune_confirm(tune *t, const trial_run *r, double until, error *err);

/* What a log of a cluster says about a trial. */
status trial_told(tune *t, trial *x, const char *log, error *err);

#endif

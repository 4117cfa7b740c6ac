/* compare_runs.h - two runs side by side: is the difference noise, and which operations are it?
 *
 * I1  Times of steps vary inside a run. A difference of medians is noise unless it exceeds the
 *     spreads of both runs (half the distance between the 10th and the 90th percentile of their
 *     steps, added as the root of squares) plus the time that other programs took from the two
 *     runs.
 * I2  An operation differs where its time does by more than a hundredth of the step, by more than
 *     twice what it varies from step to step, and by more than the runs' own band.
 * I3  The duration of a step is the duration of its compute stream: computations, and waits for
 *     everything else. So the rows add up to the difference of the steps, and hidden communication
 *     is not counted. */
#ifndef REPORT_COMPARE_RUNS_H
#define REPORT_COMPARE_RUNS_H

#include "predict/measured.h"
#include "predict/trace/compare.h"

/* What was measured of one side, whoever measured it: a run's folder, or another program's log. */
typedef struct measured_side {
    const char *name;
    const double *steps; /* [n] seconds, in their order, without warm-up */
    int64_t n;
    const trace *t;  /* NULL: no operations */
    double delay;    /* seconds of a step in which ranks could run and had no core, in the mean over
                   * ranks and steps; 0: not known */
    double left_out; /* the same, where `steps` are without it */
    int64_t peak_bytes; /* of the fullest rank; 0: not known */
    int64_t loss_at;    /* iteration of `loss`; 0: not known */
    double loss;
} measured_side;

typedef struct side_steps {
    double median, low, high; /* of steps; the tenth and the ninetieth part */
} side_steps;

typedef struct run_row {
    trace_row row;
    double noise; /* seconds that it has to differ by (I2) */
} run_row;

enum { RUN_ROWS_MAX = 20 };

typedef struct runs_compared {
    side_steps steps[2];
    double change;  /* B's median over A's, less one */
    double band;    /* of the same; 0: not known, too few steps */
    bool noise;     /* I1 */
    bool has_parts; /* both have operations */
    step_part parts[2][STEP_PARTS];
    double step_s[2];           /* of the traced steps */
    run_row rows[RUN_ROWS_MAX]; /* the largest difference first; none where all is noise */
    int n_rows;
} runs_compared;

enum { STEPS_FOR_BAND = 4 };

/* Of a side with steps. Memory comes from `a`. */
side_steps compare_steps(const measured_side *s, arena *a);

/* Both have steps. */
void compare_runs(runs_compared *out, const measured_side *x, const measured_side *y, arena *a);

#endif

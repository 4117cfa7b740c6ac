/* run_folder.h - what `train --run` has left, read back (docs/RUNS.md). */
#ifndef REPORT_RUN_FOLDER_H
#define REPORT_RUN_FOLDER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/json.h"
#include "base/arena.h"
#include "base/status.h"

/* One iteration line. NaN: the line has no such number. */
typedef struct run_line {
    int64_t iteration;
    double loss, norm, lr, seconds; /* seconds: an iteration */
} run_line;

typedef struct run_lines {
    run_line *list; /* by iteration; of one that was done twice the later one */
    int64_t n;
    double *validation; /* [n_validations][2]: iteration, loss */
    int64_t n_validations;
} run_lines;

typedef struct run_folder {
    const char *path, *recipe; /* the folder; its recipe.yaml */
    const char *trace;         /* NULL: there is none */
    const char *routing;       /* the same */
    run_lines lines;
    json_t *summary; /* NULL: the run has not ended */
} run_folder;

/* A folder that holds one of the files, and is no model's. */
bool run_folder_is(const char *path);

/* ERR_INPUT: not a run's, or files that are not (which, where and the repair). Memory comes from
 * `a`, but for the summary. */
status run_folder_read(run_folder *out, const char *path, arena *a, error *err);
void run_folder_release(run_folder *r);

/* metrics.jsonl: a line that a crash has cut, the last, is left out. */
status run_lines_parse(run_lines *out, const char *path, const char *data, size_t n, arena *a,
                       error *err);

/* summary.json; the caller gives it back. */
status run_summary_parse(json_t **out, const char *path, const char *data, size_t n, error *err);

/* Seconds of its steps without the first: those of the summary, else of the lines. Returns how
 * many. */
int64_t run_steps(const run_folder *r, double **out, arena *a);

#endif

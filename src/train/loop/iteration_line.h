/* iteration_line.h - what a run says of itself: Megatron's lines, field by field, and JSON.
 *
 * Scripts that read Megatron's logs read ours, so names, order and widths are those of
 * Megatron-Bridge. The same facts are one JSON object each, for `--json` and for the metrics file;
 * what JSON cannot hold (NaN, Inf) is null there.
 *
 * Text goes into a buffer of the caller's, without the final newline, and is cut to fit. JSON
 * objects belong to the caller (json_decref). */
#ifndef TRAIN_LOOP_ITERATION_LINE_H
#define TRAIN_LOOP_ITERATION_LINE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include "base/json.h"
#include "base/status.h"

enum { LINE_BYTES = 4096, LOSSES_MAX = 16 };

/* Names ("lm loss", "load_balancing_loss", "mtp_1 loss") stay the caller's. */
typedef struct named_loss {
    const char *name;
    double value;
} named_loss;

/* Fields that not every line has. */
typedef enum line_field {
    LINE_THROUGHPUT = 1,
    LINE_NORM = 2,
    LINE_ZEROS = 4,
    LINE_PARAMS_NORM = 8,
    LINE_MAX_LOGIT = 16,
} line_field;

typedef struct iteration_line {
    time_t when;
    int64_t iteration, train_iters; /* from 1 */
    int64_t consumed_samples;       /* of the whole run, skipped steps included */
    int64_t skipped_samples;        /* shown when there are any */
    double seconds;                 /* per iteration of the interval */
    double tflops, tokens_per_second;
    double lr;
    int64_t global_batch;
    named_loss losses[LOSSES_MAX]; /* means over the interval; a negative one is not shown */
    int n_losses;
    double loss_scale, norm;
    int64_t zeros;
    double params_norm, max_logit;
    int64_t skipped, nan; /* iterations of the interval */
    unsigned has;         /* line_field */
} iteration_line;

/* Model TFLOP/s of one GPU: recompute does not count. */
double iteration_tflops(double flops_per_token, int64_t tokens, double seconds, int64_t gpus);

void iteration_line_print(char *out, size_t room, const iteration_line *it);

/* What Megatron-Bridge's rank 0 says before it; its benchmark scripts read this one. */
void step_time_print(char *out, size_t room, const iteration_line *it);

json_t *iteration_line_json(const iteration_line *it);

/* ---- an interval of iterations that share a line (logger.log_interval) */

typedef struct log_interval {
    named_loss sums[LOSSES_MAX];
    int n_losses;
    int64_t iterations, advanced, skipped, nan;
    double seconds;
} log_interval;

/* Losses of a skipped iteration are not averaged; one that is NaN or Inf makes a nan iteration. */
void log_interval_add(log_interval *t, const named_loss *losses, int n_losses, bool skipped,
                      double seconds);

/* Puts means and counts into the line's fields and starts the next interval. Where all iterations
 * were skipped the means are NaN: not shown, and null in JSON. */
void log_interval_close(log_interval *t, iteration_line *it);

/* ---- other lines */

/* Three lines: the losses and their perplexities between rules. `name` is where it was taken:
 * "iteration 50". */
void validation_print(char *out, size_t room, const char *name, const named_loss *losses,
                      int n_losses);
json_t *validation_json(int64_t at, const char *set, const named_loss *losses, int n_losses);

/* A checkpoint as its lines name it. */
typedef struct checkpoint_note {
    int64_t iteration;
    const char *folder, *format;
    int64_t tp, pp; /* sizes; the first rank speaks */
} checkpoint_note;

void saving_print(char *out, size_t room, const checkpoint_note *c);
void saved_print(char *out, size_t room, const checkpoint_note *c);
void loaded_print(char *out, size_t room, const checkpoint_note *c);
json_t *saved_json(const checkpoint_note *c);

/* "[Rank 0] (after 2 iterations) memory (GB) | ...": bytes in use now and at most. */
void memory_print(char *out, size_t room, int64_t iterations, int64_t bytes, int64_t peak);

/* ---- metrics file: one JSON object a line */

typedef struct metrics_file {
    FILE *file;
    const char *path; /* the caller's; NULL: closed */
} metrics_file;

/* A run that resumes after this iteration goes on in the file: what an earlier one wrote of later
 * iterations, and a line that it did not complete, are taken out. Another (0) starts it anew. */
status metrics_open(metrics_file *m, const char *path, int64_t after, error *err);

/* Writes and gives `object` back. A line is with the system when this returns. */
status metrics_write(metrics_file *m, json_t *object, error *err);
status metrics_close(metrics_file *m, error *err);

#endif

/* progress.h - how far a run is, on the last line of a terminal.
 *
 *      12/100 [===>                          ]  12%  1.84 s/it  ETA 0:02:41
 *
 * In a pipe or a file there is no bar. While there is one, every line that a run prints goes
 * through progress_line, which takes the bar away first: the bar never garbles a line, whether
 * that goes to the same terminal or elsewhere. */
#ifndef TRAIN_LOOP_PROGRESS_H
#define TRAIN_LOOP_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef struct progress {
    FILE *out;
    bool on;             /* out is a terminal that can erase a line */
    bool shown;          /* the bar stands on the terminal's last line */
    int64_t first;       /* steps done before this run */
    int64_t done, total; /* steps, those included */
    double started, drawn, now;
} progress;

/* Times are seconds of one clock that does not go back. `out` stays the caller's. */
void progress_init(progress *p, FILE *out, int64_t first, int64_t total, double now);

/* A step is done. The bar is drawn at most ten times a second. */
void progress_step(progress *p, int64_t done, double now);

/* Prints text and a newline on `to`, and puts the bar back below. */
void progress_line(progress *p, FILE *to, const char *text);

/* Takes the bar away for good. */
void progress_finish(progress *p);

/* The bar of a terminal this many columns wide, without control codes; at most columns - 1 bytes,
 * so that the terminal never wraps it. */
void progress_text(const progress *p, char *out, size_t room, int columns);

#endif

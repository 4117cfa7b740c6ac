/* trainer.h - a training run on this machine: data, steps, lines, checkpoints, signals.
 *
 * The plan is the program: the arena is the one that `show --memory` prints, and nothing is
 * allocated inside a step. A run that is stopped by SIGTERM or SIGINT finishes its step, writes a
 * checkpoint where it may, and leaves. Resuming is exact: the lines after it are those of a run
 * that was never stopped. */
#ifndef RUN_TRAINER_H
#define RUN_TRAINER_H

#include "program/program.h"

typedef struct train_options {
    bool json;           /* lines for programs instead of Megatron's */
    bool plain;          /* oracle kernels only */
    int threads;         /* 0: as many as the machine has */
    const char *metrics; /* file of JSON lines; NULL: none */
} train_options;

typedef struct train_summary {
    double first_loss, last_loss;
    int64_t iterations, skipped;
    double seconds, tokens_per_second;
    bool interrupted;
} train_summary;

/* Trains as the setup says; it is valid. Lines go to the standard output, the bar to the standard
 * error. */
status trainer_run(const setup *s, const train_options *o, train_summary *summary, arena *a,
                   error *err);

#endif

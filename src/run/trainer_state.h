/* trainer_state.h - what the files of the trainer share. Internal to src/run/trainer*.c. */
#ifndef RUN_TRAINER_STATE_H
#define RUN_TRAINER_STATE_H

#include "run/batch.h"
#include "run/checkpoint.h"
#include "run/data_sampler.h"
#include "run/data_source.h"
#include "run/iteration_line.h"
#include "run/optimizer.h"
#include "run/progress.h"
#include "run/schedule.h"
#include "run/trainer.h"

typedef struct trainer {
    const setup *s;
    const train_options *o;
    arena *a;
    program p;
    executor *e;
    optimizer opt;
    schedule rates;
    data_source *data;
    checkpoint_state at; /* counters */
    int64_t train_iters, gbs;
    int32_t *tokens, *labels, *positions; /* [T] of a microbatch */
    float *mask;
    double *tokens_of; /* [micros] tokens that count */
    float *w, *g, *m, *v;
    const char *config; /* text of config.json, for checkpoints */
    log_interval interval;
    progress bar;
    metrics_file metrics;
    double started;
} trainer;

/* What a step gives. */
typedef struct step_losses {
    named_loss list[LOSSES_MAX];
    int n;
    bool finite;
} step_losses;

double trainer_seconds(void); /* of a clock that does not go back */

/* Forward and backward of one global batch; losses. */
status trainer_step(trainer *t, step_losses *out, error *err);

/* Mean loss over `iters` global batches of the validation set. */
status trainer_validate(trainer *t, int64_t iters, step_losses *out, error *err);

/* Weights from a checkpoint, from files, or drawn; counters. */
status trainer_start(trainer *t, error *err);
status trainer_save(trainer *t, error *err);

#endif

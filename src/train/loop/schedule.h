/* schedule.h - learning rate and weight decay as functions of the samples seen.
 *
 * n counts the samples of *successful* steps: a skipped step does not move the schedule, though its
 * data are consumed. A step uses the values at the n before it, so with a warm-up the first step
 * uses the warm-up's start (usually 0), as in Megatron.
 *
 * All lengths are in samples. A recipe may give them in steps, which count global batches of the
 * final size, even where batches grow. The length of the decay is the run's unless it is given, the
 * anneal of WSD is as long as the decay unless it is given, and weight decay changes over the run.
 * Megatron-Bridge shortens a warm-up that is not shorter than the decay; we refuse it, since
 * nothing is changed silently. */
#ifndef TRAIN_LOOP_SCHEDULE_H
#define TRAIN_LOOP_SCHEDULE_H

#include "base/status.h"
#include "job/job.h"

typedef enum lr_style { LR_CONSTANT, LR_LINEAR, LR_COSINE, LR_INVERSE_ROOT, LR_WSD } lr_style;
typedef enum wsd_style { WSD_EXPONENTIAL, WSD_LINEAR, WSD_COSINE, WSD_MINUS_ROOT } wsd_style;
typedef enum decay_style { DECAY_CONSTANT, DECAY_LINEAR, DECAY_COSINE } decay_style;

/* Plain data: a checkpoint stores it field by field. */
typedef struct schedule {
    lr_style style;
    wsd_style anneal_style; /* of WSD */
    double first_lr;        /* where the warm-up starts */
    double lr, min_lr;
    double embedding_lr, embedding_min_lr; /* word table and head; as above unless decoupled */
    double warmup;                         /* may be a fraction of a sample: a part of decay */
    int64_t decay;                         /* after it the smallest rate */
    int64_t anneal;                        /* WSD: the last part of decay */
    decay_style wd_style;
    double first_wd, wd;
    int64_t wd_growth; /* how long weight decay changes: the whole run */
} schedule;

/* From resolved knobs. ERR_RULE: no length of the run, no learning rate, a warm-up that is not
 * shorter than the decay, rates or decays in the wrong order. */
status schedule_init(schedule *s, const job *j, int64_t global_batch, error *err);

double schedule_lr(const schedule *s, int64_t n);
double schedule_embedding_lr(const schedule *s, int64_t n); /* of word table and head */
double schedule_decay(const schedule *s, int64_t n);

#endif

/* optimizer.h - AdamW on flat arrays, and what is decided before it: norm, clip, skip.
 *
 * Weights and gradients are arrays of the same shape (program/weights.h); the moments are arrays of
 * the slices that this rank owns, and only what lies in those is read and written here. Where the
 * model computes in BF16 it is the master of a weight that is updated, and the weight is its
 * rounding. With t counting successful steps from 1:
 *
 *     g = gradient * scale * clip
 *     m = b1 m + (1-b1) g        v = b2 v + (1-b2) g^2
 *     w = w - lr * ( (m / (1-b1^t)) / (sqrt(v / (1-b2^t)) + eps) + decay * w )
 *
 * Without optimizer.decoupled_weight_decay, decay * w is added to g instead. The word table and the
 * head may have a learning rate of their own. Untrained buffers and the padding between weights are
 * neither read nor written.
 *
 * A step is three calls, so that ranks can add up their squares between the first and the second:
 * optimizer_squares, optimizer_judge, optimizer_update. optimizer_step is the three for a rank that
 * is alone. Nothing here is collective or allocates after optimizer_init, and results do not depend
 * on the number of threads. */
#ifndef RUN_OPTIMIZER_H
#define RUN_OPTIMIZER_H

#include "program/program.h"

/* Which weights decay.
 *
 * DECAY_MEGATRON  train: all of two or more dimensions that are no biases; with
 *                 optimizer.apply_wd_to_qk_layernorm the norms of queries and keys too.
 * DECAY_FILE      reference cases: what has two or more dimensions *in the Hugging Face file*, the
 *                 stacked biases of experts included. */
typedef enum decay_rule { DECAY_MEGATRON, DECAY_FILE } decay_rule;

/* A run of elements of one weight, all owned by this rank, that one thread works on. */
typedef struct optimizer_piece {
    int64_t offset, n;
    int64_t moments; /* where it starts in the moments */
    bool decay;
    bool embedding; /* word table or head */
    bool answers;   /* counts in sums: run/owned.h */
} optimizer_piece;

typedef struct optimizer {
    double beta1, beta2, eps;
    double clip;      /* largest global norm; 0: no clipping */
    double skip_norm; /* a step with a larger norm is skipped; infinite: none is */
    bool l2;          /* decay goes into the gradient */
    int64_t steps;    /* successful ones so far; a checkpoint stores it */
    const optimizer_piece *pieces;
    int64_t n_pieces;
    double *sums; /* [n_pieces] scratch */
} optimizer;

/* Of the program's rank, from resolved knobs (p->s, p->at and p->weights are read); memory comes
 * from `a`. A rank's moments start as zeros. */
void optimizer_init(optimizer *o, const program *p, decay_rule rule, arena *a);

/* Does this weight decay? */
bool optimizer_decays(const param *row, decay_rule rule, bool qk_norms);

/* The arrays of a rank. FP32 or BF16 each; everything in between is FP32. */
typedef struct optimizer_arrays {
    typed weights, gradients; /* of all weights */
    typed masters;            /* of what this rank owns; NULL: the weights are their own */
    typed first, second;      /* moments: the same */
} optimizer_arrays;

/* Sum of squares over the trained elements that this rank answers for, in double and in a fixed
 * order: added up over all ranks, each element of the model counts once. */
double optimizer_squares(const optimizer *o, typed x);

/* How many of those are zero (logger.log_num_zeros_in_grad). */
int64_t optimizer_zeros(const optimizer *o, typed x);

typedef enum step_outcome {
    STEP_TAKEN,
    STEP_NOT_FINITE, /* NaN or Inf in the norm: skipped */
    STEP_TOO_LARGE,  /* the norm is above optimizer.grad_norm_skip_threshold: skipped */
} step_outcome;

typedef struct step_result {
    step_outcome outcome;
    double norm; /* before clipping */
    double clip; /* what gradients are multiplied with: at most 1 */
} step_result;

/* What to do with gradients of this global norm. */
step_result optimizer_judge(const optimizer *o, double norm);

/* What changes from step to step. */
typedef struct step_rates {
    double lr, embedding_lr, decay;
    double scale; /* gradients are multiplied with it first: 1, or 1 / tokens, or 1 / loss scale */
} step_rates;

/* One update of what this rank owns; counts a successful step. */
void optimizer_update(optimizer *o, const optimizer_arrays *x, step_rates rates);

/* The whole step of a rank that is alone. A skipped step changes nothing, the count included. */
step_result optimizer_step(optimizer *o, const optimizer_arrays *x, step_rates rates);

/* The router's correction bias, once a global batch and before the update: experts below the mean
 * load gain `rate`, those above lose it. counts[n] are added up over the batch and all ranks. */
void expert_bias_update(float *bias, const float *counts, int64_t n, double rate);

#endif

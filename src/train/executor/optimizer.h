/* optimizer.h - what the optimizer of a rank works on: the table of its update, and its numbers.
 *
 * A program has the update as operations (op/ops_update.def), which read the table; it is
 * written once, before the first step. Weights and gradients are arrays of the same shape
 * (ir/weights.h); the moments are arrays of the slices that this rank owns, and only what lies
 * in those is read and written. Where the model computes in BF16 it is the master of a weight that
 * is updated, and the weight is its rounding. The word table and the head may have a learning rate
 * of their own. Untrained buffers and the padding between weights are neither read nor written.
 *
 * The calls on arrays (update.h does the work of both) are for tests, measurements and
 * what a log line asks for. Nothing here is collective. */
#ifndef TRAIN_EXECUTOR_OPTIMIZER_H
#define TRAIN_EXECUTOR_OPTIMIZER_H

#include "backend/cpu/kernels/update.h"
#include "ir/program.h"

/* Which weights decay.
 *
 * DECAY_MEGATRON  train: all of two or more dimensions that are no biases; with
 *                 optimizer.apply_wd_to_qk_layernorm the norms of queries and keys too.
 * DECAY_FILE      reference cases: what has two or more dimensions *in the Hugging Face file*, the
 *                 stacked biases of experts included. */
typedef enum decay_rule { DECAY_MEGATRON, DECAY_FILE } decay_rule;

typedef struct optimizer {
    double beta1, beta2, eps;
    double clip;      /* largest global norm; 0: no clipping */
    double skip_norm; /* a step with a larger norm is skipped; infinite: none is */
    bool l2;          /* decay goes into the gradient */
    int64_t steps;    /* successful ones so far; a checkpoint stores it */
    update_table table;
} optimizer;

/* Of the program's rank, from resolved knobs (p->s, p->at and p->weights are read); memory comes
 * from `a`. A rank's moments start as zeros. */
void optimizer_init(optimizer *o, const program *p, decay_rule rule, arena *a);

/* Does this weight decay? */
bool optimizer_decays(const param *row, decay_rule rule, bool qk_norms);

/* Sum of squares over the trained elements that this rank answers for, in double and in a fixed
 * order: added up over all ranks, each element of the model counts once. */
double optimizer_squares(const optimizer *o, typed x);

/* How many of those are zero (logger.log_num_zeros_in_grad). */
int64_t optimizer_zeros(const optimizer *o, typed x);

typedef struct step_result {
    step_outcome outcome;
    double norm; /* before clipping */
    double clip; /* what gradients are multiplied with: at most 1 */
} step_result;
step_result step_result_of(const double *verdict);

/* What changes from step to step. */
typedef struct step_rates {
    double lr, embedding_lr, decay;
    double scale; /* gradients are multiplied with it first: 1, or 1 / tokens, or 1 / loss scale */
} step_rates;

/* The block that goes up with a batch, without flags. */
void optimizer_give(const optimizer *o, step_rates rates, double given[GIVEN_COUNT]);

/* One update of what this rank owns, whatever its norm; counts a successful step. */
void optimizer_update(optimizer *o, const update_arrays *x, step_rates rates);

/* The whole step of a rank that is alone. A skipped step changes nothing, the count included. */
step_result optimizer_step(optimizer *o, const update_arrays *x, step_rates rates);

#endif

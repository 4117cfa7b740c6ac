/* batch.h - a microbatch's tokens in the buffers of the step, and what each token weighs in the
 * objective. */
#ifndef RUN_BATCH_H
#define RUN_BATCH_H

#include "run/executor.h"

/* One microbatch, [B][S] each; the mask is 1 for tokens that count. */
typedef struct batch {
    const int32_t *tokens, *labels;
    const float *mask;
} batch;

/* Fills ids, labels and weights, the prediction module's too (one token further to the right; the
 * last position of a sequence does not count). A token weighs 1 / (tokens that count in its
 * microbatch * microbatches), with calculate_per_token_loss 1 / `step_tokens`; the module's are
 * multiplied by mtp_loss_scaling_factor. */
void batch_load(executor *e, const program *p, const batch *b, double step_tokens);

/* The rotary table: once, before the first step. */
void batch_tables(executor *e, const program *p);

#endif

/* batch.h - microbatches on their way to the buffers of the step, and what each token weighs in the
 * objective.
 *
 * A rank reads whole samples and keeps its CP rank's part: chunks cp and 2 CP - 1 - cp of 2 CP, one
 * after the other. What is counted or shifted is so over whole sequences, before that. */
#ifndef TRAIN_DATA_BATCH_H
#define TRAIN_DATA_BATCH_H

#include "train/executor/executor.h"

/* One microbatch of this data-parallel rank, [B][seq] each; the mask is 1 for tokens that count. */
typedef struct batch {
    const int32_t *tokens, *labels;
    const float *mask;
} batch;

/* Tokens that count: of the microbatch, and of this rank's part of it. */
typedef struct batch_count {
    double whole, here;
} batch_count;

/* Tokens of a whole sequence; the place in it of token i of this rank's part of a sample. */
int64_t batch_seq(const program *p);
int64_t batch_position(const program *p, int64_t i);

/* Fills the copies on the host that the next step uploads: token counts, ids, labels and
 * weights of microbatch `micro`, the prediction module's too (one token
 * further to the right; the last position of a sequence does not count). A token weighs 1 / (tokens
 * that count in its microbatch * microbatches * data-parallel ranks), with calculate_per_token_loss
 * 1 / `step_tokens` (else 0); the module's are multiplied by mtp_loss_scaling_factor. */
void batch_load(executor *e, const program *p, int64_t micro, const batch *b, double step_tokens);

/* Of the main loss; of the prediction module's, which does not count what has no next token. */
batch_count batch_tokens(const program *p, const batch *b);
batch_count batch_mtp_tokens(const program *p, const batch *b);

/* The rotary table: once, before the first step. */
void batch_tables(executor *e, const program *p);

#endif

/* update.h - the F64 blocks that a step begins and ends with, place by place.
 *
 * The host gives a block with every step (STEP_GIVEN): rates, how often Adam has stepped, and what
 * it wants all ranks to know. Each rank makes a tally; the tallies of all ranks are gathered and
 * added up in the order of ranks, so that every rank has the same bits. From the sums follows the
 * verdict, and from the verdict whether anything is written at all. */
#ifndef OP_UPDATE_H
#define OP_UPDATE_H

#include <stdint.h>

/* What the host gives with a step. */
typedef enum given_place {
    GIVEN_LR,
    GIVEN_EMBEDDING_LR, /* of word table and head */
    GIVEN_DECAY,
    GIVEN_SCALE,  /* gradients are multiplied with it first: 1, or 1 / loss scale */
    GIVEN_STEPS,  /* updates made so far: Adam's t - 1 */
    GIVEN_FAILED, /* this rank could not read its part of the batch */
    GIVEN_LEAVE,  /* this rank was told to leave, or its time is up */
    GIVEN_MINUTE, /* rank 0: it is time to compare the ranks' times */
    GIVEN_AGAIN,  /* rank 0: it is time to save again */
    GIVEN_SAVING, /* this rank still writes the checkpoint */
    GIVEN_COUNT
} given_place;

/* Tokens of a microbatch that count: of all of it, and of this rank's part; of the main loss and of
 * the prediction module's. */
typedef enum counts_place {
    COUNTS_WHOLE,
    COUNTS_HERE,
    COUNTS_MTP_WHOLE,
    COUNTS_MTP_HERE,
    COUNTS_COUNT
} counts_place;

/* What all ranks add up once a step. */
typedef enum step_sum {
    SUM_LOSS,      /* of tokens that count */
    SUM_TOKENS,    /* that count */
    SUM_MTP,       /* means of microbatches */
    SUM_OBJECTIVE, /* weighted losses of both: what the gradient is of, but for auxiliary losses */
    SUM_AUX,       /* auxiliary losses of all layers */
    SUM_Z,         /* z-losses */
    SUM_SQUARES,   /* of the gradient */
    SUM_OVERFLOWS, /* ranks with a routed buffer that was too small */
    SUM_FAILED,    /* the host's flags: how many ranks have them */
    SUM_LEAVE,
    SUM_MINUTE,
    SUM_AGAIN,
    SUM_SAVING,
    SUM_COUNT
} step_sum;

/* Whether the step is taken: all but the first write nothing. */
typedef enum step_outcome {
    STEP_TAKEN,
    STEP_LOSS_NOT_FINITE, /* NaN or Inf in a loss */
    STEP_NOT_FINITE,      /* in the norm */
    STEP_TOO_LARGE,       /* the norm is above optimizer.grad_norm_skip_threshold */
    STEP_OVERFLOWED,      /* a routed buffer was too small: the step is made again */
    STEP_FAILED,          /* a rank could not read its part of the batch */
} step_outcome;

typedef enum verdict_place {
    VERDICT_OUTCOME, /* of step_outcome */
    VERDICT_NORM,    /* before clipping; NaN where a loss is not finite */
    VERDICT_CLIP,    /* what gradients are multiplied with: at most 1 */
    VERDICT_SCALE,   /* GIVEN_SCALE times it */
    VERDICT_LR,
    VERDICT_EMBEDDING_LR,
    VERDICT_DECAY,
    VERDICT_CORRECT1, /* 1 / (1 - beta^t) */
    VERDICT_CORRECT2,
    VERDICT_COUNT
} verdict_place;

/* A row of an update's table: the part of one weight that this rank owns. */
typedef struct update_row {
    int64_t piece;     /* how many pieces of UPDATE_PIECE elements the rows before it have */
    int64_t offset;    /* where it starts in the flat arrays of weights and gradients */
    int64_t n;         /* elements; may be 0 */
    int64_t moments;   /* where it starts in the arrays of masters and moments */
    int64_t decays;    /* 0 or 1, as the next two: */
    int64_t embedding; /* word table or head, */
    int64_t answers;   /* counts in sums: train/executor/owned.h */
    int64_t spare;
} update_row;

/* The table's buffer is counted in doubles. */
enum { TABLE_COLUMNS = sizeof(update_row) / sizeof(double) };

/* What a piece gives depends on the piece alone; a row is cut into pieces from its start. */
enum { UPDATE_PIECE = 1 << 14 };

/* Pieces of what the host keeps in one list: what orders a list looks at all that came before. */
enum { UPDATE_PIECES = 64 };

#endif

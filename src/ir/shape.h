/* shape.h - what a step is before anything is built: tokens, microbatches, what stages hold, and
 * how long the regions are that follow from these alone. Programs are built by it; a search, which
 * builds none, counts by it. */
#ifndef IR_SHAPE_H
#define IR_SHAPE_H

#include "ir/order.h"
#include "ir/segment.h"

typedef struct step_shape {
    int64_t seq;             /* tokens of a whole sequence */
    int64_t B, S;            /* samples of a microbatch; tokens of each on a CP rank */
    int64_t Tc, T;           /* tokens of a microbatch on a CP rank; of a TP rank's share of them */
    int64_t micros;          /* microbatches of a step */
    number_types types;      /* of weights, gradients, masters and moments */
    int ring_depth;          /* buffers of each direction between stages, used in turn */
    bool posts_early;        /* receives are posted one unit ahead: messages overlap compute */
    bool gathers_late;       /* weights are gathered at the start of the next step, beside it */
    bool overlaps_reduction; /* gradients are reduced beside the backward that follows */
} step_shape;
step_shape step_shape_of(const setup *s);

/* A builder of segments of such a step, for a rank; its aux_gradient is 1. */
builder builder_of(const setup *s, const step_shape *z, rank_at at, arena *a);

/* The order of a pipeline rank. */
order_shape order_shape_of(const setup *s, const step_shape *z, int64_t pp_rank);

/* What a stage holds beside its layers, in this order: receive, embedding, (layers,) final norm,
 * prediction module, head, send. */
typedef struct stage_content {
    bool receives, embedding, final, mtp, head, sends;
    int64_t parts_in, parts_out; /* of [T][H] that arrive and leave: 2 behind the module */
} stage_content;
stage_content stage_content_of(const pipeline *p, const model *m, int64_t stage_id);

/* The step region: where each buffer begins and its bytes (by microbatch: of one). Either may be
 * NULL. Returns the length of the region, for a rank of so many trained weights. */
int64_t step_region(const setup *s, const step_shape *z, int64_t n_weights,
                    int64_t offset[STEP_COUNT], int64_t bytes[STEP_COUNT]);

/* What of it has a copy on the host: where each copy begins, given the bytes of above. Returns
 * the length of all. */
int64_t staging_region(const step_shape *z, const int64_t bytes[STEP_COUNT],
                       int64_t offset[STEP_COUNT]);

/* The boundary region: gradients of the hidden state and messages to the next stage [turns], then
 * hidden states that are handed over without being saved. */
typedef struct boundary_region {
    int64_t dhidden_bytes, dhidden_offset;
    int64_t message_bytes, message_offset;
    int64_t passed_bytes, passed_offset;
    int64_t bytes; /* of all */
} boundary_region;

/* Fills offsets and the length; bytes of each are given, those of one buffer, without gaps. */
void boundary_place(boundary_region *b, const setup *s, const step_shape *z);

/* The temp region: temporaries, then the kernels' workspace. */
int64_t temp_region(int64_t temporaries, int64_t workspace);

#endif

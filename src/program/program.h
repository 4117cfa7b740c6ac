/* program.h - the step program of a rank: segments, chunks of instances, schedule, and the memory
 * they need.
 *
 * The memory plan is one arena of seven regions, computed here and used as it is by the run:
 * nothing else is touched inside a step. Saved buffers of all (chunk, microbatch) pairs share one
 * pool whose slots are read off the schedule. */
#ifndef PROGRAM_PROGRAM_H
#define PROGRAM_PROGRAM_H

#include "program/order.h"
#include "program/segment.h"
#include "program/weights.h"

typedef enum region {
    REGION_WEIGHTS,
    REGION_GRADIENTS,
    REGION_OPTIMIZER, /* first moments, then second moments */
    REGION_SAVED,
    REGION_BOUNDARY, /* the gradient stream */
    REGION_STEP,
    REGION_TEMP, /* temporaries of whichever segment runs, then the kernels' workspace */
    REGION_COUNT
} region;

typedef struct instance {
    const segment *seg;
    int64_t layer;        /* first decoder layer; 0 for embedding and head */
    int64_t saved_offset; /* in its chunk's slot */
} instance;

typedef struct chunk {
    instance *list;
    int n;
    int64_t saved_bytes; /* of one microbatch */
} chunk;

typedef struct program {
    const setup *s;
    weight_list weights;
    int64_t B, S, T;  /* samples of a microbatch, tokens of a sequence, of a microbatch */
    int64_t micros;   /* microbatches of a step */
    int64_t mtp_loss; /* has a prediction module */
    segment **segments;
    int n_segments;
    chunk *chunks;
    int64_t n_chunks;
    step_order order;
    int64_t *slot; /* [n_chunks][micros] offset of a pair's slot in the saved region */
    int64_t step_offset[STEP_COUNT], step_bytes[STEP_COUNT]; /* in the step region */
    int64_t workspace_offset, workspace_bytes;               /* in the temp region */
    int64_t offset[REGION_COUNT], bytes[REGION_COUNT];       /* of the arena */
    int64_t arena_bytes;
    int64_t buffer_bytes; /* of the arena that buffers cover: without gaps of alignment */
} program;

/* Builds the program of the one rank. The setup is valid. Memory comes from `a`. */
void program_build(program *p, const setup *s, arena *a);

/* Where a buffer lies, as an offset from the start of the arena. `phase` matters for temporaries
 * (NONE there: not used in that phase, -1), `micro` for saved ones. `next` is the instance after,
 * whose input an output is. */
int64_t program_place(const program *p, int64_t chunk_id, int instance_id, int buf_id, int phase,
                      int64_t micro);

const char *region_name(region r);

#endif

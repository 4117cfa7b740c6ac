/* allocated.h - the memory that Megatron would report of a rank: allocated, reserved, outside.
 *
 * allocated   the peak of torch's allocator (torch.cuda.max_memory_allocated), tensor by tensor
 * reserved    what the allocator takes from the GPU for it: blocks that do not fit stay unused
 * outside     what others take beside the allocator: the CUDA context, NCCL, dispatcher buffers
 *
 * Each is a sum of parts, which follow from how Megatron-Core and Transformer Engine allocate
 * (docs/ACCURACY.md names the code), except the ratio of reserved to allocated, which is measured,
 * and what libraries take, which is stated. Several parts were found with the measured rows in
 * sight: the rows say how well the sum holds, not how an unseen recipe would come out. */
#ifndef PREDICT_ALLOCATED_H
#define PREDICT_ALLOCATED_H

#include "hardware/hardware.h"
#include "layout/state.h"
#include "ir/program.h"

typedef enum allocated_part {
    ALLOCATED_WEIGHTS,
    ALLOCATED_COPIES, /* narrow copies of weights that Transformer Engine caches */
    ALLOCATED_GRADIENTS,
    ALLOCATED_OPTIMIZER,   /* of this rank's slices */
    ALLOCATED_DUMMIES,     /* what autograd gets for weight gradients that were summed elsewhere */
    ALLOCATED_WORKSPACES,  /* of cuBLAS; the buffer that gathers the head's input */
    ALLOCATED_GRAPHS,      /* inputs and outputs of captured parts */
    ALLOCATED_BATCH,       /* tokens, labels, rotations */
    ALLOCATED_PIPELINE,    /* hidden states on their way between stages */
    ALLOCATED_ACTIVATIONS, /* saved for backward, at the fullest moment */
    ALLOCATED_LOGITS,      /* and their gradient, at that moment */
    ALLOCATED_TEMPORARIES, /* at that moment */
    ALLOCATED_STEP,        /* where the optimizer's step is that moment: its FP32 copies */
    ALLOCATED_PARTS
} allocated_part;

typedef enum outside_part {
    OUTSIDE_CONTEXT,    /* CUDA context and libraries */
    OUTSIDE_NCCL,       /* buffers of communicators */
    OUTSIDE_DISPATCHER, /* of deepep, hybridep */
    OUTSIDE_GRAPHS,     /* pools of CUDA graphs */
    OUTSIDE_PARTS
} outside_part;

const char *allocated_name(allocated_part p);  /* a key of JSON */
const char *allocated_title(allocated_part p); /* as people say it */
const char *outside_name(outside_part p);
const char *outside_title(outside_part p);

/* What does not change while a step runs, by part. */
typedef struct allocated_state {
    int64_t part[ALLOCATED_PARTS];
    int64_t step;   /* the optimizer's step takes beside it */
    int64_t waited; /* of that: state that waits on the host otherwise */
} allocated_state;

/* Of a rank of pipeline stage `pp_rank`, from what its program_size says beside the level. */
void allocated_state_of(allocated_state *out, const setup *s, int64_t pp_rank,
                        const state_bytes *state, const program_size *p);
int64_t allocated_state_sum(const allocated_state *s); /* without the optimizer's step */

/* Of that, what microbatch, CP and dispatcher leave as it is, beside weights, gradients and
 * optimizer: copies, dummies, workspaces. */
int64_t allocated_state_least(const setup *s, int64_t pp_rank, const state_bytes *state);

typedef struct reported {
    int64_t allocated, part[ALLOCATED_PARTS];
    int64_t reserved, reserved_low, reserved_high;
    int64_t outside, outside_part[OUTSIDE_PARTS];
    int64_t peak; /* reserved + outside: what the GPU must have */
} reported;

/* A line of what adds up to a rank's peak. */
typedef struct peak_part {
    const char *name, *title; /* a key of JSON, and as people say it */
    int64_t bytes;
    bool outside; /* of torch's allocator or of our arena */
    bool moves;   /* comes and goes within a step */
} peak_part;

enum { PEAK_PARTS = REGION_COUNT + ALLOCATED_PARTS + OUTSIDE_PARTS + 1 };

/* All of it, in order, what is zero left out: where Megatron runs the rank what it allocates and
 * what its allocator holds unused, else the regions of our arena; then what lies outside. Returns
 * how many lines; `arena_parts`: bytes of the regions, NULL where Megatron runs. */
int peak_parts(peak_part out[PEAK_PARTS], const reported *r, const int64_t *arena_parts, arena *a);

/* What every rank of a setup has in common: what lies outside but graphs, and the ratio. */
typedef struct reported_frame {
    int64_t outside;
    double ratio, again;
} reported_frame;
reported_frame reported_frame_of(const setup *s);

/* The peak alone. */
typedef struct reported_level {
    int64_t state, step; /* what stays; what the optimizer's step takes beside it */
    live_level live;
    int64_t graphs;
} reported_level;
int64_t reported_peak(const reported_frame *f, const reported_level *x);

/* No layout of the recipe has less outside: for bounds on bytes that are there. */
reported_frame reported_frame_least(const job *j);
int64_t reported_least(const reported_frame *f, int64_t bytes);

/* How many bytes may be there at most, where so many are usable. */
int64_t reported_room(const reported_frame *f, int64_t usable);

/* `level`: the most activations at once; `graphs`: bytes in pools of CUDA graphs. */
void reported_of(reported *out, const setup *s, const allocated_state *state, live_level level,
                 int64_t graphs);

/* Of a whole rank. */
void reported_of_rank(reported *out, const setup *s, const program_size *p, int64_t graphs);

/* Of our own program: nothing is allocated but its arena. */
void reported_of_arena(reported *out, const setup *s, int64_t arena_bytes, int64_t graphs);

/* Reserved over allocated, and beside it a part of what one layer makes again instead of keeping:
 * its tensors come and go between blocks of other sizes, and what lies between them stays unused.
 * Reserved grows with FP8 (casts of many sizes), too, and is small where
 * env_vars.PYTORCH_CUDA_ALLOC_CONF has expandable_segments:True, as in Megatron-Bridge's recipes.
 */
typedef struct reserved_ratio {
    double low, middle, high;
    double again, again_high;
} reserved_ratio;
reserved_ratio reserved_ratio_of(const job *j);

/* What waits on the host: optimizer state of the fullest rank, by offload or between updates; and
 * with activations, of the rank with most, times the GPUs of a node. */
typedef struct host_need {
    int64_t state;
    int64_t node;   /* at most: ranks of a node may be of stages that need less */
    int64_t memory; /* of a node; 0: the hardware description does not say */
} host_need;

#endif

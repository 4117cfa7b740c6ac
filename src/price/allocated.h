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
#ifndef PRICE_ALLOCATED_H
#define PRICE_ALLOCATED_H

#include "hardware/hardware.h"
#include "program/program.h"

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
    int64_t step; /* the optimizer's step takes beside it */
} allocated_state;

/* Of a rank of pipeline stage `pp_rank`, from what its program_size says beside the level. */
void allocated_state_of(allocated_state *out, const setup *s, int64_t pp_rank,
                        const program_size *p);

typedef struct reported {
    int64_t allocated, part[ALLOCATED_PARTS];
    int64_t reserved, reserved_low, reserved_high;
    int64_t outside, outside_part[OUTSIDE_PARTS];
    int64_t peak; /* reserved + outside: what the GPU must have */
} reported;

/* `level`: the most activations at once; `graphs`: bytes in pools of CUDA graphs. */
void reported_of(reported *out, const setup *s, const allocated_state *state, live_level level,
                 int64_t graphs);

/* Of a whole rank. */
void reported_of_rank(reported *out, const setup *s, const program_size *p, int64_t graphs);

/* Reserved over allocated. It grows with what is made again (blocks of other sizes come and go) and
 * with FP8 (casts of many sizes); with PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True it is near
 * the low end. */
typedef struct reserved_ratio {
    double low, middle, high;
} reserved_ratio;
reserved_ratio reserved_ratio_of(const recipe *r);

#endif

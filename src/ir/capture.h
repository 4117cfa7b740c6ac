/* capture.h - what CUDA graphs hold: parts of a layer, as model.cuda_graph_modules names them.
 *
 * An operation belongs to one part; a range of a list is a run of operations whose parts a job
 * captures. Prices count such runs, and the executor captures and replays them. */
#ifndef IR_CAPTURE_H
#define IR_CAPTURE_H

#include "op/op.h"
#include "job/job.h"

enum {
    CAPTURED_ATTENTION =
        1, /* linear attention, too: Megatron asks a layer only whether it has one */
    CAPTURED_MLP = 2,
    CAPTURED_ROUTER = 4,     /* router and shared expert */
    CAPTURED_PREPROCESS = 8, /* what is counted and planned before tokens travel */
    CAPTURED_EXPERTS = 16,   /* dispatch, experts, combine */
    CAPTURED_REST = 32,      /* embedding, head, messages between stages, optimizer */
};

/* The part of an operation: what has to be captured for it to be. */
unsigned capture_part(const op *o);

/* Router and what follows its choice, as far as `moe_router` captures it. */
bool capture_is_router(op_kind k);

/* Parts that a job captures; ~0: a whole iteration in one. */
unsigned capture_of(const job *j);

#endif

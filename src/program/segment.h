/* segment.h - the operations of one kind of layer (or of the embedding, of head and loss), compiled
 * once.
 *
 * A segment has two lists of operations, forward and backward (data and weight gradients), over one
 * set of buffers. A model chunk is a list of instances of segments: what differs between instances
 * (which layer's weights, which slot of the saved pool) is bound by whoever runs them. Buffer 0 is
 * always the segment's input. */
#ifndef PROGRAM_SEGMENT_H
#define PROGRAM_SEGMENT_H

#include "layout/setup.h"
#include "program/op.h"

typedef enum life {
    LIFE_WEIGHT,   /* a row of the parameter table */
    LIFE_GRADIENT, /* its gradient */
    LIFE_SAVED,    /* from a microbatch's forward to its backward */
    LIFE_OUTPUT,   /* buffer 0 of the next segment */
    LIFE_STREAM,   /* gradient of the hidden state, handed from segment to segment, in place */
    LIFE_STEP,     /* of the step or the microbatch: tokens, tables, losses, counters */
    LIFE_TEMP,     /* inside one phase of the segment */
    LIFE_COUNT
} life;

/* Buffers of the step. */
typedef enum step_buffer {
    STEP_IDS,     /* int32[T] */
    STEP_LABELS,  /* int32[T] */
    STEP_MASK,    /* float[T]: weight of a token in the objective */
    STEP_MTP_IDS, /* the same for the prediction module */
    STEP_MTP_LABELS,
    STEP_MTP_MASK,
    STEP_ROPE,     /* float[S][rot]: cosines, sines */
    STEP_LOSS,     /* float[2]: sum of weighted losses, sum of weights */
    STEP_MTP_LOSS, /* float[2] */
    STEP_AUX,      /* float[layers]: auxiliary losses */
    STEP_Z,        /* float[layers] */
    STEP_LOAD,     /* float[layers][E]: rows of each expert in the step */
    STEP_GLOBAL,   /* float[layers][E]: counts of the global auxiliary loss */
    STEP_COUNT
} step_buffer;

/* What recompute may drop a saved buffer for. */
enum {
    DROP_CORE_ATTN = 1,
    DROP_LAYERNORM = 2,
    DROP_MLA_UP_PROJ = 4,
    DROP_MOE_ACT = 8,
    DROP_MLP = 16,
    DROP_MOE = 32,
    DROP_SHARED = 64,
    DROP_GDN_NORM_OUT = 256,
    DROP_FULL = 128, /* every saved buffer but the segment's input */
};

typedef struct buf {
    const char *name, *module;
    life life;
    int64_t bytes;
    unsigned drop;    /* DROP_ bits under which it is computed again instead of saved */
    const param *row; /* weight, gradient */
    int layer_step;   /* weight, gradient, step: layers after the instance's first one */
    step_buffer step;
    int64_t step_stride; /* bytes of a layer's part of a step buffer that all layers share */
    int64_t offset[2];   /* saved: [0] in the instance's part of the pool; temp: by phase, or -1 */
} buf;

enum { SEG_FORWARD, SEG_BACKWARD };

typedef struct segment {
    const char *name;
    int n_layers; /* how many layers an instance covers; 0 for embedding and head */
    buf *bufs;
    int n_bufs, bufs_room;
    op *ops[2];
    int n_ops[2], ops_room[2];
    int64_t saved_bytes, temp_bytes[2];
} segment;

/* What builders need to know. */
typedef struct builder {
    const setup *s;
    arena *a;
    segment *seg;
    int64_t B, S, T;     /* samples of a microbatch, sequence, tokens: on this rank */
    int64_t layer;       /* a layer of the kind being built: its blocks, its bits */
    int layer_step;      /* layers of the same segment before it */
    const char *module;  /* tag of what is added now */
    double aux_gradient; /* what a unit of auxiliary loss weighs in the objective */
} builder;

void segment_init(segment *seg, builder *b, const char *name, const setup *s, arena *a);

/* Buffers. Sizes in elements of four bytes. */
int seg_saved(builder *b, const char *name, int64_t elements, unsigned drop);
int seg_temp(builder *b, const char *name, int64_t elements);
int seg_other(builder *b, const char *name, life l, int64_t elements);
int seg_step(builder *b, step_buffer which, int64_t elements);
int seg_layer_step(builder *b, step_buffer which, int64_t elements); /* this layer's part */
int seg_weight(builder *b, const char *name); /* by its row's name; -1: the model has none */
int seg_gradient(builder *b, const char *name);
const param *seg_row(const builder *b, const char *name);

/* Appends an operation. Lists of buffers end with END; sizes with -1. */
enum { NONE = -1, END = -2 };
#define IN(...)  ((const int[]){__VA_ARGS__, END})
#define OUT(...) ((const int[]){__VA_ARGS__, END})
#define DIM(...) ((const int64_t[]){__VA_ARGS__, -1})
op *seg_op(builder *b, int phase, op_kind kind, const char *name, const int *in, const int *out,
           const int64_t *dim);

/* Bytes of the buffers that an operation reads and writes. */
int64_t seg_op_bytes(const segment *seg, const op *o);

/* Offsets of saved and temporary buffers; after all operations are there. */
void segment_fit(segment *seg, arena *a);

/* Recompute: what `drop` names is not saved but made again in backward, just before it is first
 * read. */
void segment_recompute(segment *seg, unsigned drop, arena *a);

#endif

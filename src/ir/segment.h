/* segment.h - the operations of one kind of layer (or of the embedding, of head and loss), compiled
 * once.
 *
 * A segment has two lists of operations, forward and backward (data and weight gradients), over one
 * set of buffers. A model chunk is a list of instances of segments: what differs between instances
 * (which layer's weights, which slot of the saved pool) is bound by whoever runs them. Buffer 0 is
 * always the segment's input. */
#ifndef IR_SEGMENT_H
#define IR_SEGMENT_H

#include "layout/members.h"
#include "layout/number_types.h"
#include "op/op.h"
#include "ir/quant_plan.h"

enum { PLAN_ALIGN = 64 }; /* bytes: where buffers begin in their regions */

typedef enum life {
    LIFE_WEIGHT,   /* a row of the parameter table */
    LIFE_GRADIENT, /* its gradient */
    LIFE_COPY,     /* a part of its quantised copies */
    LIFE_SAVED,    /* from a microbatch's forward to its backward */
    LIFE_OUTPUT,   /* buffer 0 of the next segment */
    LIFE_DHIDDEN,  /* gradient of the hidden state, handed from segment to segment, in place */
    LIFE_BOUNDARY, /* the hidden state on its way to the next stage */
    LIFE_HIDDEN_IN_FLIGHT, /* the hidden state on its way to the next segment, and to the host */
    LIFE_HOST,             /* on the host, from a microbatch's forward to its backward */
    LIFE_STEP,             /* of the step or the microbatch: tokens, tables, losses, counters */
    LIFE_FIXED,            /* a range of a region of the arena: buckets of gradients and weights */
    LIFE_TEMP,             /* inside one phase of the segment */
    LIFE_COUNT
} life;

/* Buffers of the step. Those down to STEP_MTP_LOSS exist once for each microbatch. */
typedef enum step_buffer {
    STEP_IDS,     /* int32[Tc] */
    STEP_LABELS,  /* int32[Tc] */
    STEP_MASK,    /* float[Tc]: weight of a token in the objective */
    STEP_MTP_IDS, /* the same for the prediction module */
    STEP_MTP_LABELS,
    STEP_MTP_MASK,
    STEP_COUNTS,   /* double[4]: tokens that count, by counts_place */
    STEP_LOSS,     /* float[2]: sum of weighted losses, sum of weights */
    STEP_MTP_LOSS, /* float[2] */
    STEP_ROPE,     /* float[S][rot]: cosines, sines */
    STEP_AUX,      /* float[layers]: auxiliary losses */
    STEP_Z,        /* float[layers] */
    STEP_LOAD,     /* float[layers][E]: rows of each expert in the step */
    STEP_GLOBAL,   /* float[layers][E]: counts of the global auxiliary loss */
    STEP_OVERFLOW, /* float[layers][2]: most rows that a routed buffer should take; its room */
    STEP_GIVEN,    /* double[GIVEN_COUNT]: rates and flags, from the host */
    STEP_TABLE,    /* update_row[trained weights]: what the optimizer owns */
    STEP_SQUARES,  /* double[1]: of this rank's gradients */
    STEP_TALLY,    /* double[SUM_COUNT]: what this rank adds to the sums */
    STEP_TALLIES,  /* double[ranks][SUM_COUNT]: everybody's; none where the rank is alone */
    STEP_SUMS,     /* double[SUM_COUNT] */
    STEP_VERDICT,  /* double[VERDICT_COUNT] */
    STEP_COUNT
} step_buffer;

/* Indices are whole numbers, blocks of the step's end F64, all else is FP32. */
dtype step_type(step_buffer which);

/* Which have a copy on the host: what is uploaded before a step, what is fetched after it. */
typedef enum step_staged { STAGED_NOT, STAGED_UP, STAGED_DOWN } step_staged;
step_staged step_is_staged(step_buffer which);
extern const char *const step_names[STEP_COUNT]; /* for people */

static inline bool step_by_micro(step_buffer b)
{
    return b <= STEP_MTP_LOSS;
}

/* What recompute may drop a saved buffer for: the modules of recompute_modules.def, each a bit by
 * the place of its word among the knob's; or every saved buffer but the segment's input. */
enum {
    DROP_MODULES = J_RECOMPUTE_MODULES_OTHER - 1,
    DROP_FULL = 1 << DROP_MODULES,
#define RECOMPUTE_MODULE(id, ...) DROP_##id = 1 << (J_RECOMPUTE_MODULES_##id - 1),
#include "ir/recompute_modules.def"
};

/* What offload may copy a saved buffer to the host for, by the names of model.offload_modules;
 * given with the drop bits. */
enum {
    OFF_CORE_ATTN = 1 << 20,
    OFF_ATTN_PROJ = 1 << 21,
    OFF_EXPERT_FC1 = 1 << 22,
    OFF_FUSED = 1 << 23,
    OFF_MOE_ACT = 1 << 24,
    OFF_ATTN_NORM = 1 << 25,
    OFF_MLP_NORM = 1 << 26,
    OFF_QKV = 1 << 27,
    OFF_ALL = 255 << 20,
};

typedef struct buf {
    const char *name; /* for people, nothing is decided by it */
    op_module module;
    op_role role;
    life life;
    dtype type;
    int64_t bytes;
    unsigned drop;    /* DROP_ bits under which it is computed again instead of saved */
    unsigned offload; /* OFF_ bits under which it waits on the host */
    bool stored;      /* saved for GEMMs alone: not at all where their copy of it is */
    const param *row; /* weight, gradient */
    int layer_step;   /* weight, gradient, step: layers after the instance's first one */
    step_buffer step;
    int64_t step_stride; /* bytes of a layer's part of a step buffer that all layers share */
    int64_t offset[2];   /* saved, host: [0] in the instance's part of the pool; temp: by phase, or
                          * -1; copy: [0] in those of its weight */
    int parent;          /* a view: bytes of that buffer, from view_at on; else -1 */
    int64_t view_at;
    int owner;  /* of a pair: 0 for buffers of the forward half, 1 of the backward half */
    int region; /* fixed: region of the arena; offset[0] in it */
} buf;

enum { SEG_FORWARD, SEG_BACKWARD };

typedef enum segment_kind {
    SEGMENT_EMBEDDING,
    SEGMENT_LAYER,
    SEGMENT_FINAL, /* the final norm, where a prediction module reads it */
    SEGMENT_MTP,
    SEGMENT_HEAD,
    SEGMENT_RECEIVE, /* messages between stages */
    SEGMENT_SEND,
    SEGMENT_POST,
    SEGMENT_WAIT,
    SEGMENT_REDUCE, /* and between replicas */
    SEGMENT_GATHER,
    SEGMENT_SUMS,
    SEGMENT_BEGIN,  /* of a step: the batch is uploaded, counters are zero */
    SEGMENT_REPORT, /* its sums and its verdict, fetched by the host */
    SEGMENT_UPDATE,
    SEGMENT_COPIES, /* weights are quantised, once a step */
    SEGMENT_PAIR,   /* the forward of a layer and the backward of another */
    SEGMENT_KINDS
} segment_kind;
extern const char *const segment_names[SEGMENT_KINDS];

/* A weight [parts][n][k] of which a segment's GEMMs read quantised copies, and the buffers of
 * those; and an input with its copies: codes, scales, factor. */
enum { COPY_Q, COPY_S, COPY_G, COPY_QT, COPY_ST, COPY_BUFS };
typedef struct quant_copy {
    const param *row;
    int layer_step;
    int64_t parts, n, k;
    int buf[COPY_BUFS];
} quant_copy;
typedef struct quant_kept {
    int x, row[3], turned[3];
} quant_kept;

/* What an instance saves, in parts that lie by themselves: its input, which is written before the
 * rest; what attention saves, which dense layers and those with experts have alike; what lies
 * behind it in a layer; all else. */
typedef enum saved_part {
    SAVED_INPUT,
    SAVED_ATTENTION,
    SAVED_MLP,
    SAVED_OTHER,
    SAVED_PARTS
} saved_part;

typedef struct segment {
    segment_kind kind;
    const char *name; /* for people, nothing is decided by it */
    int id;           /* its place among the segments of a program */
    int n_layers;     /* how many layers an instance covers; 0 for embedding and head */
    buf *bufs;
    int n_bufs, bufs_room;
    op *ops[2];
    int n_ops[2], ops_room[2];
    const op *bare[2]; /* the lists without WAITs */
    int n_bare[2];
    unsigned dropped; /* DROP_ bits of its recompute */
    quant_copy *copies;
    int n_copies, copies_room;
    quant_kept *kept;
    int n_kept, kept_room;
    int64_t saved_bytes, host_bytes, temp_bytes[2];
    int64_t parts[SAVED_PARTS]; /* of saved_bytes, one behind another */
} segment;

/* What builders need to know. */
typedef struct builder {
    const setup *s;
    arena *a;
    segment *seg;
    rank_at at;
    int64_t seq;              /* tokens of a whole sequence */
    int64_t B, S;             /* samples of a microbatch; tokens of each on this CP rank */
    int64_t Tc, T;            /* tokens of this CP rank; of this TP rank's share of them */
    int64_t layer;            /* a layer of the kind being built */
    const model_block *block; /* its block that is being built */
    int layer_step;           /* layers of the same segment before it */
    op_module module;         /* tags of what is added now */
    op_role role;
    op_node node;
    int blocks; /* as in op */
    number_types types;
    quant_plan quant;
    double aux_gradient; /* what a unit of auxiliary loss weighs in the objective */
} builder;

void segment_init(segment *seg, builder *b, segment_kind kind, const setup *s, arena *a);

/* Buffers. Sizes in elements. Activations have the recipe's precision; what has another format
 * (indices, statistics, what the router computes) says so. STORED in `drop`: only GEMMs read it
 * again, so that an FP8 recipe stores it as they take it; in programs of our own their copy of it
 * (build/quant.h). */
enum { STORED = 1 << 16 };
int seg_saved(builder *b, const char *name, int64_t elements, unsigned drop);
int seg_temp(builder *b, const char *name, int64_t elements);
int seg_saved_as(builder *b, const char *name, int64_t elements, unsigned drop, dtype type);
int seg_temp_as(builder *b, const char *name, int64_t elements, dtype type);
int seg_other(builder *b, const char *name, life l, int64_t elements); /* an activation */
int seg_fixed(builder *b, const char *name, int region, int64_t at, int64_t elements, dtype type);
int seg_step(builder *b, step_buffer which, int64_t elements);
int seg_layer_step(builder *b, step_buffer which, int64_t elements); /* this layer's part */
int seg_weight(builder *b, const char *name); /* by its row's name; -1: the model has none */
int seg_gradient(builder *b, const char *name);
const param *seg_row(const builder *b, const char *name);

/* `elements` of another buffer, from element `first` on. Not of weights, gradients and buffers of
 * the step. */
int seg_view(builder *b, int parent, int64_t first, int64_t elements);

/* Appends an operation. Lists of buffers end with END; sizes with DIM_END. */
enum { NONE = -1, END = -2 };
#define DIM_END  INT64_MIN
#define IN(...)  ((const int[]){__VA_ARGS__, END})
#define OUT(...) ((const int[]){__VA_ARGS__, END})
#define DIM(...) ((const int64_t[]){__VA_ARGS__, DIM_END})
op *seg_op(builder *b, int phase, op_kind kind, const char *name, const int *in, const int *out,
           const int64_t *dim);

/* Appends a message between the members of a group, on STREAM_COMM. */
op *seg_comm(builder *b, int phase, op_kind kind, const char *name, comm_group g, const int *in,
             const int *out, const int64_t *dim);

/* Members of a group, and this rank's place among them. */
int64_t seg_width(const builder *b, comm_group g);
int64_t seg_group_rank(const builder *b, comm_group g);

/* The buffer that a view is part of; any other buffer is its own. */
static inline int seg_root(const segment *seg, int id)
{
    return id >= 0 && seg->bufs[id].parent >= 0 ? seg->bufs[id].parent : id;
}

/* The formats and sizes of its buffers. */
op_types seg_op_types(const segment *seg, const op *o);

/* Bytes of the buffers that an operation reads and writes. */
int64_t seg_op_bytes(const segment *seg, const op *o);

/* Offsets of saved and temporary buffers; after all operations are there. */
void segment_fit(segment *seg, arena *a);
void segment_fit_temporaries(segment *seg, arena *a); /* only those */
saved_part segment_part(const segment *seg, int id);  /* that a saved buffer belongs to */

/* Gives every operation its event and puts a WAIT before each that touches the memory of a message
 * or copy that may still be under way; at the end of each list all are complete. Event 0 of a list
 * is the compute stream at its start: the first operation of any other stream waits for it, so that
 * lists follow each other without a host that waits. After segment_fit. */
void segment_waits(segment *seg, arena *a);

/* Combined 1F1B: a segment whose forward list runs the forward of `f` and the backward of `b`, node
 * by node in Megatron's order; buffers of `b` follow those of `f` and have owner 1. Either may be
 * NULL. `delay`: weight gradients fill the gaps; `early`: attention's backward before the experts'
 * forward; `unplanned`: the list alone, without places of temporaries and waits. */
typedef struct pair_options {
    bool delay, early, unplanned;
} pair_options;
void segment_pair(segment *out, const segment *f, const segment *b, pair_options o, arena *a);

/* Modules of recompute: the rows of recompute_modules.def. */
typedef struct drop_module {
    const char *word;
    int listed;                  /* J_RECOMPUTE_MODULES_... */
    unsigned drop, covers, rung; /* 0: none */
} drop_module;
extern const drop_module drop_modules[DROP_MODULES];
unsigned drop_rung(unsigned rung);      /* 0: nothing; behind the last one DROP_FULL */
unsigned drop_of(const job *j);         /* of its recompute_modules */
unsigned drop_of_model(const model *m); /* modules that it has */
unsigned drop_tidy(unsigned drop);      /* without what other modules cover */

/* Recompute: what `drop` names is not saved but made again in backward, just before it is first
 * read. */
void segment_recompute(segment *seg, unsigned drop, arena *a);

#endif

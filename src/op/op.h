/* op.h - operations: what a rank does in a step, one after another on explicit buffers.
 *
 * ops.def has one row a kind: its inputs, outputs and sizes, whose positions in an op have names:
 * in[IN_GEMM_x], out[OUT_GEMM_y], dim[DIM_GEMM_M], real[REAL_NORM_eps]. They and the kinds
 * (op_kind: OP_GEMM, ...) are made from the table, into op_names.h: formats and explanations change
 * without compiling every kernel anew. An operation names buffers of its segment by number (-1: not
 * there), never addresses, ranks or threads. Readers of a program (plan, audit, price, run,
 * explain) all read these. */
#ifndef OP_OP_H
#define OP_OP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/dtype.h"
#include "op/comm_group.h"
#include "op/op_names.h"

/* Positions that messages share (LIKE and SIZED of ops.def): what comes in, what goes out, how much
 * to each member (an EXCHANGE: room in rows); of SHIFT, SEND and RECV the other's distance, of the
 * last two the tag. */
enum {
    IN_MESSAGE_x = IN_ALL_GATHER_x,
    OUT_MESSAGE_y = OUT_ALL_GATHER_y,
    DIM_MESSAGE_N = DIM_ALL_GATHER_N,
    DIM_MESSAGE_STEP = DIM_SEND_STEP,
    DIM_MESSAGE_TAG = DIM_SEND_TAG,
};

typedef enum op_phase { PHASE_FORWARD, PHASE_BACKWARD, PHASE_WGRAD, PHASE_RECOMPUTE } op_phase;

/* Streams run in order, each by itself: an operation begins when the one before it on its stream is
 * complete. So what goes between pipeline stages has four: with sends and receives of both
 * directions on one, rank 0 would send its second hidden state before it takes the first gradient,
 * and rank 1 send that gradient before it takes the hidden state. The host is a stream too. */
typedef enum op_stream {
    STREAM_COMPUTE,
    STREAM_COMM,          /* messages inside layers */
    STREAM_SEND_FORWARD,  /* between pipeline stages: hidden states */
    STREAM_RECV_FORWARD,  /* ... */
    STREAM_SEND_BACKWARD, /* and their gradients */
    STREAM_RECV_BACKWARD, /* ... */
    STREAM_DP,            /* gradients and weights between replicas */
    STREAM_COPY,          /* to the host */
    STREAM_COPY_BACK,     /* from it */
    STREAM_HOST,
    STREAM_COUNT
} op_stream;

/* The parts of a layer between which combined 1F1B changes from one microbatch to another. */
typedef enum op_node {
    NODE_ATTN,     /* up to the permutation: norms, attention, router, shared expert */
    NODE_DISPATCH, /* messages to the experts */
    NODE_MLP,      /* experts; a dense MLP */
    NODE_COMBINE,  /* messages back, and what follows them */
    NODE_POST,     /* what a prediction module does after its layer */
    NODE_COUNT
} op_node;

/* The module of a model that an operation or buffer belongs to. */
typedef enum op_module {
    MODULE_NONE,
    MODULE_EMBEDDING,
    MODULE_LAYER, /* what lies between the modules of a layer */
    MODULE_ATTENTION,
    MODULE_LINEAR, /* linear attention */
    MODULE_MLP,
    MODULE_MOE,
    MODULE_SHARED, /* the shared expert */
    MODULE_PREDICTION,
    MODULE_HEAD,
    MODULE_MESSAGES, /* between stages */
    MODULE_REPLICAS,
    MODULE_OPTIMIZER, /* what a step begins and ends with */
    MODULE_COUNT
} op_module;
extern const char *const op_module_names[MODULE_COUNT]; /* for tables */

/* What it is for, where its kind does not tell and a price or the audit depends on it. */
typedef enum op_role {
    ROLE_NONE,
    ROLE_ROUTER,      /* GEMM, choice and losses of the router */
    ROLE_COUNTS,      /* rows of each expert, gathered for a dispatcher: its host must know them */
    ROLE_HOP1,        /* of the flex dispatcher: between domains, */
    ROLE_HOP2,        /* inside one */
    ROLE_EXPERTS,     /* rows of routed experts */
    ROLE_EXPERTS_FC1, /* their first GEMM, */
    ROLE_EXPERTS_FC2, /* their second one */
    ROLE_LOGIT_SUMS,  /* statistics of the logits of a chunk of rows */
} op_role;

/* Rows of experts' buffers, of which a part is empty? */
static inline bool role_is_routed(op_role r)
{
    return r >= ROLE_EXPERTS && r <= ROLE_EXPERTS_FC2;
}

enum { OP_IN_MAX = 10, OP_OUT_MAX = 8, OP_DIM_MAX = 12, OP_REAL_MAX = 4 };

typedef struct op {
    op_kind kind;
    op_phase phase;
    op_stream stream;
    op_node node;
    comm_group group; /* communication: who takes part */
    dtype type;       /* messages and copies: of their elements */
    int event;        /* its number in the list: what a WAIT names; 0 before waits are derived */
    const char *name; /* "qkv", "experts.fc1": for people, nothing is decided by it */
    op_module module;
    op_role role;
    int in[OP_IN_MAX], out[OP_OUT_MAX];
    int64_t dim[OP_DIM_MAX];
    double real[OP_REAL_MAX];
    unsigned flags;
    int layer_step; /* layers after the instance's first one */
    int blocks;     /* of a GEMM in blocks beside TP communication: their number; 0: it is whole */
} op;

/* The number formats of an operation's tensors and how many elements they have, in the order of
 * op.in and op.out; all zero is FP32 everywhere. What is not there counts for nothing. */
typedef struct op_types {
    dtype in[OP_IN_MAX], out[OP_OUT_MAX];
    int64_t in_elements[OP_IN_MAX], out_elements[OP_OUT_MAX];
} op_types;

/* Flags, each used by the kinds that name it in ops.def. */
enum {
    ACCUMULATE = 1,       /* add to the output instead of overwriting it */
    ZERO_CENTRED = 2,     /* norm: the weight is used as 1 + w */
    INTERLEAVED = 4,      /* rotary: pairs are neighbours instead of halves */
    CLAMPED = 8,          /* activation: gpt-oss's clamped form */
    SIGMOID = 16,         /* router: sigmoid scores instead of softmax */
    PRE_SOFTMAX = 32,     /* router: softmax over all experts before top-k */
    RENORMALISE = 64,     /* router: divide the chosen weights by their sum */
    BEST_TWO = 128,       /* router: a group's score is the sum of its two best experts */
    FORCED = 256,         /* router: exact round robin instead of the best experts */
    REPLAY = 512,         /* a recomputed forward: leave side effects (counters, losses) alone */
    SQRT_SOFTPLUS = 1024, /* router: sqrt(softplus) scores */
    ACROSS = 2048,        /* WAIT: for an event of the program (program.h), not of this list */
    ADD_KV = 4096,        /* attention block: add to dk and dv */
    BEST_ONE = 8192,      /* router: a group's score is that of its best expert */
    FIXED_ORDER = 16384,  /* attention's gradient: sums of a fixed order, whatever they take */
    DECAY_L2 = 32768,     /* optimizer: decay goes into the gradient */
    OVERWRITE = 65536,    /* weight gradient: written instead of added to; op_can_overwrite */
};

/* Functions of ACT_AS. */
typedef enum act_kind {
    ACT_SILU,
    ACT_GELU,
    ACT_FAST_GELU,
    ACT_QUICK_GELU,
    ACT_SQUARED_RELU
} act_kind;

/* How seconds of an operation come about: what of the cost model prices it, and as what. */
typedef enum op_cost_class {
    COST_CLASS_NONE,
    COST_CLASS_GEMM,
    COST_CLASS_GROUPED, /* GEMMs of experts */
    COST_CLASS_ATTENTION,
    COST_CLASS_DELTA_RULE,
    COST_CLASS_HEAD,
    COST_CLASS_MEMORY,   /* the bytes of its buffers */
    COST_CLASS_GATHER,   /* it picks rows of a table: what it writes, twice */
    COST_CLASS_SCATTER,  /* it adds rows to one: what it reads, three times */
    COST_CLASS_STRIDED,  /* what its sizes name */
    COST_CLASS_QUANTISE, /* as MEMORY; casts */
    COST_CLASS_ROUTER,   /* as MEMORY; Megatron's router, */
    COST_CLASS_ROUTING,  /* and what puts rows in the order of experts */
    COST_CLASS_COLLECTIVE,
    COST_CLASS_HOST_COPY,
    COST_CLASS_UPDATE, /* cost_update_bytes */
    COST_CLASS_HOST_UPDATE,
    COST_CLASSES
} op_cost_class;

/* What else others ask of a kind. */
typedef enum op_trait {
    ANY_TYPE = 1,        /* kernels take operands of any format as they are: see op_is_typed */
    QUANTISED = 2,       /* makes or reads quantised tensors as a pass or a GEMM of its own */
    WRITES_CODES = 4,    /* QUANTISE, or a fused kind that ends with it */
    OF_PARTS = 8,        /* does what several others do: fused.h */
    NORMALISES = 16,     /* RMSNorm, LayerNorm */
    ACTIVATION = 32,     /* of an MLP, both directions */
    ADDS_BIAS = 64,      /* Megatron's GEMM before it or activation behind it does that */
    PREPROCESS = 128,    /* in the graph of moe_preprocess; COST(router) is in that of moe_router */
    MOVES_ROWS = 256,    /* of tokens into the order of experts or back */
    WORD_TABLE = 512,    /* a gradient of the embedding or the head */
    NEEDS_COUNTS = 2048, /* rows of each expert must be known before it is launched */
    UNCALLED = 1024,     /* of our programs alone: Megatron's host calls nothing for it */
    STEPPED = 4096,      /* a message to or from the member DIM_MESSAGE_STEP places on */
    GIVES = 8192,        /* one half of a pair of messages with a tag, */
    TAKES = 16384,       /* the other half */
    BY_TABLE = 32768,    /* a message of rows of DIM_EXCHANGE_W elements, as many as a table says */
    GATHERS = 65536,     /* a message after which every member has what each one gives, */
    SCATTERS = 131072,   /* that has a block of its own for each member, */
    SUMS = 262144,       /* that adds up what members give */
} op_trait;

typedef enum op_gradient { GRADIENT_NONE, GRADIENT_OF_INPUTS, GRADIENT_OF_WEIGHTS } op_gradient;

/* One kind, as ops.def describes it. */
typedef struct op_info {
    const char *name;
    const char *in, *out, *dims, *reals; /* names with spaces, in the order of the arrays of op */
    const char *types;                   /* a letter for each input, '>', one for each output */
    op_cost_class cost;
    op_gradient gradient;
    unsigned traits, flags;              /* op_trait; flags of an operation that it looks at */
    double (*flops)(const int64_t *dim); /* NULL: memory binds it */
    int64_t (*elements)(const op *o, int operand); /* op_elements; NULL: no shape is known */
    int64_t (*cpu_room)(const op *o);              /* op_cpu_room; NULL: none of its own */
    unsigned adds;  /* outputs that are added to always, by bits: gradients of weights, losses */
    int overwrites; /* 1 + the output that OVERWRITE makes it write, not add to; 0: it has none */
} op_info;

extern const op_info op_infos[OP_COUNT];

static inline bool op_is(op_kind k, op_trait t)
{
    return op_infos[k].traits & (unsigned)t;
}

/* Is each tensor that is there in a format that ops.def allows? */
bool op_types_fit(const op *o, const op_types *t);

/* Elements of an operand by its shape in ops.def, whether it is there or not: inputs are numbered
 * from 0, outputs from OP_IN_MAX. -1: sizes do not tell. */
int64_t op_elements(const op *o, int operand);

/* Bytes that the CPU's kernels need beside an operation's buffers; mostly 0. Of a fused kind: what
 * lies between its parts, in FP32. */
int64_t op_cpu_room(const op *o);

/* Multiply-adds times two; 0 for what memory binds. */
double op_flops(const op *o);

/* The first input, or where there is none the first output: what a message carries. -1: neither. */
int op_first_buf(const op *o);

/* "layers", "stages, sends forward": what runs there, for people. */
extern const char *const op_stream_names[STREAM_COUNT];

/* The stream of the other side: where the receives stand whose sends stand in this one. Most
 * streams are their own other side. */
op_stream op_stream_opposite(op_stream s);

/* The stream whose communicator a message uses: its own, or that of the sends whose receives stand
 * in it. */
op_stream op_stream_channel(op_stream s);

/* Is it a message, to be started by comm and completed by a WAIT? */
static inline bool op_is_comm(op_kind k)
{
    return op_infos[k].cost == COST_CLASS_COLLECTIVE;
}

/* A sum that all get is a scatter of sums and a gather, each of a member's part of N. */
static inline bool op_goes_twice(op_kind k)
{
    return op_is(k, SUMS) && op_is(k, GATHERS);
}

/* Is it a copy to or from the host? */
static inline bool op_is_copy(op_kind k)
{
    return op_infos[k].cost == COST_CLASS_HOST_COPY;
}

/* Is it a weight gradient whose kernels have a mode that writes it whole (OVERWRITE)? */
static inline bool op_can_overwrite(op_kind k)
{
    return op_infos[k].overwrites > 0;
}

/* Do its kernels take operands of any format as they are? Others compute on FP32 ones, and on a
 * device that has no other numbers on copies. */
static inline bool op_is_typed(op_kind k)
{
    return op_is(k, ANY_TYPE);
}

/* Does it make or read quantised tensors? */
static inline bool op_is_quantised(op_kind k)
{
    return op_is(k, QUANTISED);
}

/* Does it write codes: QUANTISE, or a fused kind that ends with it? */
static inline bool op_makes_codes(op_kind k)
{
    return op_is(k, WRITES_CODES);
}

/* Does it run beside what follows it, until a WAIT? Messages and copies do. */
static inline bool op_is_async(op_kind k)
{
    return op_is_comm(k) || op_is_copy(k) || op_infos[k].cost == COST_CLASS_HOST_UPDATE;
}

#endif

/* program.h - the step program of a rank: segments, chunks of instances, items in their order, and
 * the memory they need.
 *
 * An item is one list of operations of a segment with the place where it runs: which instance of
 * which chunk and which microbatch its buffers belong to. Everything that a rank does in a step is
 * in lists of items, the parts, which the host launches one after another (item_part); it gives the
 * batch before and reads one report after them.
 *
 * The memory plan is one arena of eight regions, computed here and used as it is by the run:
 * nothing else is touched inside a step. Saved buffers of all (chunk, microbatch) pairs share one
 * region whose places are read off the order. What offload copies to the host lies in a pool of its
 * own there, behind the arena's end, and is no part of it; behind that lies the staging: the batch
 * on its way to the device, the report on its way back; and behind that what the host keeps of the
 * optimizer's state, from step to step. */
#ifndef IR_PROGRAM_H
#define IR_PROGRAM_H

#include "ir/order.h"
#include "ir/segment.h"
#include "ir/weights.h"

typedef enum region {
    REGION_WEIGHTS,
    REGION_GRADIENTS,
    REGION_OPTIMIZER, /* first moments, then second moments: of the slices that this rank owns */
    REGION_SAVED,
    REGION_QUANTIZED_WEIGHTS, /* of weights, quantised once a step */
    REGION_BOUNDARY,          /* gradients of the hidden state, messages between stages */
    REGION_STEP,
    REGION_TEMP, /* temporaries of whichever segment runs, then the kernels' workspace */
    REGION_COUNT,
    /* of fixed buffers on the host, no parts of the arena: */
    REGION_STAGING = REGION_COUNT,
    REGION_KEPT
} region;

/* The optimizer's state that the host keeps: that of all elements but the first `updated`. It is
 * updated in pieces, by the host (gradients come, weights go back) or, `moved`, by the device,
 * which has places for them in the optimizer's region: masters and moments go there and come back.
 * Offsets are in bytes. */
typedef struct kept_state {
    int64_t n;                  /* elements; 0: there is none */
    bool moved;                 /* then all there are; what lies behind the moments is not */
    int64_t piece, ring_depth;  /* elements of a piece, and how many pieces are on their way */
    int64_t first, second;      /* moments, behind the masters */
    int64_t gradients, weights; /* [turns][piece] on their way */
    int64_t table;              /* the host's copy of the update's table */
    int64_t bytes;
} kept_state;

typedef struct instance {
    const segment *seg;
    const segment *copies; /* what quantises its weights, before its first forward; or NULL */
    int64_t layer;         /* first decoder layer; 0 for embedding and head */
} instance;

typedef struct chunk {
    const stage *st;
    instance *list; /* a stage that is not the first begins with `receive`, one that is not the
                     * last ends with `send`: messages are operations of segments, too */
    int n;
    segment_kind *kinds;             /* of the list's segments */
    int64_t saved_bytes, host_bytes; /* of one microbatch */
} chunk;

/* Where the buffers of one half of an item lie. */
typedef struct item_at {
    int chunk, instance; /* chunk -1: fixed buffers only */
    int64_t micro;
    int turn; /* which of the buffers between stages, one after another */
} item_at;

typedef struct item {
    const segment *seg;
    int phase;       /* which list of the segment */
    item_at at[2];   /* of buffers with owner 0 and 1; at[1] only of pairs */
    int64_t *places; /* [n_bufs] of a packed step: where its temporaries and saved buffers lie in
                      * the arena; NULL: in their regions */
    int64_t *work;   /* [n_ops] and where the workspace of each operation does */
} item;

typedef enum item_part {
    PART_BEGIN,  /* the batch is uploaded; counters are zero, and gradients that need it */
    PART_STEP,   /* forward and backward of all microbatches */
    PART_FINISH, /* gradients become sums over replicas */
    PART_REPORT, /* rates and flags are uploaded; sums over all ranks, the verdict; the host gets
                  * both */
    PART_UPDATE, /* the optimizer; empty without one */
    PART_GATHER, /* weights are gathered; with gathers_late the next step does it */
    PART_COUNT
} item_part;

/* Parts whose operations are priced one by one; the others are what cost_of_optimizer has. */
static inline bool part_is_simulated(item_part p)
{
    return p == PART_STEP || p == PART_FINISH || p == PART_GATHER;
}

typedef struct item_list {
    item *list;
    int64_t n, room;
} item_list;

typedef struct program {
    const setup *s;
    rank_at at;
    weight_list weights;
    int64_t B, S;   /* samples of a microbatch; tokens of each on this CP rank */
    int64_t Tc, T;  /* tokens of a microbatch on this CP rank; of this TP rank's share */
    int64_t micros; /* microbatches of a step */
    segment **segments;
    int n_segments, segments_room;
    chunk *chunks;
    int64_t n_chunks;
    step_order order;
    item_list items[PART_COUNT];
    int n_events;       /* events of the program: 1 .. n_events; what operations with ACROSS name */
    int ring_depth;     /* buffers of each direction between stages, used in turn */
    bool posts_early;   /* receives are posted one unit ahead: messages overlap compute */
    bool gathers_late;  /* weights are gathered at the start of the next step, beside it */
    bool packed;        /* items of PART_STEP have places of their own (memory/step_packing.h) */
    int64_t *slot;      /* places of saved parts in their region, as packing_place finds them */
    int64_t *host_slot; /* the same in the host's pool */
    int64_t slots;      /* most instances of a chunk, without messages */
    int64_t saved_live; /* most saved bytes that live at once: the region is no shorter */
    int64_t dhidden_offset, dhidden_bytes;   /* in the boundary region: gradients of the hidden
                                              * state: [turns] */
    int64_t boundary_offset, boundary_bytes; /* messages to the next stage: [turns] */
    int64_t passed_offset, passed_bytes;     /* hidden states between segments, where they are not
                                              * saved: [2], then [turns] that are received */
    int64_t step_offset[STEP_COUNT], step_bytes[STEP_COUNT]; /* in the step region; by microbatch:
                                                              * bytes of one */
    int64_t *copy_at; /* [weights.n] of the region of copies; -1: none of this weight */
    int64_t workspace_offset, workspace_bytes;         /* in the temp region */
    int64_t offset[REGION_COUNT], bytes[REGION_COUNT]; /* of the arena */
    int64_t arena_bytes;
    int64_t host_bytes; /* activations on the host; their places follow the arena's end */
    int64_t staging_offset[STEP_COUNT], staging_bytes; /* batch and report on the host, behind */
    number_types types;                  /* of weights, gradients, masters and moments */
    int64_t first_offset, second_offset; /* moments in the optimizer region, behind the masters */
    int64_t optimizer_bytes; /* that arrays of the region take: a share of them may be cut short */
    bool *written;   /* [weights.n] is the gradient written whole by the first operation of a step
                      * that touches it? All others begin as zeros. NULL: none is */
    int64_t updated; /* elements of each that are on the device: what this rank owns, but for what
                      * the host keeps */
    kept_state kept;
} program;

/* Builds the program of one rank. The setup is valid. Memory comes from `a`. */
void program_build(program *p, const setup *s, int64_t rank, arena *a);

/* Activations at one moment, by what they are made of (memory/live.h). */
typedef struct live_level {
    int64_t saved;  /* from forward to backward */
    int64_t logits; /* of head and loss, and their gradient */
    int64_t temp;   /* everything that goes before its list ends */
    int64_t again;  /* not there: what one layer would save, but makes again; the largest */
} live_level;

/* What a rank holds. */
typedef struct program_size {
    int64_t rank, bytes[REGION_COUNT], arena_bytes, host_bytes, saved_live; /* as in its program */
    int64_t kept_bytes; /* of the optimizer, on the host */
    int64_t owned;      /* elements of the optimizer's slices */
    int64_t layers;     /* most in flight at once, of all microbatches */
    live_level level;   /* most activations at once under Megatron; zero for other targets */
} program_size;
program_size program_size_of(const program *p);

/* That of the first rank of every pipeline stage, list[pp]: to the byte what program_build plans
 * for them, without items to run. What stages have in common is built once. */
void program_sizes(program_size *list, const setup *s, arena *a);

/* Where a buffer of an item lies, as an offset from the start of the arena (past its end: on the
 * host); -1: the item does not use it. */
int64_t program_place(const program *p, const item *it, int buf_id);

/* Where an element of the flat array of weights lies in its region. */
int64_t program_weight_bytes(const program *p, int64_t element);

/* Bytes of the arena that buffers cover, without gaps of alignment: what a step can touch. */
int64_t program_buffer_bytes(const program *p);
int64_t program_host_buffer_bytes(const program *p);    /* the same of the host's pool */
int64_t program_staging_buffer_bytes(const program *p); /* and of the staging */

/* The same bytes as places, in order, none touching another; those of the host's pool and of the
 * staging lie past the arena's end. The kernels' workspace, of which operations use what they use,
 * is not among them. Memory comes from `a`. */
typedef struct program_range {
    int64_t start, end;
} program_range;
int64_t program_ranges(const program *p, program_range **out, arena *a);

/* Places of the workspace that operations may use, in order; buffers of other times may lie
 * there. */
int64_t program_workspaces(const program *p, program_range **out, arena *a);

/* Where all places end, those on the host included; and where what the host keeps begins. */
int64_t program_end(const program *p);
int64_t program_kept(const program *p);

/* Where the copy of a step's buffer lies on the host, as an offset from the start of the arena. */
int64_t program_staging(const program *p, step_buffer which);

/* How many weights the optimizer has: rows of its table. */
int64_t program_trained_weights(const program *p);

/* The last instance of the last chunk, where it is head and loss; NULL on other stages. */
const instance *program_head(const program *p);

/* Is it worth a line? Copies are only there where a recipe quantises. */
static inline bool region_is_shown(int r, int64_t size)
{
    return r != REGION_QUANTIZED_WEIGHTS || size > 0;
}

const char *region_name(region r);  /* a key of JSON */
const char *region_title(region r); /* as people say */

#endif

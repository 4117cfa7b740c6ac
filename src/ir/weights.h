/* weights.h - every weight of a rank and its place in the rank's flat arrays.
 *
 * The rank holds weights and gradients as arrays of the same shape: weight i starts at element
 * `offset` of both. As in Megatron, the weights of a chunk lie in two buffers, dense and expert,
 * in reverse order of the network, each start a multiple of 64 elements, cut into buckets that
 * divide by the number of optimizer shards (layout/state.h counts the same bytes). Untrained
 * buffers (the router's correction bias) stand behind all buckets and have no gradient.
 *
 * The sharded optimizer of this rank owns one slice of every bucket; its moments are arrays of the
 * slices, one after another. Without sharding a slice is the whole bucket.
 *
 * The list is in the order of the network: embedding, layers, head, prediction modules. */
#ifndef IR_WEIGHTS_H
#define IR_WEIGHTS_H

#include "layout/members.h"
#include "layout/stage_parts.h"

enum { WEIGHT_ALIGN_ELEMENTS = 64, WEIGHT_END_ELEMENTS = 128 };

typedef struct weight {
    const param *row;
    int64_t layer;  /* of the decoder, from n_layers on of a prediction module; else 0 */
    int64_t offset; /* elements from the start of the arrays */
    int64_t n;      /* elements on this rank */
    int64_t dim[PARAM_DIMS_MAX]; /* shape on this rank */
    int chunk;
    int bucket; /* -1: not trained */
    bool copy;  /* a copy of the word table whose first is on an earlier stage */
} weight;

typedef struct bucket {
    int64_t start, n; /* elements of the arrays, padding included */
    int chunk;
    bool expert;           /* reduced over EDP instead of DP-CP */
    int64_t shards, place; /* n divides by shards; this rank owns slice `place` */
    int64_t moments;       /* where that slice starts in the moments */
} bucket;

typedef struct weight_list {
    weight *list;
    int n;
    bucket *buckets;
    int n_buckets;
    int64_t trained;  /* elements of the arrays that have gradients, padding included */
    int64_t elements; /* all, buffers included */
    int64_t owned;    /* elements of the moments: all slices of this rank */
} weight_list;

/* ---- the walk over a stage's weights that lists and counts share */

/* Calls `see` for each row of a stage that is trained (or not), in the order of its buffers: that
 * of the network, reversed. `alone`: in a bucket of its own. */
typedef void see_weight(void *with, const param *row, int64_t layer, bool alone);
typedef struct stage_weights {
    const setup *s;
    const stage *st;
    int64_t pp;
    bool trained;
    see_weight *see;
    void *with;
} stage_weights;
void stage_weights_walk(const stage_weights *w);

/* The two buffers of a chunk (dense, expert) as weights are put into them, and their buckets: who
 * walks is told where each begins (may be NULL) and ends, in elements of its buffer. */
typedef struct bucket_walk {
    buffer buf[2];
    int64_t open[2]; /* where the bucket that is being filled starts; -1: none */
    void (*began)(void *with, int which, int64_t start);
    void (*ended)(void *with, int which, int64_t start, int64_t end);
    void *with;
} bucket_walk;
void bucket_walk_begin(bucket_walk *w, const job *j, const layout *l);
int64_t bucket_walk_add(bucket_walk *w, int which, int64_t n, bool alone); /* where it lies */
int64_t bucket_walk_end(bucket_walk *w, int which); /* the length of the buffer */

/* Of one rank of the setup's layout. Memory comes from `a`. */
void weight_list_rank(weight_list *w, const setup *s, const rank_at *at, arena *a);

/* The whole model, as one rank alone would hold it, whatever the layout: for conversions. */
void weight_list_init(weight_list *w, const setup *s, arena *a);

/* The weight of this row of the parameter table in this layer; NULL: not on this rank. The word
 * table may be there twice; `chunk` says whose (-1: any). */
const weight *weight_find(const weight_list *w, const param *row, int64_t layer, int chunk);

/* The slice of a bucket that this rank's optimizer owns. */
static inline int64_t bucket_slice(const bucket *b)
{
    return b->n / b->shards;
}
static inline int64_t bucket_slice_start(const bucket *b)
{
    return b->start + b->place * bucket_slice(b);
}

/* A box of the whole weight and where it lies in the rank's part of it: one a section of a cut
 * axis, else one. */
typedef struct weight_box {
    int64_t at[PARAM_DIMS_MAX];    /* in the whole weight (row->dim) */
    int64_t local[PARAM_DIMS_MAX]; /* in the rank's (dim of weight) */
    int64_t dim[PARAM_DIMS_MAX];
} weight_box;

/* Returns how many. `at` NULL: the whole weight. */
int weight_boxes(weight_box out[PARAM_SECTIONS_MAX], const setup *s, const rank_at *at,
                 const weight *w);

/* In Megatron's words: "decoder.layers.3.self_attention.linear_qkv.weight". */
const char *weight_name(arena *a, const setup *s, const weight *w);

#endif

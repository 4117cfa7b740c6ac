/* build.h - one builder a module; what they hand to one another.
 *
 * A module's forward reads the hidden state and returns what it adds to it; its backward takes the
 * gradient of that sum, in place (`dh`), and adds what flows back through the module. Each builder
 * keeps the numbers of its buffers in a struct between the two. */
#ifndef IR_BUILD_BUILD_H
#define IR_BUILD_BUILD_H

#include "ir/segment.h"

/* A norm and what its gradient needs. */
typedef struct norm_bufs {
    int x, y, w, dw, db; /* db: NONE without a bias */
    int rstd;            /* of LayerNorm: means, too */
    int64_t rows, width;
    unsigned flags;
} norm_bufs;

/* A norm of `rows` rows of x; its output is saved, unless `drop` is taken; with NOT_SAVED it is a
 * temporary of forward. norm_into: into y. */
enum { NOT_SAVED = 1 << 30 };
typedef struct norm_shape {
    const char *name, *weight;
    int64_t rows, width;
} norm_shape;
norm_bufs norm_forward(builder *b, const norm_shape *z, int x, unsigned drop);
norm_bufs norm_into(builder *b, const norm_shape *z, int x, int y);
norm_bufs norm_of_latent(builder *b, const norm_shape *z, int x, unsigned drop); /* MLA's */
void norm_backward(builder *b, const norm_bufs *n, int dy, int dx, bool add);

/* RMSNorm of rows of which each TP rank has `width` elements: sums go over TP. */
norm_bufs norm_cut_forward(builder *b, const norm_shape *z, int x, unsigned drop);
void norm_cut_backward(builder *b, const norm_bufs *n, int dy, int dx);

/* The activation of an MLP of `width`: u has act_columns of them, [rows][columns * width]. p [rows]
 * and its gradient may be NONE. */
int64_t act_columns(const builder *b);
void act_forward(builder *b, const char *name, const int *in, const int *out, int64_t rows,
                 int64_t width);
void act_backward(builder *b, const char *name, const int *in, const int *out, int64_t rows,
                  int64_t width);

typedef struct gemm {
    const char *name, *weight, *bias; /* bias NULL: none */
    int64_t n, k;                     /* outputs and inputs on this rank */
} gemm;

/* y[rows][n] = x[rows][k] W^T (+ bias). */
void linear_forward(builder *b, const gemm *p, int64_t rows, int x, int y);

/* dx (NONE: not wanted), added to or written, and the weight's gradients. */
typedef struct linear_grads {
    int dy, x, dx;
    bool add;
} linear_grads;
void linear_backward(builder *b, const gemm *p, int64_t rows, linear_grads g);

/* ---- GEMMs that are cut over TP
 *
 * Between modules a TP rank holds T of the CP rank's Tc tokens. */

/* A temporary [Tc][width] with everybody's x [T][width]; x itself where TP is 1. */
int gather_tokens(builder *b, int phase, const char *name, int x, int64_t width);
/* The same into `out`; a copy where TP is 1. */
op *gather_into(builder *b, int phase, const char *name, int x, int out, int64_t width);
/* out [T][width]: this rank's tokens of the sum of everybody's partial [Tc][width]. TP is not 1. */
void scatter_tokens(builder *b, int phase, const char *name, int partial, int out, int64_t width);

/* Outputs are cut: x [T][k] -> y [Tc][n]. Backward gathers x again; dx [T][k] may be NONE. */
void column_forward(builder *b, const gemm *p, int x, int y);
void column_backward(builder *b, const gemm *p, int dy, int x, int dx, bool add);
/* Inputs are cut: x [Tc][k] -> y [T][n]; the bias is whole. Backward gathers dy [T][n]. */
void row_forward(builder *b, const gemm *p, int x, int y);
void row_backward(builder *b, const gemm *p, int dy, int x, int dx);

/* The same block by block beside the messages: tp_comm_overlap (without a row's bias). */
void overlap_column_forward(builder *b, const gemm *p, int x, int y);
void overlap_column_backward(builder *b, const gemm *p, int dy, int x, int dx, bool add);
void overlap_row_forward(builder *b, const gemm *p, int x, int y);
void overlap_row_backward(builder *b, const gemm *p, int dy, int x, int dx);
/* The same with blocks of the data's gradient alone: the weight's is made of all of dy. */
void overlap_row_backward_gathered(builder *b, const gemm *p, int dy, int x, int dx);

/* Copies n elements from one place to another. */
typedef struct slice {
    int buf;
    int64_t at;
} slice;
op *move_flat(builder *b, int phase, const char *name, slice from, slice to, int64_t n);

/* Core attention as this rank computes it, and how it came to its tokens and heads. */
typedef struct core_bufs {
    int q, k, v, o, lse;
    int64_t S, n, g, d, dv, window; /* tokens of a sample, heads, sizes; window 0: none */
    comm_group heads;               /* tokens were exchanged for heads in it */
    int64_t parts;                  /* its members; 1: they were not */
    comm_group ring;                /* keys of its members are met block by block */
    int64_t members, place;         /* members 1: all keys are here */
    bool gather, latent;            /* all blocks at once; as MLA's latent */
} core_bufs;

/* Queries, keys and values, or their gradients. */
typedef struct qkv_set {
    int q, k, v;
} qkv_set;

typedef struct attention_bufs {
    norm_bufs norm, q_norm, k_norm; /* MLA: q_norm and k_norm are those of the latents */
    int q, k, v, gate, o, gated;    /* of this rank's tokens */
    int q_latent, k_latent, k_rope; /* MLA; on one TP rank k_rope is rotated, on many not yet */
    core_bufs core;
} attention_bufs;

/* Softmax attention, GQA or MLA by its block; x -> h = x + attention(x). */
void attention_forward(builder *b, attention_bufs *t, int x, int h);
void attention_backward(builder *b, const attention_bufs *t, int dh);

typedef struct gdn_bufs {
    norm_bufs norm;
    int qkv, z, b, a, conv, beta, g, o, states, normed, rstd;
} gdn_bufs;

void gdn_forward(builder *b, gdn_bufs *t, int x, int h);
void gdn_backward(builder *b, const gdn_bufs *t, int dh);

typedef struct mlp_part {
    int u, a;
} mlp_part;

typedef struct mlp_bufs {
    norm_bufs norm;
    mlp_part *parts; /* of each chunk of tokens */
} mlp_bufs;

void mlp_forward(builder *b, mlp_bufs *t, int h, int y);
void mlp_backward(builder *b, const mlp_bufs *t, int dh);

typedef struct moe_bufs {
    norm_bufs norm;
    int logits, probs, ids, keep;
    int rows, offsets, demand;    /* arrived rows to experts' rows; where each expert's start */
    int xp, pp, u, a;             /* [room] */
    int kept, ep, etp, sums;      /* alltoall: rows that left, tables, parts of a row */
    int hop1, fan, hop2, demand3; /* flex: tables, rows inside the domain; kept: rows that left */
    int shared_u, shared_a, shared_y, shared_g;
    int64_t capacity, pad;
    int64_t room;             /* rows of this rank's experts */
    int64_t room0, room1;     /* rows that leave; that arrive first */
    int64_t arrived;          /* alltoall: that arrive in all, in their order */
    int64_t room_send, room2; /* flex: inside the domain */
    int out, dn, dp;          /* of a chunk: where its rows of results belong; else NONE */
    struct moe_bufs *parts;   /* of each chunk of tokens; NULL: there is one */
} moe_bufs;

void moe_forward(builder *b, moe_bufs *t, int h, int y);
void moe_backward(builder *b, const moe_bufs *t, int dh);

typedef union block_bufs {
    attention_bufs attention;
    gdn_bufs gdn;
    mlp_bufs mlp;
    moe_bufs moe;
} block_bufs;

/* One block of a layer: x -> y. */
void block_forward(builder *b, block_bufs *t, const model_block *k, int x, int y);
void block_backward(builder *b, const block_bufs *t, const model_block *k, int dh);

typedef struct layer_bufs {
    block_bufs blocks[LAYER_BLOCKS_MAX];
} layer_bufs;

/* One decoder layer of the kind of b->layer, block by block: x -> y. */
void layer_forward(builder *b, layer_bufs *t, int x, int y);
void layer_backward(builder *b, const layer_bufs *t, int dh);

/* Words of the batch, rows ids of the vocabulary's table: out [T][H]. */
#define WORDS "embedding.word_embeddings.weight"
void embed_forward(builder *b, const char *name, step_buffer ids, int out);
void embed_backward(builder *b, const char *name, step_buffer ids, int dx);

/* Whole segments. `n_layers` layers from b->layer on. With a prediction module the final norm is a
 * segment of its own behind the last layer; `mtp` reads what it gives, [T][H], and hands on
 * [2][T][H]: that, and the module's own; `head` reads both. Without one `head` begins with the
 * final norm. */
void build_embedding(builder *b, segment *seg);
void build_layers(builder *b, segment *seg, int64_t layer, int n_layers);
void build_final(builder *b, segment *seg);
void build_mtp(builder *b, segment *seg);
void build_head(builder *b, segment *seg);

/* Where a rank's flex group begins in its first domain; 0 with other dispatchers. Segments of ranks
 * that differ in it are not alike: domains cut their groups at other members. */
int64_t flex_shift_of(const setup *s, const rank_at *at);

#endif

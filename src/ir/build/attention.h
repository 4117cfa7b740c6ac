/* attention.h - the parts of softmax attention: heads of grouped queries or MLA, and the core
 * with its context parallelism.
 *
 * A CP rank's samples have S tokens each, in two halves: chunk c and chunk 2CP-1-c of the sequence
 * (zigzag). What travels so that queries meet all keys is the kind of context parallel. */
#ifndef IR_BUILD_ATTENTION_H
#define IR_BUILD_ATTENTION_H

#include "ir/build/build.h"

#define SA "self_attention."

/* Heads of this TP rank and their sizes. */
typedef struct head_sizes {
    int64_t n, g, d, dv; /* queries, keys; elements of a query, of a value */
} head_sizes;

head_sizes attention_heads(const builder *b);

/* Rotates heads of x[Tc][heads][size] in place, from element `offset` on; or back. */
typedef struct turn {
    int64_t heads, size, offset;
    bool back;
} turn;
void attention_rotate(builder *b, int phase, int x, turn t);

/* From the norm's output to q, k, v; and the gradient back to it. */
void gqa_forward(builder *b, attention_bufs *t);
void gqa_backward(builder *b, const attention_bufs *t, qkv_set d, int dgate, int dxn);
void mla_forward(builder *b, attention_bufs *t);
void mla_backward(builder *b, const attention_bufs *t, qkv_set d, int dxn);

/* ---- core attention */

/* How this layer's queries meet all keys. Before q, k, v are made. */
void core_plan(const builder *b, core_bufs *c);

/* J_CP_COMM_ of a layer: one kind for all, or one a layer; a prediction module is like the last. */
int core_cp_comm(const setup *s, int64_t layer);

/* t->q, t->k, t->v -> t->o [Tc][n][dv], and what backward needs. */
void core_forward(builder *b, attention_bufs *t);
qkv_set core_backward(builder *b, const attention_bufs *t, int dout);

/* All keys are here: OP_ATTN or its gradient, of the heads of c. */
op *core_whole(builder *b, int phase, const core_bufs *c, const int *in, const int *out);
/* This rank's part of the sinks; NONE: the model has none. */
int core_sinks(builder *b, int phase, const core_bufs *c);
int core_sinks_gradient(builder *b, const core_bufs *c);
void core_sinks_give(builder *b, const core_bufs *c, int dsinks);

/* The same by groups of key/value heads, one after another (core_groups.c). */
int64_t core_group_count(const builder *b, const core_bufs *c);
void groups_forward(builder *b, const core_bufs *c, int64_t groups);
qkv_set groups_backward(builder *b, const core_bufs *c, int64_t groups, int dout);

/* One block of keys, of the ring's member `member`. */
op *core_block(builder *b, int phase, const core_bufs *c, int64_t member, const int *in,
               const int *out);

/* The member whose block is here after h hops. */
int64_t core_owner(const core_bufs *c, int64_t h);

/* Sends x[n] one hop on; returns what comes. */
int core_hop(builder *b, int phase, const core_bufs *c, int x, int64_t n);

/* Where the gradient by the queries is added up over blocks: in FP32 where the target merges so. */
int core_query_gradient(builder *b, const core_bufs *c);

/* Keys and values of all members: round the ring, or gathered. */
void blocks_forward(builder *b, const core_bufs *c);
qkv_set blocks_backward(builder *b, const core_bufs *c, int dout);

/* The ring over MLA's latent: fills c->o and c->lse. Backward returns dq, and as k and v the
 * gradients of the normed latent [Tc][R] and of the rotated key part [Tc][Dr], both sums over this
 * rank's heads only. */
void latent_forward(builder *b, const attention_bufs *t);
qkv_set latent_backward(builder *b, const attention_bufs *t, int dout);
gemm mla_kv_up(const builder *b);
/* The rotated part of the keys of all Tc tokens, into out[Tc][Dr]. */
void mla_rotated_keys(builder *b, int phase, const attention_bufs *t, int out);

/* ---- tokens to heads and back, over a group whose members hold different tokens */

/* A part of a token's row and where it lies on both sides: `tokens` is [B*S][token_row] with the
 * heads of all P members, `heads` is [B][P*S][head_row], in the order of the sequence, with this
 * member's. */
typedef struct head_part {
    int tokens, heads;
    int64_t token_row, token_at, head_row, head_at;
    int64_t width; /* of one member's heads */
} head_part;

typedef struct head_swap {
    const char *name;
    comm_group group;
    const head_part *list; /* all in one message */
    int n;
} head_swap;

void tokens_to_heads(builder *b, int phase, const head_swap *s);
void heads_to_tokens(builder *b, int phase, const head_swap *s);

/* The part of a weight that belongs to this member's heads; the weight has up to three sections,
 * each cut by heads. Where the group has one member it is the weight itself. */
typedef struct weight_part {
    const char *name;
    comm_group group;
    int64_t width[3]; /* elements of the part's sections; 0: no more */
} weight_part;

int part_take(builder *b, int phase, const weight_part *w);
int part_gradient(builder *b, const weight_part *w);      /* to be added to, */
void part_give(builder *b, const weight_part *w, int dw); /* then added to the weight's */

#endif

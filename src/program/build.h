/* build.h - one builder a module; what they hand to one another.
 *
 * A module's forward reads the hidden state and returns what it adds to it; its backward takes the
 * gradient of that sum, in place (`dh`), and adds what flows back through the module. Each builder
 * keeps the numbers of its buffers in a struct between the two. */
#ifndef PROGRAM_BUILD_H
#define PROGRAM_BUILD_H

#include "program/segment.h"

/* A norm and what its gradient needs. */
typedef struct norm_bufs {
    int x, y, rstd, w, dw;
    int64_t rows, width;
    unsigned flags;
} norm_bufs;

/* A norm of `rows` rows of x; its output is saved, unless `drop` is taken. */
norm_bufs norm_forward(builder *b, const char *name, const char *weight, int x, int64_t rows,
                       int64_t width, unsigned drop);
void norm_backward(builder *b, const norm_bufs *n, int dy, int dx, bool add);

/* y = x W^T (+ bias); names of weight and bias rows. */
void linear_forward(builder *b, const char *name, const char *weight, const char *bias, int x,
                    int y, int64_t m, int64_t n, int64_t k);
/* dx (NONE: not wanted) and the weight's gradients. */
void linear_backward(builder *b, const char *name, const char *weight, const char *bias, int dy,
                     int x, int dx, bool add, int64_t m, int64_t n, int64_t k);

typedef struct attention_bufs {
    norm_bufs norm, q_norm, k_norm; /* MLA: q_norm and k_norm are those of the latents */
    int q, k, v, gate, o, gated, lse;
    int q_latent, k_latent, k_rope; /* MLA */
    int sinks;
    int64_t window;
} attention_bufs;

/* Softmax attention, GQA or MLA by the model; x -> h = x + attention(x). */
void attention_forward(builder *b, attention_bufs *t, int x, int h);
void attention_backward(builder *b, const attention_bufs *t, int dh);

/* q, k, v of MLA, and the gradients of its projections down to the norm's output. */
void mla_forward(builder *b, attention_bufs *t);
void mla_backward(builder *b, const attention_bufs *t, int dq, int dk, int dv, int dxn);

typedef struct gdn_bufs {
    norm_bufs norm;
    int qkv, z, b, a, conv, beta, g, o, states, normed, rstd;
} gdn_bufs;

void gdn_forward(builder *b, gdn_bufs *t, int x, int h);
void gdn_backward(builder *b, const gdn_bufs *t, int dh);

typedef struct mlp_bufs {
    norm_bufs norm;
    int u, a;
} mlp_bufs;

void mlp_forward(builder *b, mlp_bufs *t, int h, int y);
void mlp_backward(builder *b, const mlp_bufs *t, int dh);

typedef struct moe_bufs {
    norm_bufs norm;
    int logits, probs, ids, keep, rows, offsets, xp, pp, u, a;
    int shared_u, shared_a, shared_y, shared_g;
    int64_t room, capacity, pad;
} moe_bufs;

void moe_forward(builder *b, moe_bufs *t, int h, int y);
void moe_backward(builder *b, const moe_bufs *t, int dh);

typedef struct layer_bufs {
    attention_bufs attention;
    gdn_bufs gdn;
    mlp_bufs mlp;
    moe_bufs moe;
    int h;
} layer_bufs;

/* One decoder layer of the kind of b->layer: x -> y. */
void layer_forward(builder *b, layer_bufs *t, int x, int y);
void layer_backward(builder *b, const layer_bufs *t, int dh);

/* Whole segments. `n_layers` layers from b->layer on. */
void build_embedding(builder *b, segment *seg);
void build_layers(builder *b, segment *seg, int64_t layer, int n_layers);
void build_head(builder *b, segment *seg);

#endif

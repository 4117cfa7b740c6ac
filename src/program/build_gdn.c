/* build_gdn.c - gated delta net. */
#include "program/build.h"

#define SA   "self_attention."
#define PROJ SA "in_proj.weight"
#define OUT_ SA "out_proj.weight"

enum { CHUNK = 64 }; /* tokens of the rule's chunks; states are kept between them */

typedef struct gdn_sizes {
    int64_t T, H, nk, nv, dk, dv, c, z, in;
} gdn_sizes;

static gdn_sizes sizes_of(const builder *b)
{
    const model *m = &b->s->m;
    gdn_sizes z = {.T = b->T,
                   .H = m->hidden,
                   .nk = m->gdn_k_heads,
                   .nv = m->gdn_v_heads,
                   .dk = m->gdn_k_dim,
                   .dv = m->gdn_v_dim};
    z.z = z.nv * z.dv;
    z.c = 2 * z.nk * z.dk + z.z;
    z.in = z.c + z.z + 2 * z.nv;
    return z;
}

void gdn_forward(builder *b, gdn_bufs *t, int x, int h)
{
    gdn_sizes z = sizes_of(b);
    int64_t T = z.T, states = b->B * ((b->S + CHUNK - 1) / CHUNK) * z.nv * z.dk * z.dv;
    b->module = "linear attention";
    t->norm =
        norm_forward(b, "linear.norm", SA "in_proj.layer_norm_weight", x, T, z.H, DROP_LAYERNORM);
    int in = seg_temp(b, "linear.in", T * z.in);
    linear_forward(b, "linear.in", PROJ, NULL, t->norm.y, in, T, z.in, z.H);
    t->qkv = seg_saved(b, "linear.qkv", T * z.c, 0);
    t->z = seg_saved(b, "linear.z", T * z.z, 0);
    t->b = seg_saved(b, "linear.b", T * z.nv, 0);
    t->a = seg_saved(b, "linear.a", T * z.nv, 0);
    seg_op(b, SEG_FORWARD, OP_GDN_SPLIT, "linear.split", IN(in), OUT(t->qkv, t->z, t->b, t->a),
           DIM(T, z.c, z.z, z.nv));
    t->conv = seg_saved(b, "linear.conv", T * z.c, 0);
    seg_op(b, SEG_FORWARD, OP_CONV, "linear.conv", IN(t->qkv, seg_weight(b, SA "conv1d.weight")),
           OUT(t->conv), DIM(b->B, b->S, z.c, b->s->m.gdn_conv));
    t->beta = seg_saved(b, "linear.beta", T * z.nv, 0);
    t->g = seg_saved(b, "linear.g", T * z.nv, 0);
    seg_op(b, SEG_FORWARD, OP_GDN_GATES, "linear.gates",
           IN(t->b, t->a, seg_weight(b, SA "A_log"), seg_weight(b, SA "dt_bias")),
           OUT(t->beta, t->g), DIM(T, z.nv));
    t->o = seg_saved(b, "linear.o", T * z.z, 0);
    t->states = seg_saved(b, "linear.states", states, 0);
    seg_op(b, SEG_FORWARD, OP_GDN_RULE, "linear.rule", IN(t->conv, t->beta, t->g),
           OUT(t->o, t->states), DIM(b->B, b->S, z.nk, z.nv, z.dk, z.dv, CHUNK));
    t->normed = seg_saved(b, "linear.normed", T * z.z, DROP_GDN_NORM_OUT);
    t->rstd = seg_saved(b, "rstd", T * z.nv, 0);
    op *o = seg_op(b, SEG_FORWARD, OP_GATED_NORM, "linear.out_norm",
                   IN(t->o, t->z, seg_weight(b, SA "out_norm.weight")), OUT(t->normed, t->rstd),
                   DIM(T * z.nv, z.dv));
    o->real[0] = recipe_real(&b->s->r, K_NORM_EPS);
    o->flags = b->s->m.zero_centered ? ZERO_CENTRED : 0;
    int y = seg_temp(b, "linear.out", T * z.H);
    linear_forward(b, "linear.proj", OUT_, NULL, t->normed, y, T, z.H, z.z);
    seg_op(b, SEG_FORWARD, OP_ADD, "linear.residual", IN(x, y), OUT(h), DIM(T * z.H));
}

void gdn_backward(builder *b, const gdn_bufs *t, int dh)
{
    gdn_sizes z = sizes_of(b);
    int64_t T = z.T;
    b->module = "linear attention";
    unsigned zero = b->s->m.zero_centered ? ZERO_CENTRED : 0;
    int dn = seg_temp(b, "linear.dnormed", T * z.z), dy = seg_temp(b, "linear.do", T * z.z);
    int dz = seg_temp(b, "linear.dz", T * z.z);
    linear_backward(b, "linear.proj", OUT_, NULL, dh, t->normed, dn, false, T, z.H, z.z);
    seg_op(b, SEG_BACKWARD, OP_GATED_NORM_W, "linear.out_norm", IN(dn, t->o, t->z, t->rstd),
           OUT(seg_gradient(b, SA "out_norm.weight")), DIM(T * z.nv, z.dv));
    op *o = seg_op(b, SEG_BACKWARD, OP_GATED_NORM_D, "linear.out_norm",
                   IN(dn, t->o, t->z, seg_weight(b, SA "out_norm.weight"), t->rstd), OUT(dy, dz),
                   DIM(T * z.nv, z.dv));
    o->flags = zero;
    int dconv = seg_temp(b, "linear.dconv", T * z.c), dbeta = seg_temp(b, "linear.dbeta", T * z.nv);
    int dg = seg_temp(b, "linear.dg", T * z.nv);
    seg_op(b, SEG_BACKWARD, OP_GDN_RULE_D, "linear.rule", IN(dy, t->conv, t->beta, t->g, t->states),
           OUT(dconv, dbeta, dg), DIM(b->B, b->S, z.nk, z.nv, z.dk, z.dv, CHUNK));
    int db = seg_temp(b, "linear.db", T * z.nv), da = seg_temp(b, "linear.da", T * z.nv);
    int a_log = seg_weight(b, SA "A_log"), dt = seg_weight(b, SA "dt_bias");
    seg_op(b, SEG_BACKWARD, OP_GDN_GATES_W, "linear.gates", IN(dg, t->a, a_log, dt),
           OUT(seg_gradient(b, SA "A_log"), seg_gradient(b, SA "dt_bias")), DIM(T, z.nv));
    seg_op(b, SEG_BACKWARD, OP_GDN_GATES_D, "linear.gates", IN(dbeta, dg, t->b, t->a, a_log, dt),
           OUT(db, da), DIM(T, z.nv));
    int dqkv = seg_temp(b, "linear.dqkv", T * z.c), w = seg_weight(b, SA "conv1d.weight");
    seg_op(b, SEG_BACKWARD, OP_CONV_W, "linear.conv", IN(dconv, t->qkv, w),
           OUT(seg_gradient(b, SA "conv1d.weight")), DIM(b->B, b->S, z.c, b->s->m.gdn_conv));
    seg_op(b, SEG_BACKWARD, OP_CONV_D, "linear.conv", IN(dconv, t->qkv, w), OUT(dqkv),
           DIM(b->B, b->S, z.c, b->s->m.gdn_conv));
    int din = seg_temp(b, "linear.din", T * z.in), dxn = seg_temp(b, "linear.dn", T * z.H);
    seg_op(b, SEG_BACKWARD, OP_GDN_JOIN, "linear.split", IN(dqkv, dz, db, da), OUT(din),
           DIM(T, z.c, z.z, z.nv));
    linear_backward(b, "linear.in", PROJ, NULL, din, t->norm.y, dxn, false, T, z.in, z.H);
    norm_backward(b, &t->norm, dxn, dh, true);
}

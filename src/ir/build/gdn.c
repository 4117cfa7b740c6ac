/* gdn.c - gated delta net.
 *
 * TP cuts heads. The convolution and the rule run along the sequence, so with context parallel the
 * tokens of all CP ranks are exchanged for a part of the heads behind the first projection, and
 * back before the last; in between are whole sequences. Convolution and gates then use the part of
 * their weights that belongs to these heads: it is copied, and its gradient added to that part of
 * the weight's. */
#include "ir/build/attention.h"

#define CONV  SA "conv1d.weight"
#define A_LOG SA "A_log"
#define DT    SA "dt_bias"

enum { CHUNK = 64 }; /* tokens of the rule's chunks; states are kept between them */

/* Sizes on this rank, with the heads that it computes. */
typedef struct gdn_sizes {
    int64_t S, T, H, nk, nv, dk, dv; /* S: tokens of a sample; T of all */
    int64_t k, z, c, in; /* width of q or k, of z or v, of what is convolved, of the projection */
    int64_t parts;       /* ranks that share this TP rank's heads */
} gdn_sizes;

static gdn_sizes sizes_of(const builder *b)
{
    const gdn_block *g = &b->block->gdn;
    int64_t cp = b->s->lay.cp, parts = b->s->lay.tp * cp;
    gdn_sizes z = {.S = b->seq,
                   .T = b->B * b->seq,
                   .H = b->s->m.hidden,
                   .nk = g->k_heads / parts,
                   .nv = g->v_heads / parts,
                   .dk = g->k_dim,
                   .dv = g->v_dim,
                   .parts = cp};
    z.k = z.nk * z.dk;
    z.z = z.nv * z.dv;
    z.c = 2 * z.k + z.z;
    z.in = z.c + z.z + 2 * z.nv;
    return z;
}

static gemm in_proj(const builder *b)
{
    gdn_sizes z = sizes_of(b);
    return (gemm){"linear.in", SA "in_proj.weight", NULL, z.in * z.parts, z.H};
}

static gemm out_proj(const builder *b)
{
    gdn_sizes z = sizes_of(b);
    return (gemm){"linear.proj", SA "out_proj.weight", NULL, z.H, z.z * z.parts};
}

/* ---- exchange of tokens and heads */

/* What the projection gives: q, k, v, z, b, a of all heads in a row. */
typedef struct gdn_ins {
    int qkv, z, b, a;
} gdn_ins;

enum { SECTIONS = 6 };

static void sections_of(const builder *b, int in, gdn_ins t, head_part list[SECTIONS])
{
    gdn_sizes z = sizes_of(b);
    const struct {
        int heads;
        int64_t width, row, at;
    } table[SECTIONS] = {{t.qkv, z.k, z.c, 0}, {t.qkv, z.k, z.c, z.k}, {t.qkv, z.z, z.c, 2 * z.k},
                         {t.z, z.z, z.z, 0},   {t.b, z.nv, z.nv, 0},   {t.a, z.nv, z.nv, 0}};
    int64_t at = 0;
    for (int i = 0; i < SECTIONS; i++) {
        list[i] = (head_part){.tokens = in,
                              .heads = table[i].heads,
                              .token_row = z.in * z.parts,
                              .token_at = at,
                              .head_row = table[i].row,
                              .head_at = table[i].at,
                              .width = table[i].width};
        at += table[i].width * z.parts;
    }
}

static void split(builder *b, int in, gdn_ins t)
{
    gdn_sizes z = sizes_of(b);
    if (z.parts == 1) {
        seg_op(b, SEG_FORWARD, OP_GDN_SPLIT, "linear.split", IN(in), OUT(t.qkv, t.z, t.b, t.a),
               DIM(z.T, z.c, z.z, z.nv));
        return;
    }
    head_part list[SECTIONS];
    sections_of(b, in, t, list);
    tokens_to_heads(b, SEG_FORWARD, &(head_swap){"linear.heads", GROUP_CP, list, SECTIONS});
}

static void join(builder *b, int din, gdn_ins d)
{
    gdn_sizes z = sizes_of(b);
    if (z.parts == 1) {
        seg_op(b, SEG_BACKWARD, OP_GDN_JOIN, "linear.split", IN(d.qkv, d.z, d.b, d.a), OUT(din),
               DIM(z.T, z.c, z.z, z.nv));
        return;
    }
    head_part list[SECTIONS];
    sections_of(b, din, d, list);
    heads_to_tokens(b, SEG_BACKWARD, &(head_swap){"linear.heads", GROUP_CP, list, SECTIONS});
}

static head_part output_part(const builder *b, int tokens, int heads)
{
    gdn_sizes z = sizes_of(b);
    return (head_part){.tokens = tokens,
                       .heads = heads,
                       .token_row = z.z * z.parts,
                       .head_row = z.z,
                       .width = z.z};
}

/* ---- weights of these heads */

static weight_part conv_part(const builder *b)
{
    gdn_sizes z = sizes_of(b);
    int64_t taps = b->block->gdn.conv;
    return (weight_part){CONV, GROUP_CP, {z.k * taps, z.k * taps, z.z * taps}};
}

static weight_part value_part(const builder *b, const char *name)
{
    return (weight_part){name, GROUP_CP, {sizes_of(b).nv}};
}

/* ---- forward */

static void rule_forward(builder *b, gdn_bufs *t)
{
    gdn_sizes z = sizes_of(b);
    weight_part conv = conv_part(b), a_log = value_part(b, A_LOG), dt = value_part(b, DT);
    t->conv = seg_saved(b, "linear.conv", z.T * z.c, 0);
    seg_op(b, SEG_FORWARD, OP_CONV, "linear.conv", IN(t->qkv, part_take(b, SEG_FORWARD, &conv)),
           OUT(t->conv), DIM(b->B, z.S, z.c, b->block->gdn.conv));
    t->beta = seg_saved_as(b, "linear.beta", z.T * z.nv, 0, DTYPE_F32);
    t->g = seg_saved_as(b, "linear.g", z.T * z.nv, 0, DTYPE_F32);
    int a_here = part_take(b, SEG_FORWARD, &a_log), dt_here = part_take(b, SEG_FORWARD, &dt);
    seg_op(b, SEG_FORWARD, OP_GDN_GATES, "linear.gates", IN(t->b, t->a, a_here, dt_here),
           OUT(t->beta, t->g), DIM(z.T, z.nv));
    t->o = seg_saved(b, "linear.o", z.T * z.z, 0);
    t->states = seg_saved_as(b, "linear.states",
                             b->B * ((z.S + CHUNK - 1) / CHUNK) * z.nv * z.dk * z.dv, 0, DTYPE_F32);
    seg_op(b, SEG_FORWARD, OP_GDN_RULE, "linear.rule", IN(t->conv, t->beta, t->g),
           OUT(t->o, t->states), DIM(b->B, z.S, z.nk, z.nv, z.dk, z.dv, CHUNK));
}

static void norm_out_forward(builder *b, gdn_bufs *t)
{
    gdn_sizes z = sizes_of(b);
    bool away = z.parts > 1;
    t->normed = seg_saved(b, "linear.normed", b->Tc * z.z * z.parts, DROP_GDN_NORM_OUT);
    t->rstd = seg_saved_as(b, "rstd", z.T * z.nv, 0, DTYPE_F32);
    int here = away ? seg_temp(b, "linear.normed", z.T * z.z) : t->normed;
    op *o = seg_op(b, SEG_FORWARD, OP_GATED_NORM, "linear.out_norm",
                   IN(t->o, t->z, seg_weight(b, SA "out_norm.weight")), OUT(here, t->rstd),
                   DIM(z.T * z.nv, z.dv));
    o->real[REAL_GATED_NORM_eps] = b->s->j.norm_eps;
    o->flags = b->s->m.zero_centered ? ZERO_CENTRED : 0;
    const head_part out = output_part(b, t->normed, here);
    if (away) heads_to_tokens(b, SEG_FORWARD, &(head_swap){"linear.tokens", GROUP_CP, &out, 1});
}

void gdn_forward(builder *b, gdn_bufs *t, int x, int h)
{
    gdn_sizes z = sizes_of(b);
    gemm first = in_proj(b), last = out_proj(b);
    b->module = MODULE_LINEAR;
    b->node = NODE_ATTN;
    t->norm =
        norm_forward(b, &(norm_shape){"linear.norm", SA "in_proj.layer_norm_weight", b->T, z.H}, x,
                     DROP_LAYERNORM | STORED);
    int in = seg_temp(b, "linear.in", b->Tc * first.n);
    column_forward(b, &first, t->norm.y, in);
    t->qkv = seg_saved(b, "linear.qkv", z.T * z.c, 0);
    t->z = seg_saved(b, "linear.z", z.T * z.z, 0);
    t->b = seg_saved(b, "linear.b", z.T * z.nv, 0);
    t->a = seg_saved(b, "linear.a", z.T * z.nv, 0);
    split(b, in, (gdn_ins){t->qkv, t->z, t->b, t->a});
    rule_forward(b, t);
    norm_out_forward(b, t);
    int y = seg_temp(b, "linear.out", b->T * z.H);
    row_forward(b, &last, t->normed, y);
    seg_op(b, SEG_FORWARD, OP_ADD, "linear.residual", IN(x, y), OUT(h), DIM(b->T * z.H));
}

/* ---- backward */

static void norm_out_backward(builder *b, const gdn_bufs *t, int dn, int dy, int dz)
{
    gdn_sizes z = sizes_of(b);
    if (z.parts > 1) {
        int here = seg_temp(b, "linear.dnormed", z.T * z.z);
        const head_part out = output_part(b, dn, here);
        tokens_to_heads(b, SEG_BACKWARD, &(head_swap){"linear.tokens", GROUP_CP, &out, 1});
        dn = here;
    }
    seg_op(b, SEG_BACKWARD, OP_GATED_NORM_W, "linear.out_norm", IN(dn, t->o, t->z, t->rstd),
           OUT(seg_gradient(b, SA "out_norm.weight")), DIM(z.T * z.nv, z.dv));
    op *o = seg_op(b, SEG_BACKWARD, OP_GATED_NORM_D, "linear.out_norm",
                   IN(dn, t->o, t->z, seg_weight(b, SA "out_norm.weight"), t->rstd), OUT(dy, dz),
                   DIM(z.T * z.nv, z.dv));
    o->flags = b->s->m.zero_centered ? ZERO_CENTRED : 0;
}

static void gates_backward(builder *b, const gdn_bufs *t, int dbeta, int dg, gdn_ins d)
{
    gdn_sizes z = sizes_of(b);
    weight_part a_log = value_part(b, A_LOG), dt = value_part(b, DT);
    int a_here = part_take(b, SEG_BACKWARD, &a_log), dt_here = part_take(b, SEG_BACKWARD, &dt);
    int da_log = part_gradient(b, &a_log), ddt = part_gradient(b, &dt);
    seg_op(b, SEG_BACKWARD, OP_GDN_GATES_W, "linear.gates", IN(dg, t->a, a_here, dt_here),
           OUT(da_log, ddt), DIM(z.T, z.nv));
    seg_op(b, SEG_BACKWARD, OP_GDN_GATES_D, "linear.gates",
           IN(dbeta, dg, t->b, t->a, a_here, dt_here), OUT(d.b, d.a), DIM(z.T, z.nv));
    part_give(b, &a_log, da_log);
    part_give(b, &dt, ddt);
}

static void conv_backward(builder *b, const gdn_bufs *t, int dconv, int dqkv)
{
    gdn_sizes z = sizes_of(b);
    weight_part conv = conv_part(b);
    int w = part_take(b, SEG_BACKWARD, &conv), dw = part_gradient(b, &conv);
    seg_op(b, SEG_BACKWARD, OP_CONV_W, "linear.conv", IN(dconv, t->qkv, w), OUT(dw),
           DIM(b->B, z.S, z.c, b->block->gdn.conv));
    seg_op(b, SEG_BACKWARD, OP_CONV_D, "linear.conv", IN(dconv, t->qkv, w), OUT(dqkv),
           DIM(b->B, z.S, z.c, b->block->gdn.conv));
    part_give(b, &conv, dw);
}

void gdn_backward(builder *b, const gdn_bufs *t, int dh)
{
    gdn_sizes z = sizes_of(b);
    gemm first = in_proj(b), last = out_proj(b);
    b->module = MODULE_LINEAR;
    b->node = NODE_ATTN;
    int dn = seg_temp(b, "linear.dnormed", b->Tc * last.k),
        dy = seg_temp(b, "linear.do", z.T * z.z);
    gdn_ins d = {.z = seg_temp(b, "linear.dz", z.T * z.z)};
    row_backward(b, &last, dh, t->normed, dn);
    norm_out_backward(b, t, dn, dy, d.z);
    int dconv = seg_temp(b, "linear.dconv", z.T * z.c);
    int dbeta = seg_temp_as(b, "linear.dbeta", z.T * z.nv, DTYPE_F32),
        dg = seg_temp_as(b, "linear.dg", z.T * z.nv, DTYPE_F32);
    seg_op(b, SEG_BACKWARD, OP_GDN_RULE_D, "linear.rule", IN(dy, t->conv, t->beta, t->g, t->states),
           OUT(dconv, dbeta, dg), DIM(b->B, z.S, z.nk, z.nv, z.dk, z.dv, CHUNK));
    d.b = seg_temp(b, "linear.db", z.T * z.nv);
    d.a = seg_temp(b, "linear.da", z.T * z.nv);
    gates_backward(b, t, dbeta, dg, d);
    d.qkv = seg_temp(b, "linear.dqkv", z.T * z.c);
    conv_backward(b, t, dconv, d.qkv);
    int din = seg_temp(b, "linear.din", b->Tc * first.n),
        dxn = seg_temp(b, "linear.dn", b->T * z.H);
    join(b, din, d);
    column_backward(b, &first, din, t->norm.y, dxn, false);
    norm_backward(b, &t->norm, dxn, dh, true);
}

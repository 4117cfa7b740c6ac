/* mla.c - multi-head latent attention: its projections.
 *
 * Projections down are whole on every TP rank and take its own tokens; those up are cut by heads
 * and gather the normed latents. The rotated part of the key, which all heads share, is gathered,
 * too, and rotated then: tables go by the CP rank's tokens.
 *
 * With the ring over the latent (latent.c) keys and values are not made here at all. */
#include "ir/build/attention.h"

#define Q_NORM  SA "linear_q_up_proj.layer_norm_weight"
#define KV_NORM SA "linear_kv_up_proj.layer_norm_weight"

/* ---- projections */

static gemm q_down(const builder *b)
{
    return (gemm){"q.down", SA "linear_q_down_proj.weight", SA "linear_q_down_proj.bias",
                  b->block->attention.q_lora, b->s->m.hidden};
}

static gemm kv_down(const builder *b)
{
    return (gemm){"kv.down", SA "linear_kv_down_proj.weight", SA "linear_kv_down_proj.bias",
                  b->block->attention.kv_lora + b->block->attention.qk_rope_dim, b->s->m.hidden};
}

static gemm q_up(const builder *b)
{
    const model *m = &b->s->m;
    const attention_block *a = &b->block->attention;
    int64_t n = a->heads / b->s->lay.tp * (a->qk_dim + a->qk_rope_dim);
    if (!a->q_lora) return (gemm){"q", SA "linear_q_proj.weight", NULL, n, m->hidden};
    return (gemm){"q.up", SA "linear_q_up_proj.weight", NULL, n, a->q_lora};
}

gemm mla_kv_up(const builder *b)
{
    const attention_block *a = &b->block->attention;
    return (gemm){"kv.up", SA "linear_kv_up_proj.weight", NULL,
                  a->heads / b->s->lay.tp * (a->qk_dim + a->v_dim), a->kv_lora};
}

static void down_forward(builder *b, const gemm *p, int x, int y)
{
    linear_forward(b, p, b->T, x, y);
}

static void down_backward(builder *b, const gemm *p, int dy, int x, int dx, bool add)
{
    linear_backward(b, p, b->T, (linear_grads){dy, x, dx, add});
}

/* ---- forward */

/* Exchanged for heads, the buffers of this rank's tokens are not read in backward. */
static int kept(builder *b, const attention_bufs *t, const char *name, int64_t elements)
{
    return t->core.parts > 1 ? seg_temp(b, name, elements)
                             : seg_saved(b, name, elements, DROP_MLA_UP_PROJ | OFF_CORE_ATTN);
}

static void queries_forward(builder *b, attention_bufs *t)
{
    const attention_block *a = &b->block->attention;
    head_sizes z = attention_heads(b);
    gemm up = q_up(b);
    int x = t->norm.y;
    t->q = kept(b, t, "q", b->Tc * up.n);
    if (a->q_lora) {
        gemm down = q_down(b);
        t->q_latent = seg_saved(b, "q latent", b->T * a->q_lora, 0);
        down_forward(b, &down, x, t->q_latent);
        t->q_norm = norm_of_latent(b, &(norm_shape){"q latent norm", Q_NORM, b->T, a->q_lora},
                                   t->q_latent, DROP_MLA_UP_PROJ | STORED);
        x = t->q_norm.y;
    }
    column_forward(b, &up, x, t->q);
    attention_rotate(b, SEG_FORWARD, t->q, (turn){z.n, z.d, a->qk_dim, false});
}

void mla_rotated_keys(builder *b, int phase, const attention_bufs *t, int out)
{
    int64_t dr = b->block->attention.qk_rope_dim;
    gather_into(b, phase, "k rope", t->k_rope, out, dr);
    if (b->s->lay.tp > 1) attention_rotate(b, phase, out, (turn){1, dr, 0, false});
}

static void keys_forward(builder *b, attention_bufs *t)
{
    const attention_block *a = &b->block->attention;
    head_sizes z = attention_heads(b);
    gemm up = mla_kv_up(b);
    int kv = seg_temp(b, "kv", b->Tc * up.n), kpe = t->k_rope;
    t->k = kept(b, t, "k", b->Tc * z.n * z.d);
    t->v = kept(b, t, "v", b->Tc * z.n * z.dv);
    if (b->s->lay.tp > 1) {
        kpe = seg_temp(b, "k rope", b->Tc * a->qk_rope_dim);
        mla_rotated_keys(b, SEG_FORWARD, t, kpe);
    }
    column_forward(b, &up, t->k_norm.y, kv);
    seg_op(b, SEG_FORWARD, OP_MLA_KV_JOIN, "kv.join", IN(kv, kpe), OUT(t->k, t->v),
           DIM(b->Tc, z.n, a->qk_dim, a->qk_rope_dim, a->v_dim));
}

void mla_forward(builder *b, attention_bufs *t)
{
    const attention_block *a = &b->block->attention;
    int64_t r = a->kv_lora, dr = a->qk_rope_dim;
    queries_forward(b, t);
    gemm down = kv_down(b);
    int c = seg_temp(b, "kv latent and rope", b->T * (r + dr));
    t->k_latent = seg_saved(b, "kv latent", b->T * r, 0);
    t->k_rope = seg_saved(b, "k rope", b->T * dr, 0);
    down_forward(b, &down, t->norm.y, c);
    seg_op(b, SEG_FORWARD, OP_MLA_KV_SPLIT, "kv.split", IN(c), OUT(t->k_latent, t->k_rope),
           DIM(b->T, r, dr));
    if (b->s->lay.tp == 1) attention_rotate(b, SEG_FORWARD, t->k_rope, (turn){1, dr, 0, false});
    t->k_norm = norm_of_latent(b, &(norm_shape){"kv latent norm", KV_NORM, b->T, r}, t->k_latent,
                               DROP_MLA_UP_PROJ | STORED);
    t->k = t->v = NONE;
    if (!t->core.latent) keys_forward(b, t);
}

/* ---- backward */

/* This rank's tokens of a sum over all heads; what is here is of its own heads. */
static int own_tokens(builder *b, const char *name, int partial, int64_t width)
{
    if (b->s->lay.tp == 1) return partial;
    int own = seg_temp(b, name, b->T * width);
    scatter_tokens(b, SEG_BACKWARD, name, partial, own, width);
    return own;
}

/* Gradients of the normed latent and the rotated key part. */
typedef struct latent_grads {
    int latent, rope;
} latent_grads;

static latent_grads keys_backward(builder *b, const attention_bufs *t, qkv_set d)
{
    const attention_block *a = &b->block->attention;
    head_sizes z = attention_heads(b);
    int64_t r = a->kv_lora, dr = a->qk_rope_dim;
    gemm up = mla_kv_up(b);
    if (t->core.latent) {
        attention_rotate(b, SEG_BACKWARD, d.v, (turn){1, dr, 0, true});
        return (latent_grads){own_tokens(b, "dkv latent norm", d.k, r),
                              own_tokens(b, "dk rope", d.v, dr)};
    }
    int dkv = seg_temp(b, "dkv", b->Tc * up.n), dkr = seg_temp(b, "dk rope", b->Tc * dr);
    int dln = seg_temp(b, "dkv latent norm", b->T * r);
    seg_op(b, SEG_BACKWARD, OP_MLA_KV_JOIN_D, "kv.join", IN(d.k, d.v), OUT(dkv, dkr),
           DIM(b->Tc, z.n, a->qk_dim, dr, a->v_dim));
    attention_rotate(b, SEG_BACKWARD, dkr, (turn){1, dr, 0, true});
    dkr = own_tokens(b, "dk rope", dkr, dr);
    column_backward(b, &up, dkv, t->k_norm.y, dln, false);
    return (latent_grads){dln, dkr};
}

static void queries_backward(builder *b, const attention_bufs *t, int dq, int dxn)
{
    const attention_block *a = &b->block->attention;
    head_sizes z = attention_heads(b);
    gemm up = q_up(b), down = q_down(b);
    attention_rotate(b, SEG_BACKWARD, dq, (turn){z.n, z.d, a->qk_dim, true});
    if (!a->q_lora) {
        column_backward(b, &up, dq, t->norm.y, dxn, true);
        return;
    }
    int dqn = seg_temp(b, "dq latent norm", b->T * a->q_lora);
    int dql = seg_temp(b, "dq latent", b->T * a->q_lora);
    column_backward(b, &up, dq, t->q_norm.y, dqn, false);
    norm_backward(b, &t->q_norm, dqn, dql, false);
    down_backward(b, &down, dql, t->norm.y, dxn, true);
}

void mla_backward(builder *b, const attention_bufs *t, qkv_set d, int dxn)
{
    const attention_block *a = &b->block->attention;
    int64_t r = a->kv_lora, dr = a->qk_rope_dim;
    gemm down = kv_down(b);
    latent_grads g = keys_backward(b, t, d);
    int dl = seg_temp(b, "dkv latent", b->T * r);
    int dc = seg_temp(b, "dkv latent and rope", b->T * (r + dr));
    norm_backward(b, &t->k_norm, g.latent, dl, false);
    seg_op(b, SEG_BACKWARD, OP_MLA_KV_MERGE, "kv.split", IN(dl, g.rope), OUT(dc), DIM(b->T, r, dr));
    down_backward(b, &down, dc, t->norm.y, dxn, false);
    queries_backward(b, t, d.q, dxn);
}

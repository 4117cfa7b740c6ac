/* build_attention.c - softmax attention: grouped queries, with or without norms, gate and sinks;
 * MLA. */
#include <math.h>

#include "program/build.h"
#include "program/rope.h"

#define SA      "self_attention."
#define QKV     SA "linear_qkv.weight"
#define PROJ    SA "linear_proj.weight"
#define Q_DOWN  SA "linear_q_down_proj.weight"
#define Q_UP    SA "linear_q_up_proj.weight"
#define Q_FULL  SA "linear_q_proj.weight"
#define KV_DOWN SA "linear_kv_down_proj.weight"
#define KV_UP   SA "linear_kv_up_proj.weight"

/* ---- sizes */

static int64_t qk_size(const model *m)
{
    return m->mla ? m->qk_dim + m->qk_rope_dim : m->head_dim;
}

static int64_t v_size(const model *m)
{
    return m->mla ? m->v_dim : m->head_dim;
}

static int64_t kv_heads(const model *m)
{
    return m->mla ? m->heads : m->kv_heads;
}

static void rotate(builder *b, int phase, int x, int64_t heads, int64_t size, int64_t offset)
{
    int64_t rot = rope_width(b->s);
    if (!rot) return;
    op *o = seg_op(b, phase, phase == SEG_FORWARD ? OP_ROPE : OP_ROPE_D, "rope",
                   IN(seg_step(b, STEP_ROPE, b->S * rot)), OUT(x),
                   DIM(b->T, b->S, heads, size, offset, rot));
    const recipe *r = &b->s->r;
    bool pairs = b->s->m.mla ? !recipe_on(r, K_ROPE_HALVES) : recipe_on(r, K_ROPE_INTERLEAVED);
    o->flags = pairs ? INTERLEAVED : 0;
}

/* ---- grouped queries */

static void gqa_forward(builder *b, attention_bufs *t)
{
    const model *m = &b->s->m;
    int64_t T = b->T, n = m->heads, g = m->kv_heads, d = m->head_dim;
    int64_t width = (n * (m->output_gate ? 2 : 1) + 2 * g) * d;
    int qkv = seg_temp(b, "qkv", T * width);
    linear_forward(b, "qkv", QKV, SA "linear_qkv.bias", t->norm.y, qkv, T, width, m->hidden);
    int q = seg_saved(b, m->qk_norm ? "q before norm" : "q", T * n * d, 0);
    int k = seg_saved(b, m->qk_norm ? "k before norm" : "k", T * g * d, 0);
    t->v = seg_saved(b, "v", T * g * d, 0);
    t->gate = m->output_gate ? seg_saved(b, "gate", T * n * d, 0) : NONE;
    seg_op(b, SEG_FORWARD, OP_QKV_SPLIT, "qkv.split", IN(qkv), OUT(q, k, t->v, t->gate),
           DIM(T, n, g, d));
    if (m->qk_norm) {
        t->q_norm = norm_forward(b, "q", SA "q_layernorm.weight", q, T * n, d, 0);
        t->k_norm = norm_forward(b, "k", SA "k_layernorm.weight", k, T * g, d, 0);
    }
    t->q = m->qk_norm ? t->q_norm.y : q;
    t->k = m->qk_norm ? t->k_norm.y : k;
    rotate(b, SEG_FORWARD, t->q, n, d, 0);
    rotate(b, SEG_FORWARD, t->k, g, d, 0);
}

static void gqa_backward(builder *b, const attention_bufs *t, int dq, int dk, int dv, int dgate,
                         int dxn)
{
    const model *m = &b->s->m;
    int64_t T = b->T, n = m->heads, g = m->kv_heads, d = m->head_dim;
    int64_t width = (n * (m->output_gate ? 2 : 1) + 2 * g) * d;
    rotate(b, SEG_BACKWARD, dq, n, d, 0);
    rotate(b, SEG_BACKWARD, dk, g, d, 0);
    if (m->qk_norm) {
        int dq_norm = dq, dk_norm = dk;
        dq = seg_temp(b, "dq before norm", T * n * d);
        dk = seg_temp(b, "dk before norm", T * g * d);
        norm_backward(b, &t->q_norm, dq_norm, dq, false);
        norm_backward(b, &t->k_norm, dk_norm, dk, false);
    }
    int dqkv = seg_temp(b, "dqkv", T * width);
    seg_op(b, SEG_BACKWARD, OP_QKV_JOIN, "qkv.join", IN(dq, dk, dv, dgate), OUT(dqkv),
           DIM(T, n, g, d));
    linear_backward(b, "qkv", QKV, SA "linear_qkv.bias", dqkv, t->norm.y, dxn, false, T, width,
                    m->hidden);
}

/* ---- multi-head latent attention */

void mla_forward(builder *b, attention_bufs *t)
{
    const model *m = &b->s->m;
    int64_t T = b->T, n = m->heads, dn = m->qk_dim, dr = m->qk_rope_dim, dv = m->v_dim;
    int64_t H = m->hidden, r = m->kv_lora;
    t->q = seg_saved(b, "q", T * n * (dn + dr), DROP_MLA_UP_PROJ);
    if (m->q_lora) {
        t->q_latent = seg_saved(b, "q latent", T * m->q_lora, 0);
        linear_forward(b, "q.down", Q_DOWN, SA "linear_q_down_proj.bias", t->norm.y, t->q_latent, T,
                       m->q_lora, H);
        t->q_norm = norm_forward(b, "q latent norm", SA "linear_q_up_proj.layer_norm_weight",
                                 t->q_latent, T, m->q_lora, DROP_MLA_UP_PROJ);
        linear_forward(b, "q.up", Q_UP, NULL, t->q_norm.y, t->q, T, n * (dn + dr), m->q_lora);
    } else {
        linear_forward(b, "q", Q_FULL, NULL, t->norm.y, t->q, T, n * (dn + dr), H);
    }
    rotate(b, SEG_FORWARD, t->q, n, dn + dr, dn);
    int c = seg_temp(b, "kv latent and rope", T * (r + dr));
    t->k_latent = seg_saved(b, "kv latent", T * r, 0);
    t->k_rope = seg_saved(b, "k rope", T * dr, 0);
    linear_forward(b, "kv.down", KV_DOWN, SA "linear_kv_down_proj.bias", t->norm.y, c, T, r + dr,
                   H);
    seg_op(b, SEG_FORWARD, OP_MLA_KV_SPLIT, "kv.split", IN(c), OUT(t->k_latent, t->k_rope),
           DIM(T, r, dr));
    rotate(b, SEG_FORWARD, t->k_rope, 1, dr, 0);
    t->k_norm = norm_forward(b, "kv latent norm", SA "linear_kv_up_proj.layer_norm_weight",
                             t->k_latent, T, r, DROP_MLA_UP_PROJ);
    int kv = seg_temp(b, "kv", T * n * (dn + dv));
    t->k = seg_saved(b, "k", T * n * (dn + dr), DROP_MLA_UP_PROJ);
    t->v = seg_saved(b, "v", T * n * dv, DROP_MLA_UP_PROJ);
    linear_forward(b, "kv.up", KV_UP, NULL, t->k_norm.y, kv, T, n * (dn + dv), r);
    seg_op(b, SEG_FORWARD, OP_MLA_KV_JOIN, "kv.join", IN(kv, t->k_rope), OUT(t->k, t->v),
           DIM(T, n, dn, dr, dv));
}

void mla_backward(builder *b, const attention_bufs *t, int dq, int dk, int dv_, int dxn)
{
    const model *m = &b->s->m;
    int64_t T = b->T, n = m->heads, dn = m->qk_dim, dr = m->qk_rope_dim, dv = m->v_dim;
    int64_t H = m->hidden, r = m->kv_lora;
    int dkv = seg_temp(b, "dkv", T * n * (dn + dv)), dkr = seg_temp(b, "dk rope", T * dr);
    int dln = seg_temp(b, "dkv latent norm", T * r), dl = seg_temp(b, "dkv latent", T * r);
    int dc = seg_temp(b, "dkv latent and rope", T * (r + dr));
    seg_op(b, SEG_BACKWARD, OP_MLA_KV_JOIN_D, "kv.join", IN(dk, dv_), OUT(dkv, dkr),
           DIM(T, n, dn, dr, dv));
    linear_backward(b, "kv.up", KV_UP, NULL, dkv, t->k_norm.y, dln, false, T, n * (dn + dv), r);
    norm_backward(b, &t->k_norm, dln, dl, false);
    rotate(b, SEG_BACKWARD, dkr, 1, dr, 0);
    seg_op(b, SEG_BACKWARD, OP_MLA_KV_MERGE, "kv.split", IN(dl, dkr), OUT(dc), DIM(T, r, dr));
    linear_backward(b, "kv.down", KV_DOWN, SA "linear_kv_down_proj.bias", dc, t->norm.y, dxn, false,
                    T, r + dr, H);
    rotate(b, SEG_BACKWARD, dq, n, dn + dr, dn);
    if (!m->q_lora) {
        linear_backward(b, "q", Q_FULL, NULL, dq, t->norm.y, dxn, true, T, n * (dn + dr), H);
        return;
    }
    int dqn = seg_temp(b, "dq latent norm", T * m->q_lora);
    int dql = seg_temp(b, "dq latent", T * m->q_lora);
    linear_backward(b, "q.up", Q_UP, NULL, dq, t->q_norm.y, dqn, false, T, n * (dn + dr),
                    m->q_lora);
    norm_backward(b, &t->q_norm, dqn, dql, false);
    linear_backward(b, "q.down", Q_DOWN, SA "linear_q_down_proj.bias", dql, t->norm.y, dxn, true, T,
                    m->q_lora, H);
}

/* ---- around both */

static op *core(builder *b, int phase, op_kind kind, const attention_bufs *t, const int *in,
                const int *out)
{
    const model *m = &b->s->m;
    op *o = seg_op(b, phase, kind, "core attention", in, out,
                   DIM(b->B, b->S, m->heads, kv_heads(m), qk_size(m), v_size(m), t->window));
    o->real[0] = rope_softmax_scale(b->s);
    return o;
}

void attention_forward(builder *b, attention_bufs *t, int x, int h)
{
    const model *m = &b->s->m;
    int64_t T = b->T, n = m->heads, H = m->hidden;
    *t = (attention_bufs){.window = model_layer_is(m, b->layer, LAYER_WINDOW) ? m->window : 0};
    b->module = "attention";
    const char *norm = m->mla ? "input_layernorm.weight" : SA "linear_qkv.layer_norm_weight";
    t->norm = norm_forward(b, "attention.norm", norm, x, T, H, DROP_LAYERNORM);
    t->gate = NONE;
    if (m->mla)
        mla_forward(b, t);
    else
        gqa_forward(b, t);
    t->sinks = m->sinks ? seg_weight(b, SA "core_attention.softmax_offset") : NONE;
    t->o = seg_saved(b, "attention.o", T * n * v_size(m), 0);
    t->lse = seg_saved(b, "attention.lse", T * n, DROP_CORE_ATTN);
    core(b, SEG_FORWARD, OP_ATTN, t, IN(t->q, t->k, t->v, t->sinks), OUT(t->o, t->lse));
    t->gated = t->o;
    if (m->output_gate) {
        t->gated = seg_saved(b, "attention.gated", T * n * v_size(m), 0);
        seg_op(b, SEG_FORWARD, OP_GATE, "attention.gate", IN(t->o, t->gate), OUT(t->gated),
               DIM(T, n * v_size(m), n * v_size(m)));
    }
    int y = seg_temp(b, "attention.out", T * H);
    linear_forward(b, "attention.proj", PROJ, SA "linear_proj.bias", t->gated, y, T, H,
                   n * v_size(m));
    seg_op(b, SEG_FORWARD, OP_ADD, "attention.residual", IN(x, y), OUT(h), DIM(T * H));
}

void attention_backward(builder *b, const attention_bufs *t, int dh)
{
    const model *m = &b->s->m;
    int64_t T = b->T, n = m->heads, g = kv_heads(m), H = m->hidden, width = n * v_size(m);
    b->module = "attention";
    int dout = seg_temp(b, "attention.do", T * width);
    linear_backward(b, "attention.proj", PROJ, SA "linear_proj.bias", dh, t->gated, dout, false, T,
                    H, width);
    int dgate = NONE;
    if (m->output_gate) {
        dgate = seg_temp(b, "dgate", T * width);
        seg_op(b, SEG_BACKWARD, OP_GATE_D, "attention.gate", IN(dout, t->o, t->gate),
               OUT(dout, dgate), DIM(T, width, width));
    }
    int dq = seg_temp(b, "dq", T * n * qk_size(m)), dk = seg_temp(b, "dk", T * g * qk_size(m));
    int dv = seg_temp(b, "dv", T * g * v_size(m));
    int dsinks = m->sinks ? seg_gradient(b, SA "core_attention.softmax_offset") : NONE;
    core(b, SEG_BACKWARD, OP_ATTN_D, t, IN(dout, t->q, t->k, t->v, t->o, t->lse, t->sinks),
         OUT(dq, dk, dv, dsinks));
    int dxn = seg_temp(b, "attention.dn", T * H);
    if (m->mla)
        mla_backward(b, t, dq, dk, dv, dxn);
    else
        gqa_backward(b, t, dq, dk, dv, dgate, dxn);
    norm_backward(b, &t->norm, dxn, dh, true);
}

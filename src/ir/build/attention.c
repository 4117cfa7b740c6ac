/* attention.c - softmax attention around its core: norm, heads, gate, projection, sum. */
#include "ir/build/attention.h"
#include "ir/rope.h"

void attention_rotate(builder *b, int phase, int x, turn t)
{
    int64_t rot = rope_width(b->s);
    if (!rot) return;
    op *o = seg_op(b, phase, t.back ? OP_ROPE_D : OP_ROPE, "rope",
                   IN(seg_step(b, STEP_ROPE, b->S * rot)), OUT(x),
                   DIM(b->Tc, b->S, t.heads, t.size, t.offset, rot));
    const job *j = &b->s->j;
    bool pairs = b->block->attention.mla ? !j->rope_halves : j->rope_interleaved;
    o->flags = pairs ? INTERLEAVED : 0;
}

static gemm projection(const builder *b, int64_t width)
{
    return (gemm){"attention.proj", SA "linear_proj.weight", SA "linear_proj.bias", b->s->m.hidden,
                  width};
}

void attention_forward(builder *b, attention_bufs *t, int x, int h)
{
    const model *m = &b->s->m;
    const attention_block *a = &b->block->attention;
    int64_t H = m->hidden;
    *t = (attention_bufs){.gate = NONE};
    b->module = MODULE_ATTENTION;
    b->node = NODE_ATTN;
    core_plan(b, &t->core);
    const char *norm = a->mla ? "input_layernorm.weight" : SA "linear_qkv.layer_norm_weight";
    t->norm = norm_forward(b, &(norm_shape){"attention.norm", norm, b->T, H}, x,
                           DROP_LAYERNORM | STORED | OFF_QKV);
    if (a->mla)
        mla_forward(b, t);
    else
        gqa_forward(b, t);
    core_forward(b, t);
    head_sizes z = attention_heads(b);
    int64_t width = z.n * z.dv;
    t->gated = t->o;
    if (a->output_gate) {
        t->gated = seg_saved(b, "attention.gated", b->Tc * width, OFF_ATTN_PROJ);
        seg_op(b, SEG_FORWARD, OP_GATE, "attention.gate", IN(t->o, t->gate), OUT(t->gated),
               DIM(b->Tc, width, width));
    }
    int y = seg_temp(b, "attention.out", b->T * H);
    gemm proj = projection(b, width);
    row_forward(b, &proj, t->gated, y);
    seg_op(b, SEG_FORWARD, OP_ADD, "attention.residual", IN(x, y), OUT(h), DIM(b->T * H));
}

void attention_backward(builder *b, const attention_bufs *t, int dh)
{
    const model *m = &b->s->m;
    const attention_block *a = &b->block->attention;
    head_sizes z = attention_heads(b);
    int64_t width = z.n * z.dv;
    b->module = MODULE_ATTENTION;
    b->node = NODE_ATTN;
    int dout = seg_temp(b, "attention.do", b->Tc * width), dgate = NONE;
    gemm proj = projection(b, width);
    row_backward(b, &proj, dh, t->gated, dout);
    if (a->output_gate) {
        dgate = seg_temp(b, "dgate", b->Tc * width);
        seg_op(b, SEG_BACKWARD, OP_GATE_D, "attention.gate", IN(dout, t->o, t->gate),
               OUT(dout, dgate), DIM(b->Tc, width, width));
    }
    qkv_set d = core_backward(b, t, dout);
    int dxn = seg_temp(b, "attention.dn", b->T * m->hidden);
    if (a->mla)
        mla_backward(b, t, d, dxn);
    else
        gqa_backward(b, t, d, dgate, dxn);
    norm_backward(b, &t->norm, dxn, dh, true);
}

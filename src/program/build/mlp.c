/* mlp.c - a dense MLP. */
#include "program/build/build.h"

static product fc1_of(const builder *b)
{
    return (product){"mlp.fc1", "mlp.linear_fc1.weight", "mlp.linear_fc1.bias",
                     act_columns(b) * b->s->m.ffn / b->s->lay.tp, b->s->m.hidden};
}

static product fc2_of(const builder *b)
{
    return (product){"mlp.fc2", "mlp.linear_fc2.weight", "mlp.linear_fc2.bias", b->s->m.hidden,
                     b->s->m.ffn / b->s->lay.tp};
}

void mlp_forward(builder *b, mlp_bufs *t, int h, int y)
{
    int64_t H = b->s->m.hidden;
    product fc1 = fc1_of(b), fc2 = fc2_of(b);
    b->module = MODULE_MLP;
    b->node = NODE_MLP;
    t->norm =
        norm_forward(b, &(norm_shape){"mlp.norm", "mlp.linear_fc1.layer_norm_weight", b->T, H}, h,
                     DROP_LAYERNORM | STORED);
    t->u = seg_saved(b, "mlp.u", b->Tc * fc1.n, DROP_MLP);
    t->a = seg_saved(b, "mlp.a", b->Tc * fc2.k, DROP_MLP | STORED);
    int out = seg_temp(b, "mlp.out", b->T * H);
    column_forward(b, &fc1, t->norm.y, t->u);
    act_forward(b, "mlp.act", IN(t->u, NONE), OUT(t->a), b->Tc, fc2.k);
    row_forward(b, &fc2, t->a, out);
    seg_op(b, SEG_FORWARD, OP_ADD, "mlp.residual", IN(h, out), OUT(y), DIM(b->T * H));
    b->node = NODE_ATTN;
}

void mlp_backward(builder *b, const mlp_bufs *t, int dh)
{
    product fc1 = fc1_of(b), fc2 = fc2_of(b);
    b->module = MODULE_MLP;
    b->node = NODE_MLP;
    int da = seg_temp(b, "mlp.da", b->Tc * fc2.k), du = seg_temp(b, "mlp.du", b->Tc * fc1.n);
    int dn = seg_temp(b, "mlp.dn", b->T * b->s->m.hidden);
    row_backward(b, &fc2, dh, t->a, da);
    act_backward(b, "mlp.act", IN(da, t->u), OUT(du), b->Tc, fc2.k);
    column_backward(b, &fc1, du, t->norm.y, dn, false);
    norm_backward(b, &t->norm, dn, dh, true);
    b->node = NODE_ATTN;
}

/* build_linear.c - norms, products and dense MLPs. */
#include "program/build.h"

norm_bufs norm_forward(builder *b, const char *name, const char *weight, int x, int64_t rows,
                       int64_t width, unsigned drop)
{
    norm_bufs n = {.x = x,
                   .rows = rows,
                   .width = width,
                   .y = seg_saved(b, name, rows * width, drop),
                   .rstd = seg_saved(b, "rstd", rows, 0),
                   .w = seg_weight(b, weight),
                   .dw = seg_gradient(b, weight),
                   .flags = b->s->m.zero_centered ? ZERO_CENTRED : 0};
    op *o = seg_op(b, SEG_FORWARD, OP_NORM, name, IN(x, n.w), OUT(n.y, n.rstd), DIM(rows, width));
    o->real[0] = recipe_real(&b->s->r, K_NORM_EPS);
    o->flags = n.flags;
    return n;
}

void norm_backward(builder *b, const norm_bufs *n, int dy, int dx, bool add)
{
    seg_op(b, SEG_BACKWARD, OP_NORM_W, "norm", IN(dy, n->x, n->rstd), OUT(n->dw),
           DIM(n->rows, n->width));
    op *o = seg_op(b, SEG_BACKWARD, OP_NORM_D, "norm", IN(dy, n->x, n->w, n->rstd), OUT(dx),
                   DIM(n->rows, n->width));
    o->flags = n->flags | (add ? ADD_TO : 0);
}

void linear_forward(builder *b, const char *name, const char *weight, const char *bias, int x,
                    int y, int64_t m, int64_t n, int64_t k)
{
    seg_op(b, SEG_FORWARD, OP_GEMM, name, IN(x, seg_weight(b, weight)), OUT(y), DIM(m, n, k));
    int with = bias ? seg_weight(b, bias) : NONE;
    if (with != NONE) seg_op(b, SEG_FORWARD, OP_BIAS, name, IN(with), OUT(y), DIM(m, n));
}

void linear_backward(builder *b, const char *name, const char *weight, const char *bias, int dy,
                     int x, int dx, bool add, int64_t m, int64_t n, int64_t k)
{
    if (dx != NONE) {
        op *o = seg_op(b, SEG_BACKWARD, OP_GEMM_D, name, IN(dy, seg_weight(b, weight)), OUT(dx),
                       DIM(m, n, k));
        o->flags = add ? ADD_TO : 0;
    }
    seg_op(b, SEG_BACKWARD, OP_GEMM_W, name, IN(dy, x), OUT(seg_gradient(b, weight)), DIM(m, n, k));
    int with = bias ? seg_gradient(b, bias) : NONE;
    if (with != NONE) seg_op(b, SEG_BACKWARD, OP_BIAS_W, name, IN(dy), OUT(with), DIM(m, n));
}

/* ---- dense MLP */

#define FC1 "mlp.linear_fc1.weight"
#define FC2 "mlp.linear_fc2.weight"

void mlp_forward(builder *b, mlp_bufs *t, int h, int y)
{
    int64_t H = b->s->m.hidden, F = b->s->m.ffn;
    b->module = "mlp";
    t->norm =
        norm_forward(b, "mlp.norm", "mlp.linear_fc1.layer_norm_weight", h, b->T, H, DROP_LAYERNORM);
    t->u = seg_saved(b, "mlp.u", b->T * 2 * F, DROP_MLP);
    t->a = seg_saved(b, "mlp.a", b->T * F, DROP_MLP);
    int out = seg_temp(b, "mlp.out", b->T * H);
    linear_forward(b, "mlp.fc1", FC1, "mlp.linear_fc1.bias", t->norm.y, t->u, b->T, 2 * F, H);
    seg_op(b, SEG_FORWARD, OP_ACT, "mlp.act", IN(t->u), OUT(t->a), DIM(b->T, F));
    linear_forward(b, "mlp.fc2", FC2, "mlp.linear_fc2.bias", t->a, out, b->T, H, F);
    seg_op(b, SEG_FORWARD, OP_ADD, "mlp.residual", IN(h, out), OUT(y), DIM(b->T * H));
}

void mlp_backward(builder *b, const mlp_bufs *t, int dh)
{
    int64_t H = b->s->m.hidden, F = b->s->m.ffn;
    b->module = "mlp";
    int da = seg_temp(b, "mlp.da", b->T * F), du = seg_temp(b, "mlp.du", b->T * 2 * F);
    int dn = seg_temp(b, "mlp.dn", b->T * H);
    linear_backward(b, "mlp.fc2", FC2, "mlp.linear_fc2.bias", dh, t->a, da, false, b->T, H, F);
    seg_op(b, SEG_BACKWARD, OP_ACT_D, "mlp.act", IN(da, t->u), OUT(du), DIM(b->T, F));
    linear_backward(b, "mlp.fc1", FC1, "mlp.linear_fc1.bias", du, t->norm.y, dn, false, b->T, 2 * F,
                    H);
    norm_backward(b, &t->norm, dn, dh, true);
}

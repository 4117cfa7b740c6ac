/* moe_shared.c - the expert that every token takes: a dense MLP, cut over TP, with a gate of
 * its own on each rank's tokens. */
#include "ir/build/moe.h"
#include "ir/build/quant.h"

#define S_FC1  "mlp.shared_experts.linear_fc1.weight"
#define S_FC2  "mlp.shared_experts.linear_fc2.weight"
#define S_GATE "mlp.shared_experts.gate_weight"

enum { DROP_HERE = DROP_MOE | DROP_SHARED_EXPERTS };

static int64_t shared_width(const builder *b)
{
    return b->block->moe.shared_ffn / b->s->lay.tp;
}

static gemm fc1_of(const builder *b)
{
    return (gemm){"shared.fc1", S_FC1, NULL, act_columns(b) * shared_width(b), b->s->m.hidden};
}

static gemm fc2_of(const builder *b)
{
    return (gemm){"shared.fc2", S_FC2, NULL, b->s->m.hidden, shared_width(b)};
}

static gemm gate_of(const builder *b)
{
    return (gemm){"shared.gate", S_GATE, NULL, 1, b->s->m.hidden};
}

void shared_forward_first(builder *b, moe_bufs *t)
{
    op_module module = b->module;
    int64_t F = shared_width(b);
    gemm fc1 = fc1_of(b);
    b->module = MODULE_SHARED;
    t->shared_u = seg_saved(b, "shared.u", b->Tc * fc1.n, DROP_HERE);
    t->shared_a = seg_saved(b, "shared.a", b->Tc * F, DROP_HERE | STORED);
    column_forward(b, &fc1, t->norm.y, t->shared_u);
    act_forward(b, "shared.act", IN(t->shared_u, NONE), OUT(t->shared_a), b->Tc, F);
    b->module = module;
}

/* y [T][H] times its gate. */
static int gate_forward(builder *b, moe_bufs *t)
{
    int64_t T = b->T, H = b->s->m.hidden;
    t->shared_g = seg_saved(b, "shared.gate", T, DROP_HERE);
    int gated = seg_temp(b, "shared.gated", T * H);
    const gemm gate = gate_of(b);
    linear_forward(b, &gate, T, t->norm.y, t->shared_g);
    seg_op(b, SEG_FORWARD, OP_GATE, "shared.gate", IN(t->shared_y, t->shared_g), OUT(gated),
           DIM(T, H, 1));
    return gated;
}

int shared_forward_second(builder *b, moe_bufs *t)
{
    op_module module = b->module;
    int64_t n = b->T * b->s->m.hidden;
    gemm fc2 = fc2_of(b);
    bool gate = b->block->moe.shared_gate;
    b->module = MODULE_SHARED;
    t->shared_y = gate ? seg_saved(b, "shared.y", n, DROP_HERE) : seg_temp(b, "shared.y", n);
    row_forward(b, &fc2, t->shared_a, t->shared_y);
    int y = gate ? gate_forward(b, t) : t->shared_y;
    b->module = module;
    return y;
}

void shared_forward_add(builder *b, moe_bufs *t, int out)
{
    op_module module = b->module;
    int64_t T = b->T, H = b->s->m.hidden;
    b->module = MODULE_SHARED;
    if (b->block->moe.shared_gate || b->s->lay.tp > 1) {
        int y = shared_forward_second(b, t);
        seg_op(b, SEG_FORWARD, OP_ADD, "shared.add", IN(out, y), OUT(out), DIM(T * H));
    } else {
        const gemm fc2 = fc2_of(b);
        gemm_forward(b, SEG_FORWARD, &fc2, (expert_shape){0}, (gemm_ends){T, t->shared_a, out})
            ->flags = ACCUMULATE;
    }
    b->module = module;
}

shared_grads shared_backward_second(builder *b, const moe_bufs *t, int dh)
{
    op_module module = b->module;
    int64_t T = b->T, H = b->s->m.hidden, F = shared_width(b);
    gemm fc2 = fc2_of(b);
    b->module = MODULE_SHARED;
    shared_grads g = {.du = seg_temp(b, "shared.du", b->Tc * act_columns(b) * F), .dg = NONE};
    int da = seg_temp(b, "shared.da", b->Tc * F), dy = dh;
    if (b->block->moe.shared_gate) {
        g.dg = seg_temp(b, "shared.dgate", T);
        dy = seg_temp(b, "shared.dy", T * H);
        seg_op(b, SEG_BACKWARD, OP_GATE_D, "shared.gate", IN(dh, t->shared_y, t->shared_g),
               OUT(dy, g.dg), DIM(T, H, 1));
    }
    row_backward(b, &fc2, dy, t->shared_a, da);
    act_backward(b, "shared.act", IN(da, t->shared_u), OUT(g.du), b->Tc, F);
    b->module = module;
    return g;
}

void shared_backward_gate(builder *b, const moe_bufs *t, const shared_grads *g, int dx)
{
    op_module module = b->module;
    if (g->dg == NONE) return;
    b->module = MODULE_SHARED;
    const gemm gate = gate_of(b);
    linear_backward(b, &gate, b->T, (linear_grads){g->dg, t->norm.y, dx, true});
    b->module = module;
}

void shared_backward_first(builder *b, const moe_bufs *t, const shared_grads *g, int dx, bool add)
{
    op_module module = b->module;
    gemm fc1 = fc1_of(b);
    b->module = MODULE_SHARED;
    column_backward(b, &fc1, g->du, t->norm.y, dx, add);
    b->module = module;
}

/* build_moe.c - routed experts: router, dispatch within the rank, grouped products, shared expert.
 *
 * Weights of the router are applied inside the expert, between its activation and its second
 * product, so that the expert's output is not needed in backward.
 *
 * I1  Losses and counters are written in backward only: forward may be replayed. */
#include <math.h>

#include "base/maths.h"
#include "program/build.h"

#define ROUTER "mlp.router.weight"
#define BIAS   "mlp.router.bias"
#define FC1    "mlp.experts.linear_fc1.weight"
#define FC2    "mlp.experts.linear_fc2.weight"
#define FC1_B  "mlp.experts.linear_fc1.bias"
#define FC2_B  "mlp.experts.linear_fc2.bias"
#define S_FC1  "mlp.shared_experts.linear_fc1.weight"
#define S_FC2  "mlp.shared_experts.linear_fc2.weight"
#define S_GATE "mlp.shared_experts.gate_weight"

static unsigned router_flags(const recipe *r)
{
    unsigned f = 0;
    if (recipe_is(r, K_SCORE, "sigmoid")) f |= SIGMOID;
    if (recipe_is(r, K_SCORE, "sqrtsoftplus")) f |= SQRT_SOFTPLUS;
    if (recipe_on(r, K_PRE_SOFTMAX)) f |= PRE_SOFTMAX;
    if (recipe_on(r, K_ROUTER_NORM)) f |= RENORMALISE;
    if (recipe_is(r, K_GROUP_SCORE, "best_two")) f |= BEST_TWO;
    if (recipe_on(r, K_FORCE_BALANCE)) f |= FORCED;
    return f;
}

static double scaling(const recipe *r)
{
    return recipe_given(r, K_SCALING) ? recipe_real(r, K_SCALING) : 1.0;
}

static unsigned act_flags(const builder *b)
{
    return recipe_given(&b->s->r, K_GLU_CLAMP) ? CLAMPED : 0;
}

/* Rows an expert may have on this rank; 0: as many as come. */
static int64_t capacity_of(const builder *b)
{
    double factor = recipe_real(&b->s->r, K_CAPACITY);
    if (!recipe_given(&b->s->r, K_CAPACITY) || factor < 0) return 0;
    double even = (double)(b->T * b->s->m.topk) / (double)b->s->m.experts;
    int64_t c = (int64_t)ceil(even * factor);
    return c < b->T ? c : b->T;
}

static void route(builder *b, moe_bufs *t)
{
    const model *m = &b->s->m;
    const recipe *r = &b->s->r;
    int64_t T = b->T, E = m->experts, K = m->topk;
    t->logits = seg_saved(b, "router.logits", T * E, DROP_MOE);
    linear_forward(b, "router", ROUTER, BIAS, t->norm.y, t->logits, T, E, m->hidden);
    t->probs = seg_saved(b, "router.probs", T * K, DROP_MOE);
    t->ids = seg_saved(b, "router.ids", T * K, DROP_MOE);
    op *o = seg_op(b, SEG_FORWARD, OP_ROUTER, "router.choose",
                   IN(t->logits, m->expert_bias ? seg_weight(b, "mlp.router.expert_bias") : NONE),
                   OUT(t->probs, t->ids),
                   DIM(T, E, K, recipe_int(r, K_GROUPS), recipe_int(r, K_GROUP_TOPK), 0));
    o->real[0] = scaling(r);
    o->flags = router_flags(r);
    t->keep = NONE;
    if (t->capacity) {
        t->keep = seg_saved(b, "router.keep", T * K, DROP_MOE);
        seg_op(b, SEG_FORWARD, OP_DROP, "router.drop", IN(t->probs, t->ids), OUT(t->keep),
               DIM(T, E, K, t->capacity, recipe_is(r, K_DROP_POLICY, "position")));
    }
    t->rows = seg_saved(b, "dispatch.rows", T * K, DROP_MOE);
    t->offsets = seg_saved(b, "dispatch.offsets", E + 1, DROP_MOE);
    seg_op(b, SEG_FORWARD, OP_SORT, "dispatch.sort", IN(t->ids, t->keep), OUT(t->rows, t->offsets),
           DIM(T, E, K, t->room, t->pad));
}

static void experts_forward(builder *b, moe_bufs *t, int y)
{
    const model *m = &b->s->m;
    int64_t T = b->T, E = m->experts, K = m->topk, H = m->hidden, F = m->moe_ffn, R = t->room;
    t->xp = seg_saved(b, "experts.x", R * H, DROP_MOE);
    t->pp = seg_saved(b, "experts.p", R, DROP_MOE);
    t->u = seg_saved(b, "experts.u", R * 2 * F, DROP_MOE);
    t->a = seg_saved(b, "experts.a", R * F, DROP_MOE | DROP_MOE_ACT);
    int yp = seg_temp(b, "experts.y", R * H);
    int b1 = seg_weight(b, FC1_B), b2 = seg_weight(b, FC2_B);
    seg_op(b, SEG_FORWARD, OP_PERMUTE, "dispatch.permute", IN(t->norm.y, t->probs, t->rows),
           OUT(t->xp, t->pp), DIM(T, K, H, R));
    seg_op(b, SEG_FORWARD, OP_GROUPED, "experts.fc1", IN(t->xp, seg_weight(b, FC1), t->offsets),
           OUT(t->u), DIM(R, E, 2 * F, H));
    if (b1 != NONE)
        seg_op(b, SEG_FORWARD, OP_GROUPED_BIAS, "experts.fc1", IN(b1, NONE, t->offsets), OUT(t->u),
               DIM(R, E, 2 * F));
    op *o = seg_op(b, SEG_FORWARD, OP_ACT, "experts.act", IN(t->u, t->pp), OUT(t->a), DIM(R, F));
    o->flags = act_flags(b);
    seg_op(b, SEG_FORWARD, OP_GROUPED, "experts.fc2", IN(t->a, seg_weight(b, FC2), t->offsets),
           OUT(yp), DIM(R, E, H, F));
    if (b2 != NONE)
        seg_op(b, SEG_FORWARD, OP_GROUPED_BIAS, "experts.fc2", IN(b2, t->pp, t->offsets), OUT(yp),
               DIM(R, E, H));
    seg_op(b, SEG_FORWARD, OP_UNPERMUTE, "combine", IN(yp, t->rows), OUT(y), DIM(T, K, H, R));
}

static void shared_forward(builder *b, moe_bufs *t, int y)
{
    const model *m = &b->s->m;
    int64_t T = b->T, H = m->hidden, F = m->shared_ffn;
    unsigned drop = DROP_MOE | DROP_SHARED;
    b->module = "shared expert";
    t->shared_u = seg_saved(b, "shared.u", T * 2 * F, drop);
    t->shared_a = seg_saved(b, "shared.a", T * F, drop);
    linear_forward(b, "shared.fc1", S_FC1, NULL, t->norm.y, t->shared_u, T, 2 * F, H);
    op *o =
        seg_op(b, SEG_FORWARD, OP_ACT, "shared.act", IN(t->shared_u), OUT(t->shared_a), DIM(T, F));
    o->flags = act_flags(b);
    if (!m->shared_gate) {
        o = seg_op(b, SEG_FORWARD, OP_GEMM, "shared.fc2", IN(t->shared_a, seg_weight(b, S_FC2)),
                   OUT(y), DIM(T, H, F));
        o->flags = ADD_TO;
        return;
    }
    t->shared_y = seg_saved(b, "shared.y", T * H, drop);
    t->shared_g = seg_saved(b, "shared.gate", T, drop);
    int gated = seg_temp(b, "shared.gated", T * H);
    linear_forward(b, "shared.fc2", S_FC2, NULL, t->shared_a, t->shared_y, T, H, F);
    linear_forward(b, "shared.gate", S_GATE, NULL, t->norm.y, t->shared_g, T, 1, H);
    seg_op(b, SEG_FORWARD, OP_GATE, "shared.gate", IN(t->shared_y, t->shared_g), OUT(gated),
           DIM(T, H, 1));
    seg_op(b, SEG_FORWARD, OP_ADD, "shared.add", IN(y, gated), OUT(y), DIM(T * H));
}

void moe_forward(builder *b, moe_bufs *t, int h, int y)
{
    const model *m = &b->s->m;
    int64_t T = b->T, H = m->hidden;
    b->module = "moe";
    *t = (moe_bufs){.capacity = capacity_of(b)};
    int64_t most = t->capacity * m->experts;
    t->pad = recipe_on(&b->s->r, K_PAD_CAPACITY) ? t->capacity : 0;
    t->room = t->pad || (t->capacity && most < T * m->topk) ? most : T * m->topk;
    t->norm = norm_forward(b, "moe.norm", "pre_mlp_layernorm.weight", h, T, H, DROP_LAYERNORM);
    route(b, t);
    int out = seg_temp(b, "moe.out", T * H);
    experts_forward(b, t, out);
    if (m->shared_ffn) shared_forward(b, t, out);
    b->module = "moe";
    seg_op(b, SEG_FORWARD, OP_ADD, "moe.residual", IN(h, out), OUT(y), DIM(T * H));
}

/* ---- backward */

static void experts_backward(builder *b, const moe_bufs *t, int dh, int dn, int dprobs)
{
    const model *m = &b->s->m;
    int64_t T = b->T, E = m->experts, K = m->topk, H = m->hidden, F = m->moe_ffn, R = t->room;
    int dyp = seg_temp(b, "experts.dy", R * H), da = seg_temp(b, "experts.da", R * F);
    int du = seg_temp(b, "experts.du", R * 2 * F), dpp = seg_temp(b, "experts.dp", R);
    int dxp = seg_temp(b, "experts.dx", R * H);
    int b2 = seg_weight(b, FC2_B), db1 = seg_gradient(b, FC1_B), db2 = seg_gradient(b, FC2_B);
    seg_op(b, SEG_BACKWARD, OP_UNPERMUTE_D, "combine", IN(dh, t->rows), OUT(dyp), DIM(T, K, H, R));
    seg_op(b, SEG_BACKWARD, OP_GROUPED_D, "experts.fc2", IN(dyp, seg_weight(b, FC2), t->offsets),
           OUT(da), DIM(R, E, H, F));
    op *o = seg_op(b, SEG_BACKWARD, OP_ACT_D, "experts.act", IN(da, t->u, t->pp), OUT(du, dpp),
                   DIM(R, F));
    o->flags = act_flags(b);
    if (b2 != NONE) {
        seg_op(b, SEG_BACKWARD, OP_GROUPED_BIAS_P, "experts.fc2", IN(dyp, b2, t->offsets), OUT(dpp),
               DIM(R, E, H));
        seg_op(b, SEG_BACKWARD, OP_GROUPED_BIAS_W, "experts.fc2", IN(dyp, t->pp, t->offsets),
               OUT(db2), DIM(R, E, H));
    }
    seg_op(b, SEG_BACKWARD, OP_GROUPED_W, "experts.fc2", IN(dyp, t->a, t->offsets),
           OUT(seg_gradient(b, FC2)), DIM(R, E, H, F));
    seg_op(b, SEG_BACKWARD, OP_GROUPED_D, "experts.fc1", IN(du, seg_weight(b, FC1), t->offsets),
           OUT(dxp), DIM(R, E, 2 * F, H));
    if (db1 != NONE)
        seg_op(b, SEG_BACKWARD, OP_GROUPED_BIAS_W, "experts.fc1", IN(du, NONE, t->offsets),
               OUT(db1), DIM(R, E, 2 * F));
    seg_op(b, SEG_BACKWARD, OP_GROUPED_W, "experts.fc1", IN(du, t->xp, t->offsets),
           OUT(seg_gradient(b, FC1)), DIM(R, E, 2 * F, H));
    seg_op(b, SEG_BACKWARD, OP_PERMUTE_D, "dispatch.permute", IN(dxp, dpp, t->rows),
           OUT(dn, dprobs), DIM(T, K, H, R));
}

/* One auxiliary loss of the list; the coefficient is its own. */
static void aux_loss(builder *b, const moe_bufs *t, int dlogits, const char *kind,
                     double coefficient)
{
    const model *m = &b->s->m;
    int64_t T = b->T, E = m->experts, K = m->topk;
    if (coefficient == 0 || text_equal(kind, "none")) return;
    int loss = seg_layer_step(b, STEP_AUX, 1);
    op *o;
    if (text_equal(kind, "global_aux_loss")) {
        int counts = seg_layer_step(b, STEP_GLOBAL, E);
        o = seg_op(b, SEG_BACKWARD, OP_AUX_COUNT, "router.global count", IN(t->logits), OUT(counts),
                   DIM(T, E, K));
        o->flags = router_flags(&b->s->r);
        o = seg_op(b, SEG_BACKWARD, OP_AUX_GLOBAL, "router.global loss", IN(t->logits, counts),
                   OUT(loss, dlogits), DIM(T, E, K, 0, T)); /* 0: as many microbatches as counted */
    } else {
        o = seg_op(b, SEG_BACKWARD, OP_AUX_LOSS, "router.aux loss", IN(t->logits),
                   OUT(loss, dlogits), DIM(T, b->S, E, K, text_equal(kind, "seq_aux_loss")));
    }
    o->flags = router_flags(&b->s->r);
    o->real[0] = coefficient;
    o->real[1] = b->aux_gradient;
}

static void router_losses(builder *b, const moe_bufs *t, int dlogits)
{
    const recipe *r = &b->s->r;
    for (int i = 0; i < recipe_count(r, K_BALANCING); i++) {
        value kind = recipe_item(r, K_BALANCING, i);
        value c = recipe_item(r, K_AUX_COEFF, i < recipe_count(r, K_AUX_COEFF) ? i : 0);
        if (kind.kind == V_TEXT && c.kind == V_FLOAT) aux_loss(b, t, dlogits, kind.text, c.real);
    }
    if (recipe_real(r, K_Z_COEFF) == 0) return;
    op *o = seg_op(b, SEG_BACKWARD, OP_Z_LOSS, "router.z loss", IN(t->logits),
                   OUT(seg_layer_step(b, STEP_Z, 1), dlogits), DIM(b->T, b->s->m.experts));
    o->real[0] = recipe_real(r, K_Z_COEFF);
    o->real[1] = b->aux_gradient;
}

static void router_backward(builder *b, const moe_bufs *t, int dprobs, int dn)
{
    const model *m = &b->s->m;
    int64_t T = b->T, E = m->experts, K = m->topk;
    int dlogits = seg_temp(b, "router.dlogits", T * E);
    op *o = seg_op(b, SEG_BACKWARD, OP_ROUTER_D, "router.choose", IN(dprobs, t->logits, t->ids),
                   OUT(dlogits), DIM(T, E, K));
    o->real[0] = scaling(&b->s->r);
    o->flags = router_flags(&b->s->r);
    router_losses(b, t, dlogits);
    seg_op(b, SEG_BACKWARD, OP_LOAD, "router.load", IN(t->ids, t->keep),
           OUT(seg_layer_step(b, STEP_LOAD, E)), DIM(T, E, K)); /* I1 */
    linear_backward(b, "router", ROUTER, BIAS, dlogits, t->norm.y, dn, true, T, E, m->hidden);
}

static void shared_backward(builder *b, const moe_bufs *t, int dh, int dn)
{
    const model *m = &b->s->m;
    int64_t T = b->T, H = m->hidden, F = m->shared_ffn;
    b->module = "shared expert";
    int da = seg_temp(b, "shared.da", T * F), du = seg_temp(b, "shared.du", T * 2 * F), dy = dh;
    if (m->shared_gate) {
        int dg = seg_temp(b, "shared.dgate", T);
        dy = seg_temp(b, "shared.dy", T * H);
        seg_op(b, SEG_BACKWARD, OP_GATE_D, "shared.gate", IN(dh, t->shared_y, t->shared_g),
               OUT(dy, dg), DIM(T, H, 1));
        linear_backward(b, "shared.gate", S_GATE, NULL, dg, t->norm.y, dn, true, T, 1, H);
    }
    linear_backward(b, "shared.fc2", S_FC2, NULL, dy, t->shared_a, da, false, T, H, F);
    op *o =
        seg_op(b, SEG_BACKWARD, OP_ACT_D, "shared.act", IN(da, t->shared_u), OUT(du), DIM(T, F));
    o->flags = act_flags(b);
    linear_backward(b, "shared.fc1", S_FC1, NULL, du, t->norm.y, dn, true, T, 2 * F, H);
}

void moe_backward(builder *b, const moe_bufs *t, int dh)
{
    const model *m = &b->s->m;
    b->module = "moe";
    int dn = seg_temp(b, "moe.dn", b->T * m->hidden);
    int dprobs = seg_temp(b, "router.dprobs", b->T * m->topk);
    experts_backward(b, t, dh, dn, dprobs);
    router_backward(b, t, dprobs, dn);
    if (m->shared_ffn) shared_backward(b, t, dh, dn);
    b->module = "moe";
    norm_backward(b, &t->norm, dn, dh, true);
}

/* moe_router.c - the choice of experts, and its gradient. */
#include "ir/build/moe.h"

#define ROUTER "mlp.router.weight"
#define BIAS   "mlp.router.bias"

unsigned router_flags(const recipe *r)
{
    unsigned f = 0;
    if (recipe_is(r, K_SCORE, "sigmoid")) f |= SIGMOID;
    if (recipe_is(r, K_SCORE, "sqrtsoftplus")) f |= SQRT_SOFTPLUS;
    if (recipe_on(r, K_PRE_SOFTMAX)) f |= PRE_SOFTMAX;
    if (recipe_on(r, K_ROUTER_NORM)) f |= RENORMALISE;
    if (recipe_is(r, K_GROUP_SCORE, "best_two")) f |= BEST_TWO;
    if (recipe_is(r, K_GROUP_SCORE, "best")) f |= BEST_ONE;
    if (recipe_on(r, K_FORCE_BALANCE)) f |= FORCED;
    return f;
}

static double scaling(const recipe *r)
{
    return recipe_given(r, K_SCALING) ? recipe_real(r, K_SCALING) : 1.0;
}

/* Under forced balance tokens are numbered over the group, and those of ranks with the same place
 * in ETP, which alltoall brings together, one after another. */
static int64_t first_token(const builder *b)
{
    return (b->at.etp * b->s->lay.ep + b->at.ep) * b->T;
}

/* What exceeds the capacity of an expert. */
static void drop_rows(builder *b, moe_bufs *t)
{
    int64_t T = b->T, E = b->s->m.experts, K = b->s->m.topk;
    t->keep = seg_saved_as(b, "router.keep", T * K, DROP_MOE, DTYPE_F32);
    seg_op(b, SEG_FORWARD, OP_DROP, "router.drop", IN(t->probs, t->ids), OUT(t->keep),
           DIM(T, E, K, t->capacity, recipe_is(&b->s->r, K_DROP_POLICY, "position")));
}

void router_forward(builder *b, moe_bufs *t)
{
    const model *m = &b->s->m;
    const recipe *r = &b->s->r;
    int64_t T = b->T, E = m->experts, K = m->topk;
    b->role = ROLE_ROUTER;
    t->logits = seg_saved_as(b, "router.logits", T * E, DROP_MOE, DTYPE_F32);
    const gemm p = {"router", ROUTER, BIAS, E, m->hidden};
    linear_forward(b, &p, T, t->norm.y, t->logits);
    t->probs = seg_saved_as(b, "router.probs", T * K, DROP_MOE, DTYPE_F32);
    t->ids = seg_saved_as(b, "router.ids", T * K, DROP_MOE, DTYPE_I32);
    op *o =
        seg_op(b, SEG_FORWARD, OP_ROUTER, "router.choose",
               IN(t->logits, m->expert_bias ? seg_weight(b, "mlp.router.expert_bias") : NONE),
               OUT(t->probs, t->ids),
               DIM(T, E, K, recipe_int(r, K_GROUPS), recipe_int(r, K_GROUP_TOPK), first_token(b)));
    o->real[REAL_ROUTER_scaling] = scaling(r);
    o->flags = router_flags(r);
    if (t->capacity) drop_rows(b, t);
    b->role = ROLE_NONE;
}

void router_backward(builder *b, const moe_bufs *t, flow d)
{
    const model *m = &b->s->m;
    int64_t T = b->T, E = m->experts, K = m->topk;
    b->role = ROLE_ROUTER;
    int dlogits = seg_temp_as(b, "router.dlogits", T * E, DTYPE_F32);
    op *o = seg_op(b, SEG_BACKWARD, OP_ROUTER_D, "router.choose", IN(d.p, t->logits, t->ids),
                   OUT(dlogits), DIM(T, E, K));
    o->real[REAL_ROUTER_D_scaling] = scaling(&b->s->r);
    o->flags = router_flags(&b->s->r);
    router_losses(b, t, dlogits);
    seg_op(b, SEG_BACKWARD, OP_LOAD, "router.load", IN(t->ids, t->keep),
           OUT(seg_layer_step(b, STEP_LOAD, E)), DIM(T, E, K));
    const gemm p = {"router", ROUTER, BIAS, E, m->hidden};
    linear_backward(b, &p, T, (linear_grads){dlogits, t->norm.y, d.x, true});
    b->role = ROLE_NONE;
}

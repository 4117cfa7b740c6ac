/* moe_router.c - the choice of experts, and its gradient. */
#include "ir/build/moe.h"

#define ROUTER "mlp.router.weight"
#define BIAS   "mlp.router.bias"

unsigned router_flags(const job *j)
{
    unsigned f = 0;
    if (j->score == J_SCORE_SIGMOID) f |= SIGMOID;
    if (j->score == J_SCORE_SQRTSOFTPLUS) f |= SQRT_SOFTPLUS;
    if (j->pre_softmax) f |= PRE_SOFTMAX;
    if (j->router_norm) f |= RENORMALISE;
    if (j->group_score == J_GROUP_SCORE_BEST_TWO) f |= BEST_TWO;
    if (j->group_score == J_GROUP_SCORE_BEST) f |= BEST_ONE;
    if (j->force_balance) f |= FORCED;
    return f;
}

static double scaling(const job *j)
{
    return job_has(j, K_SCALING) ? j->scaling : 1.0;
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
    int64_t T = b->T, E = b->block->moe.experts, K = b->block->moe.topk;
    t->keep = seg_saved_as(b, "router.keep", T * K, DROP_MOE, DTYPE_F32);
    seg_op(b, SEG_FORWARD, OP_DROP, "router.drop", IN(t->probs, t->ids), OUT(t->keep),
           DIM(T, E, K, t->capacity, b->s->j.drop_policy == J_DROP_POLICY_POSITION));
}

void router_forward(builder *b, moe_bufs *t)
{
    const model *m = &b->s->m;
    const moe_block *moe = &b->block->moe;
    const job *j = &b->s->j;
    int64_t T = b->T, E = moe->experts, K = moe->topk;
    b->role = ROLE_ROUTER;
    t->logits = seg_saved_as(b, "router.logits", T * E, DROP_MOE, DTYPE_F32);
    const gemm p = {"router", ROUTER, BIAS, E, m->hidden};
    linear_forward(b, &p, T, t->norm.y, t->logits);
    t->probs = seg_saved_as(b, "router.probs", T * K, DROP_MOE, DTYPE_F32);
    t->ids = seg_saved_as(b, "router.ids", T * K, DROP_MOE, DTYPE_I32);
    op *o = seg_op(b, SEG_FORWARD, OP_ROUTER, "router.choose",
                   IN(t->logits, moe->expert_bias ? seg_weight(b, "mlp.router.expert_bias") : NONE),
                   OUT(t->probs, t->ids), DIM(T, E, K, j->groups, j->group_topk, first_token(b)));
    o->real[REAL_ROUTER_scaling] = scaling(j);
    o->flags = router_flags(j);
    if (t->capacity) drop_rows(b, t);
    b->role = ROLE_NONE;
}

void router_backward(builder *b, const moe_bufs *t, flow d)
{
    const model *m = &b->s->m;
    const moe_block *moe = &b->block->moe;
    int64_t T = b->T, E = moe->experts, K = moe->topk;
    b->role = ROLE_ROUTER;
    int dlogits = seg_temp_as(b, "router.dlogits", T * E, DTYPE_F32);
    op *o = seg_op(b, SEG_BACKWARD, OP_ROUTER_D, "router.choose", IN(d.p, t->logits, t->ids),
                   OUT(dlogits), DIM(T, E, K));
    o->real[REAL_ROUTER_D_scaling] = scaling(&b->s->j);
    o->flags = router_flags(&b->s->j);
    router_losses(b, t, dlogits);
    seg_op(b, SEG_BACKWARD, OP_LOAD, "router.load", IN(t->ids, t->keep),
           OUT(seg_layer_step(b, STEP_LOAD, E)), DIM(T, E, K));
    const gemm p = {"router", ROUTER, BIAS, E, m->hidden};
    linear_backward(b, &p, T, (linear_grads){dlogits, t->norm.y, d.x, true});
    b->role = ROLE_NONE;
}

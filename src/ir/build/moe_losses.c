/* moe_losses.c - load-balancing losses and the z loss, over ranks.
 *
 * Counts of experts are summed over the ranks that share a microbatch (the global loss: over all);
 * each rank adds its own tokens' part of the loss and of the gradient, so that both are sums over
 * TP and CP, and means over DP. On one rank nothing is sent.
 *
 * I1  Losses and counts are written in backward only: forward may be replayed. */
#include "ir/build/moe.h"

typedef struct aux {
    int dlogits, loss;
    double coefficient;
} aux;

/* counts[samples][E] over the members of a group; samples of `S` tokens, 0: all are one. */
static int count_experts(builder *b, const moe_bufs *t, comm_group g, int64_t S)
{
    int64_t E = b->block->moe.experts, n = (S ? b->B : 1) * E,
            first = seg_group_rank(b, GROUP_TP) * b->T;
    int counts = seg_temp_as(b, "router.counts", n, DTYPE_F32);
    seg_op(b, SEG_BACKWARD, OP_ZERO, "router.counts", NULL, OUT(counts), DIM(n));
    op *o = seg_op(b, SEG_BACKWARD, OP_AUX_COUNT, "router.counts", IN(t->logits), OUT(counts),
                   DIM(b->T, E, b->block->moe.topk, S, first));
    o->flags = router_flags(&b->s->j);
    seg_comm(b, SEG_BACKWARD, OP_ALL_REDUCE, "router.counts", g, NULL, OUT(counts), DIM(n));
    return counts;
}

static op *local_loss(builder *b, const moe_bufs *t, const aux *x, bool by_sequence)
{
    int64_t E = b->block->moe.experts, all = b->T * seg_width(b, GROUP_TP_CP);
    int64_t first = seg_group_rank(b, GROUP_TP) * b->T;
    int counts = NONE;
    if (all > b->T) counts = count_experts(b, t, GROUP_TP_CP, by_sequence ? b->S : 0);
    return seg_op(b, SEG_BACKWARD, OP_AUX_LOSS, "router.aux loss", IN(t->logits, counts),
                  OUT(x->loss, x->dlogits),
                  DIM(b->T, b->S, E, b->block->moe.topk, by_sequence, first, all, b->seq));
}

/* Counts go on over the microbatches of the step. */
static op *global_loss(builder *b, const moe_bufs *t, const aux *x)
{
    int64_t E = b->block->moe.experts, K = b->block->moe.topk, ranks = seg_width(b, GROUP_TP_DP_CP);
    int sum = seg_layer_step(b, STEP_GLOBAL, E);
    if (ranks > 1) {
        int counts = count_experts(b, t, GROUP_TP_DP_CP, 0);
        seg_op(b, SEG_BACKWARD, OP_ADD, "router.global count", IN(sum, counts), OUT(sum), DIM(E));
    } else {
        op *o = seg_op(b, SEG_BACKWARD, OP_AUX_COUNT, "router.global count", IN(t->logits),
                       OUT(sum), DIM(b->T, E, K, 0, 0));
        o->flags = router_flags(&b->s->j);
    }
    /* STEPS 0: as many microbatches as counted */
    return seg_op(b, SEG_BACKWARD, OP_AUX_GLOBAL, "router.global loss", IN(t->logits, sum),
                  OUT(x->loss, x->dlogits), DIM(b->T, E, K, 0, b->T * ranks));
}

static void aux_loss(builder *b, const moe_bufs *t, const aux *x, int kind)
{
    bool global = kind == J_BALANCING_GLOBAL_AUX_LOSS;
    bool compatible = b->s->j.global_aux_compat;
    double dp = (double)b->s->lay.dp;
    op *o = global ? global_loss(b, t, x) : local_loss(b, t, x, kind == J_BALANCING_SEQ_AUX_LOSS);
    o->flags = router_flags(&b->s->j);
    o->real[REAL_AUX_LOSS_coefficient] = x->coefficient;
    o->real[REAL_AUX_LOSS_gradient] = b->aux_gradient;
    if (!global) return;
    /* Its N counts the tokens of all replicas: their parts add up, no mean. */
    o->real[REAL_AUX_LOSS_coefficient] *= dp;
    if (compatible) o->real[REAL_AUX_LOSS_gradient] /= dp;
}

static void z_loss(builder *b, const moe_bufs *t, int dlogits)
{
    double coefficient = b->s->j.z_coeff;
    if (coefficient == 0) return;
    op *o = seg_op(b, SEG_BACKWARD, OP_Z_LOSS, "router.z loss", IN(t->logits),
                   OUT(seg_layer_step(b, STEP_Z, 1), dlogits), DIM(b->T, b->block->moe.experts));
    o->real[REAL_Z_LOSS_coefficient] = coefficient / (double)seg_width(b, GROUP_TP_CP);
    o->real[REAL_Z_LOSS_gradient] = b->aux_gradient;
}

void router_losses(builder *b, const moe_bufs *t, int dlogits)
{
    const job *j = &b->s->j;
    for (int i = 0; i < j->balancing.n && j->aux_coeff.n; i++) {
        int kind = j->balancing.item[i];
        double c = j->aux_coeff.item[i < j->aux_coeff.n ? i : 0];
        bool is_loss = kind == J_BALANCING_AUX_LOSS || kind == J_BALANCING_SEQ_AUX_LOSS ||
                       kind == J_BALANCING_GLOBAL_AUX_LOSS;
        if (c == 0 || !is_loss) continue;
        aux x = {.dlogits = dlogits, .loss = seg_layer_step(b, STEP_AUX, 1), .coefficient = c};
        aux_loss(b, t, &x, kind);
    }
    z_loss(b, t, dlogits);
}

/* moe_experts.c - grouped GEMMs of a rank's local experts.
 *
 * The router's weights are applied inside the expert, between its activation and its second GEMM,
 * so that backward does not need the expert's output.
 *
 * I1  ETP splits the width of an expert, and each rank computes a partial sum. The second bias is
 *     whole on every rank, so each rank adds its share of the bias and computes its whole gradient.
 * I2  If no message waits for the gradient of the input, the weight gradient of a GEMM comes before
 *     its data gradient. The weight gradient is the last reader of its inputs, so their memory is
 *     free for the operations after it. */
#include "ir/build/moe.h"
#include "ir/build/quant.h"

#define FC1   "mlp.experts.linear_fc1.weight"
#define FC2   "mlp.experts.linear_fc2.weight"
#define FC1_B "mlp.experts.linear_fc1.bias"
#define FC2_B "mlp.experts.linear_fc2.bias"

static expert_shape experts_of(const builder *b, const moe_bufs *t)
{
    return (expert_shape){local_experts(b), t->offsets};
}

static int64_t local_width(const builder *b)
{
    return b->block->moe.ffn / b->s->lay.etp;
}

static gemm fc1_of(const builder *b)
{
    return (gemm){"experts.fc1", FC1, NULL, act_columns(b) * local_width(b), b->s->m.hidden};
}

static gemm fc2_of(const builder *b)
{
    return (gemm){"experts.fc2", FC2, NULL, b->s->m.hidden, local_width(b)};
}

/* Its offload has the first GEMM save what it was given, but for scaled blocks of FP8. */
int experts_input(builder *b, int64_t elements)
{
    const job *j = &b->s->j;
    bool original = j->offload && job_lists(j->offload_modules, J_OFFLOAD_MODULES_EXPERT_FC1) &&
                    j->fp8_recipe != J_FP8_RECIPE_MXFP8 && !job_has(j, K_FP4);
    unsigned kept = original ? 0 : STORED;
    b->role = ROLE_EXPERTS;
    int x = seg_saved(b, "experts.x", elements, DROP_MOE | OFF_EXPERT_FC1 | OFF_FUSED | kept);
    b->role = ROLE_NONE;
    return x;
}

int experts_forward(builder *b, moe_bufs *t)
{
    int64_t E = local_experts(b), H = b->s->m.hidden, F = local_width(b), R = t->room;
    int64_t U = act_columns(b) * F;
    b->role = ROLE_EXPERTS;
    t->u = seg_saved(b, "experts.u", R * U, DROP_MOE | OFF_MOE_ACT | OFF_FUSED);
    t->a = seg_saved(b, "experts.a", R * F, DROP_MOE | DROP_MOE_ACT | STORED | OFF_FUSED);
    int yp = seg_temp(b, "experts.y", R * H);
    int b1 = seg_weight(b, FC1_B), b2 = seg_weight(b, FC2_B);
    b->role = ROLE_EXPERTS_FC1;
    const gemm fc1 = fc1_of(b), fc2 = fc2_of(b);
    const expert_shape e = experts_of(b, t);
    gemm_forward(b, SEG_FORWARD, &fc1, e, (gemm_ends){R, t->xp, t->u});
    if (b1 != NONE)
        seg_op(b, SEG_FORWARD, OP_GROUPED_BIAS, "experts.fc1", IN(b1, NONE, t->offsets), OUT(t->u),
               DIM(R, E, U))
            ->real[REAL_GROUPED_BIAS_scale] = 1;
    b->role = ROLE_EXPERTS;
    act_forward(b, "experts.act", IN(t->u, t->pp), OUT(t->a), R, F);
    b->role = ROLE_EXPERTS_FC2;
    gemm_forward(b, SEG_FORWARD, &fc2, e, (gemm_ends){R, t->a, yp});
    if (b2 != NONE)
        seg_op(b, SEG_FORWARD, OP_GROUPED_BIAS, "experts.fc2", IN(b2, t->pp, t->offsets), OUT(yp),
               DIM(R, E, H))
            ->real[REAL_GROUPED_BIAS_scale] = 1.0 / (double)b->s->lay.etp; /* I1 */
    b->role = ROLE_NONE;
    return yp;
}

static void fc2_weights(builder *b, const moe_bufs *t, const expert_grads *g)
{
    int64_t E = local_experts(b), H = b->s->m.hidden, R = t->room;
    b->role = ROLE_EXPERTS_FC2;
    int db2 = seg_gradient(b, FC2_B);
    if (db2 != NONE)
        seg_op(b, SEG_BACKWARD, OP_GROUPED_BIAS_W, "experts.fc2", IN(g->dy, t->pp, t->offsets),
               OUT(db2), DIM(R, E, H));
    const gemm fc2 = fc2_of(b);
    gemm_weight(b, &fc2, experts_of(b, t), R, &g->dys, t->a);
    b->role = ROLE_NONE;
}

static void fc1_weights(builder *b, const moe_bufs *t, const expert_grads *g)
{
    int64_t E = local_experts(b), R = t->room, U = act_columns(b) * local_width(b);
    b->role = ROLE_EXPERTS_FC1;
    int db1 = seg_gradient(b, FC1_B);
    if (db1 != NONE)
        seg_op(b, SEG_BACKWARD, OP_GROUPED_BIAS_W, "experts.fc1", IN(g->du, NONE, t->offsets),
               OUT(db1), DIM(R, E, U));
    const gemm fc1 = fc1_of(b);
    gemm_weight(b, &fc1, experts_of(b, t), R, &g->dus, t->xp);
    b->role = ROLE_NONE;
}

void experts_weights(builder *b, const moe_bufs *t, const expert_grads *g)
{
    fc2_weights(b, t, g);
    fc1_weights(b, t, g);
}

/* I2. Megatron's lists keep its order, from which its memory is counted. */
static bool weights_first(const builder *b, bool late)
{
    return !late && (job_on_cpu(&b->s->j) || job_is_ours(&b->s->j));
}

expert_grads experts_backward(builder *b, const moe_bufs *t, int dy, bool late)
{
    bool first = weights_first(b, late);
    int64_t E = local_experts(b), H = b->s->m.hidden, F = local_width(b), R = t->room;
    int64_t U = act_columns(b) * F;
    b->role = ROLE_EXPERTS;
    int da = seg_temp(b, "experts.da", R * F), b2 = seg_weight(b, FC2_B);
    expert_grads g = {.dy = dy,
                      .du = seg_temp(b, "experts.du", R * U),
                      .dp = seg_temp_as(b, "experts.dp", R, DTYPE_F32),
                      .dx = seg_temp(b, "experts.dx", R * H)};
    b->role = ROLE_EXPERTS_FC2;
    const gemm fc1 = fc1_of(b), fc2 = fc2_of(b);
    const expert_shape e = experts_of(b, t);
    g.dys = gemm_gradient(b, &fc2, e, R, dy, FOR_DATA | FOR_WEIGHT); /* both GEMMs take it */
    if (first) fc2_weights(b, t, &g);
    b->role = ROLE_EXPERTS_FC2;
    gemm_data(b, &fc2, e, R, &g.dys, da);
    b->role = ROLE_EXPERTS;
    act_backward(b, "experts.act", IN(da, t->u, t->pp), OUT(g.du, g.dp), R, F);
    b->role = ROLE_EXPERTS_FC2;
    if (b2 != NONE) {
        op *o = seg_op(b, SEG_BACKWARD, OP_GROUPED_BIAS_P, "experts.fc2", IN(dy, b2, t->offsets),
                       OUT(g.dp), DIM(R, E, H));
        o->real[REAL_GROUPED_BIAS_P_scale] = 1.0 / (double)b->s->lay.etp; /* I1 */
    }
    if (!late && !first) fc2_weights(b, t, &g);
    b->role = ROLE_EXPERTS_FC1;
    g.dus = gemm_gradient(b, &fc1, e, R, g.du, FOR_DATA | FOR_WEIGHT);
    if (first) fc1_weights(b, t, &g);
    b->role = ROLE_EXPERTS_FC1;
    gemm_data(b, &fc1, e, R, &g.dus, g.dx);
    b->role = ROLE_NONE;
    if (!late && !first) fc1_weights(b, t, &g);
    return g;
}

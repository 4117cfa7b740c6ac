/* mlp.c - a dense MLP, of all tokens at once or chunk by chunk.
 *
 * I1  The norm is of all tokens; what lies between the GEMMs is of a chunk. */
#include "ir/build/chunks.h"

static gemm fc1_of(const builder *b)
{
    return (gemm){"mlp.fc1", "mlp.linear_fc1.weight", "mlp.linear_fc1.bias",
                  act_columns(b) * b->block->mlp.ffn / b->s->lay.tp, b->s->m.hidden};
}

static gemm fc2_of(const builder *b)
{
    return (gemm){"mlp.fc2", "mlp.linear_fc2.weight", "mlp.linear_fc2.bias", b->s->m.hidden,
                  b->block->mlp.ffn / b->s->lay.tp};
}

/* The builder's tokens, to out [T][H], or where that is NONE to a buffer that is returned. */
static int part_forward(builder *b, mlp_part *t, int x, int out)
{
    gemm fc1 = fc1_of(b), fc2 = fc2_of(b);
    t->u = seg_saved(b, "mlp.u", b->Tc * fc1.n, DROP_MLP);
    t->a = seg_saved(b, "mlp.a", b->Tc * fc2.k, DROP_MLP | STORED);
    if (out == NONE) out = seg_temp(b, "mlp.out", b->T * b->s->m.hidden);
    column_forward(b, &fc1, x, t->u);
    act_forward(b, "mlp.act", IN(t->u, NONE), OUT(t->a), b->Tc, fc2.k);
    row_forward(b, &fc2, t->a, out);
    return out;
}

static int chunks_forward(builder *b, mlp_bufs *t, int64_t n)
{
    int64_t H = b->s->m.hidden;
    int out = seg_temp(b, "mlp.out", b->T * H);
    for (int64_t i = 0; i < n; i++) {
        token_chunk c = chunk_enter(b, i);
        part_forward(b, &t->parts[i], chunk_rows(b, &c, t->norm.y, H), chunk_rows(b, &c, out, H));
        chunk_leave(b, &c);
    }
    return out;
}

void mlp_forward(builder *b, mlp_bufs *t, int h, int y)
{
    int64_t H = b->s->m.hidden, n = chunk_count(b);
    b->module = MODULE_MLP;
    b->node = NODE_MLP;
    t->norm =
        norm_forward(b, &(norm_shape){"mlp.norm", "mlp.linear_fc1.layer_norm_weight", b->T, H}, h,
                     DROP_LAYERNORM | STORED); /* I1 */
    t->parts = ARENA_ARRAY(b->a, mlp_part, n);
    int out = n > 1 ? chunks_forward(b, t, n) : part_forward(b, t->parts, t->norm.y, NONE);
    seg_op(b, SEG_FORWARD, OP_ADD, "mlp.residual", IN(h, out), OUT(y), DIM(b->T * H));
    b->node = NODE_ATTN;
}

/* The gradient by x, to dx [T][H] or a buffer that is returned. */
static int part_backward(builder *b, const mlp_part *t, int dy, int x, int dx)
{
    gemm fc1 = fc1_of(b), fc2 = fc2_of(b);
    int da = seg_temp(b, "mlp.da", b->Tc * fc2.k), du = seg_temp(b, "mlp.du", b->Tc * fc1.n);
    if (dx == NONE) dx = seg_temp(b, "mlp.dn", b->T * b->s->m.hidden);
    row_backward(b, &fc2, dy, t->a, da);
    act_backward(b, "mlp.act", IN(da, t->u), OUT(du), b->Tc, fc2.k);
    column_backward(b, &fc1, du, x, dx, false);
    return dx;
}

static int chunks_backward(builder *b, const mlp_bufs *t, int dh, int64_t n)
{
    int64_t H = b->s->m.hidden;
    int dn = seg_temp(b, "mlp.dn", b->T * H);
    for (int64_t i = 0; i < n; i++) {
        token_chunk c = chunk_enter(b, i);
        part_backward(b, &t->parts[i], chunk_rows(b, &c, dh, H), chunk_rows(b, &c, t->norm.y, H),
                      chunk_rows(b, &c, dn, H));
        chunk_leave(b, &c);
    }
    return dn;
}

void mlp_backward(builder *b, const mlp_bufs *t, int dh)
{
    int64_t n = chunk_count(b);
    b->module = MODULE_MLP;
    b->node = NODE_MLP;
    int dn = n > 1 ? chunks_backward(b, t, dh, n) : part_backward(b, t->parts, dh, t->norm.y, NONE);
    norm_backward(b, &t->norm, dn, dh, true);
    b->node = NODE_ATTN;
}

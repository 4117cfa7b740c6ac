/* linear.c - linear layers, whole or split over TP.
 *
 * A column-parallel GEMM all-gathers its input, a row-parallel one reduce-scatters its output. Each
 * rank saves only its own tokens; backward gathers them again while a GEMM runs that does not need
 * them. With tp_comm_overlap both collectives go block by block instead (overlap.c). */
#include "ir/build/quant.h"
#include "config/target.h"

void linear_forward(builder *b, const gemm *p, int64_t rows, int x, int y)
{
    gemm_forward(b, SEG_FORWARD, p, (expert_shape){0}, (gemm_ends){rows, x, y});
    int with = p->bias ? seg_weight(b, p->bias) : NONE;
    if (with != NONE) seg_op(b, SEG_FORWARD, OP_BIAS, p->name, IN(with), OUT(y), DIM(rows, p->n));
}

static void bias_backward(builder *b, const gemm *p, int64_t rows, int dy)
{
    int with = p->bias ? seg_gradient(b, p->bias) : NONE;
    if (with != NONE)
        seg_op(b, SEG_BACKWARD, OP_BIAS_W, p->name, IN(dy), OUT(with), DIM(rows, p->n));
}

void linear_backward(builder *b, const gemm *p, int64_t rows, linear_grads g)
{
    const expert_shape all = {0};
    unsigned wanted = FOR_WEIGHT | (g.dx != NONE ? FOR_DATA : 0);
    gemm_dy d = gemm_gradient(b, p, all, rows, g.dy, wanted);
    if (g.dx != NONE) gemm_data(b, p, all, rows, &d, g.dx)->flags = g.add ? ACCUMULATE : 0;
    gemm_weight(b, p, all, rows, &d, g.x);
    bias_backward(b, p, rows, g.dy);
}

/* Its bias is added by itself, where the sum over TP is there. */
static gemm without_bias(const gemm *p)
{
    gemm q = *p;
    q.bias = NULL;
    return q;
}

/* ---- cut over TP */

op *gather_into(builder *b, int phase, const char *name, int x, int out, int64_t width)
{
    if (b->s->lay.tp == 1)
        return seg_op(b, phase, OP_COPY, name, IN(x), OUT(out), DIM(b->T * width));
    return seg_comm(b, phase, OP_ALL_GATHER, name, GROUP_TP, IN(x), OUT(out), DIM(b->T * width));
}

int gather_tokens(builder *b, int phase, const char *name, int x, int64_t width)
{
    if (b->s->lay.tp == 1) return x;
    int whole = seg_temp_as(b, name, b->Tc * width, b->seg->bufs[x].type);
    gather_into(b, phase, name, x, whole, width);
    return whole;
}

void scatter_tokens(builder *b, int phase, const char *name, int partial, int out, int64_t width)
{
    seg_comm(b, phase, OP_REDUCE_SCATTER, name, GROUP_TP, IN(partial), OUT(out), DIM(b->T * width));
}

/* Everybody's output gradient as GEMMs take it: Transformer Engine casts first, then gathers. */
static int gather_gradient(builder *b, const gemm *p, int dy)
{
    int whole = seg_temp_as(b, p->name, b->Tc * p->n, b->types.stored);
    gather_into(b, SEG_BACKWARD, p->name, dy, whole, p->n)->type = b->types.stored;
    return whole;
}

static bool by_blocks(const builder *b)
{
    const job *j = &b->s->j;
    return b->s->lay.tp > 1 && j->sp && j->tp_overlap && target_overlaps_tp(j);
}

/* Transformer Engine cuts only what waits for a gather or ends in a scatter: forward GEMMs and
 * the data gradient of a row-parallel one. Beside its other backward GEMMs whole collectives
 * run, as they do without overlap. */
static bool cuts_all(const builder *b)
{
    return job_is_ours(&b->s->j);
}

void column_forward(builder *b, const gemm *p, int x, int y)
{
    if (by_blocks(b)) {
        overlap_column_forward(b, p, x, y);
        return;
    }
    int whole = gather_tokens(b, SEG_FORWARD, p->name, x, p->k);
    linear_forward(b, p, b->Tc, whole, y);
}

/* The gather runs beside the GEMM for dx, the scatter beside the one for the weight. */
static void column_backward_cut(builder *b, const gemm *p, int dy, int x, int dx, bool add)
{
    const expert_shape all = {0};
    int whole = gather_tokens(b, SEG_BACKWARD, p->name, x, p->k), sum = dx;
    unsigned wanted = FOR_WEIGHT | (dx != NONE ? FOR_DATA : 0);
    gemm_dy d = gemm_gradient(b, p, all, b->Tc, dy, wanted);
    if (dx != NONE) {
        int partial = seg_temp(b, p->name, b->Tc * p->k);
        if (add) sum = seg_temp(b, p->name, b->T * p->k);
        gemm_data(b, p, all, b->Tc, &d, partial);
        scatter_tokens(b, SEG_BACKWARD, p->name, partial, sum, p->k);
    }
    gemm_weight(b, p, all, b->Tc, &d, whole);
    bias_backward(b, p, b->Tc, dy);
    if (dx != NONE && add)
        seg_op(b, SEG_BACKWARD, OP_ADD, p->name, IN(dx, sum), OUT(dx), DIM(b->T * p->k));
}

void column_backward(builder *b, const gemm *p, int dy, int x, int dx, bool add)
{
    if (b->s->lay.tp == 1)
        linear_backward(b, p, b->Tc, (linear_grads){dy, x, dx, add});
    else if (by_blocks(b) && cuts_all(b))
        overlap_column_backward(b, p, dy, x, dx, add);
    else
        column_backward_cut(b, p, dy, x, dx, add);
}

void row_forward(builder *b, const gemm *p, int x, int y)
{
    if (b->s->lay.tp == 1) {
        linear_forward(b, p, b->Tc, x, y);
        return;
    }
    if (by_blocks(b)) {
        overlap_row_forward(b, p, x, y);
    } else {
        const gemm bare = without_bias(p);
        int partial = seg_temp(b, p->name, b->Tc * p->n);
        linear_forward(b, &bare, b->Tc, x, partial);
        scatter_tokens(b, SEG_FORWARD, p->name, partial, y, p->n);
    }
    int bias = p->bias ? seg_weight(b, p->bias) : NONE;
    if (bias != NONE) seg_op(b, SEG_FORWARD, OP_BIAS, p->name, IN(bias), OUT(y), DIM(b->T, p->n));
}

void row_backward(builder *b, const gemm *p, int dy, int x, int dx)
{
    if (b->s->lay.tp == 1) {
        linear_backward(b, p, b->Tc, (linear_grads){dy, x, dx, false});
        return;
    }
    if (by_blocks(b) && cuts_all(b)) {
        overlap_row_backward(b, p, dy, x, dx);
    } else if (by_blocks(b)) {
        overlap_row_backward_gathered(b, p, dy, x, dx);
    } else {
        const gemm bare = without_bias(p);
        int whole = gather_gradient(b, p, dy);
        linear_backward(b, &bare, b->Tc, (linear_grads){whole, x, dx, false});
    }
    int bias = p->bias ? seg_gradient(b, p->bias) : NONE;
    if (bias != NONE)
        seg_op(b, SEG_BACKWARD, OP_BIAS_W, p->name, IN(dy), OUT(bias), DIM(b->T, p->n));
}

op *move_flat(builder *b, int phase, const char *name, slice from, slice to, int64_t n)
{
    return seg_op(b, phase, OP_MOVE, name, IN(from.buf), OUT(to.buf),
                  DIM(1, 1, 1, n, 0, 0, 0, from.at, 0, 0, 0, to.at));
}

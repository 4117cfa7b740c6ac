/* overlap.c - GEMMs cut over TP, block by block beside their messages.
 *
 * A block is one rank's T tokens. Where inputs are gathered, blocks go round the TP group and each
 * is multiplied while the next is on its way. Where sums are scattered, the sum of a block starts
 * with the rank after its owner and goes round until it is home; each rank adds its part.
 *
 * I1  With P ranks, at step h this rank at place p has the block of place p - h; of sums it adds to
 *     the block of place p - 1 - h, and last to its own. */
#include "ir/build/quant.h"

static const expert_shape all = {0};

static int64_t owner_at(const builder *b, int64_t h)
{
    int64_t n = b->s->lay.tp;
    return ((seg_group_rank(b, GROUP_TP) - h) % n + n) % n; /* I1 */
}

static int64_t begin_blocks(builder *b)
{
    b->blocks = (int)b->s->lay.tp;
    return b->s->lay.tp;
}

static void end_blocks(builder *b)
{
    b->blocks = 0;
}

/* The rows of a block in a buffer of [Tc][width]. */
static int rows_of(builder *b, int whole, int64_t owner, int64_t width)
{
    return seg_view(b, whole, owner * b->T * width, b->T * width);
}

static int pass_into(builder *b, int phase, const char *name, int x, int y, int64_t width)
{
    seg_comm(b, phase, OP_SHIFT, name, GROUP_TP, IN(x), OUT(y), DIM(b->T * width, 1));
    return y;
}

static int pass_on(builder *b, int phase, const char *name, int x, int64_t width)
{
    int y = seg_temp_as(b, name, b->T * width, b->seg->bufs[x].type);
    return pass_into(b, phase, name, x, y, width);
}

void overlap_column_forward(builder *b, const gemm *p, int x, int y)
{
    int64_t n = begin_blocks(b);
    int here = x;
    for (int64_t h = 0; h < n; h++) {
        int next = h < n - 1 ? pass_on(b, SEG_FORWARD, p->name, here, p->k) : NONE;
        gemm_forward(b, SEG_FORWARD, p, all,
                     (gemm_ends){b->T, here, rows_of(b, y, owner_at(b, h), p->n)});
        here = next;
    }
    end_blocks(b);
    int bias = p->bias ? seg_weight(b, p->bias) : NONE;
    if (bias != NONE) seg_op(b, SEG_FORWARD, OP_BIAS, p->name, IN(bias), OUT(y), DIM(b->Tc, p->n));
}

/* One block's part of a sum, added to what has come so far (NONE: nothing); the last goes to dx. */
static int add_part(builder *b, const gemm *p, int dy, int so_far, int dx)
{
    int part = dx != NONE ? dx : seg_temp(b, p->name, b->T * p->k);
    gemm_dy d = gemm_gradient(b, p, all, b->T, dy, FOR_DATA);
    gemm_data(b, p, all, b->T, &d, part);
    if (so_far != NONE)
        seg_op(b, SEG_BACKWARD, OP_ADD, p->name, IN(part, so_far), OUT(part), DIM(b->T * p->k));
    return part;
}

void overlap_column_backward(builder *b, const gemm *p, int dy, int x, int dx, bool add)
{
    int64_t n = begin_blocks(b);
    int here = x, so_far = NONE, last = add ? NONE : dx;
    for (int64_t h = 0; h < n; h++) {
        int next = h < n - 1 ? pass_on(b, SEG_BACKWARD, p->name, here, p->k) : NONE;
        if (dx != NONE) {
            int rows = rows_of(b, dy, owner_at(b, h + 1), p->n);
            so_far = add_part(b, p, rows, so_far, h == n - 1 ? last : NONE);
            if (h < n - 1) so_far = pass_on(b, SEG_BACKWARD, p->name, so_far, p->k);
        }
        gemm_dy d =
            gemm_gradient(b, p, all, b->T, rows_of(b, dy, owner_at(b, h), p->n), FOR_WEIGHT);
        gemm_weight(b, p, all, b->T, &d, here);
        here = next;
    }
    end_blocks(b);
    if (dx != NONE && add)
        seg_op(b, SEG_BACKWARD, OP_ADD, p->name, IN(dx, so_far), OUT(dx), DIM(b->T * p->k));
    int bias = p->bias ? seg_gradient(b, p->bias) : NONE;
    if (bias != NONE)
        seg_op(b, SEG_BACKWARD, OP_BIAS_W, p->name, IN(dy), OUT(bias), DIM(b->Tc, p->n));
}

void overlap_row_forward(builder *b, const gemm *p, int x, int y)
{
    int64_t n = begin_blocks(b);
    int so_far = NONE;
    for (int64_t h = 0; h < n; h++) {
        int part = h == n - 1 ? y : seg_temp(b, p->name, b->T * p->n);
        gemm_forward(b, SEG_FORWARD, p, all,
                     (gemm_ends){b->T, rows_of(b, x, owner_at(b, h + 1), p->k), part});
        if (so_far != NONE)
            seg_op(b, SEG_FORWARD, OP_ADD, p->name, IN(part, so_far), OUT(part), DIM(b->T * p->n));
        so_far = h < n - 1 ? pass_on(b, SEG_FORWARD, p->name, part, p->n) : NONE;
    }
    end_blocks(b);
}

/* Blocks arrive in one buffer, from which the weight's gradient is made by one GEMM. */
void overlap_row_backward_gathered(builder *b, const gemm *p, int dy, int x, int dx)
{
    int whole = seg_temp_as(b, p->name, b->Tc * p->n, b->types.stored);
    int here = rows_of(b, whole, owner_at(b, 0), p->n);
    seg_op(b, SEG_BACKWARD, OP_COPY, p->name, IN(dy), OUT(here), DIM(b->T * p->n));
    int64_t n = begin_blocks(b);
    for (int64_t h = 0; h < n; h++) {
        int next = h < n - 1 ? rows_of(b, whole, owner_at(b, h + 1), p->n) : NONE;
        if (next != NONE) pass_into(b, SEG_BACKWARD, p->name, here, next, p->n);
        gemm_dy d = gemm_gradient(b, p, all, b->T, here, FOR_DATA);
        gemm_data(b, p, all, b->T, &d, rows_of(b, dx, owner_at(b, h), p->k));
        here = next;
    }
    end_blocks(b);
    gemm_dy d = gemm_gradient(b, p, all, b->Tc, whole, FOR_WEIGHT);
    gemm_weight(b, p, all, b->Tc, &d, x);
}

void overlap_row_backward(builder *b, const gemm *p, int dy, int x, int dx)
{
    int64_t n = begin_blocks(b);
    int here = dy;
    for (int64_t h = 0; h < n; h++) {
        int next = h < n - 1 ? pass_on(b, SEG_BACKWARD, p->name, here, p->n) : NONE;
        int64_t owner = owner_at(b, h);
        gemm_dy d = gemm_gradient(b, p, all, b->T, here, FOR_DATA | FOR_WEIGHT);
        gemm_data(b, p, all, b->T, &d, rows_of(b, dx, owner, p->k));
        gemm_weight(b, p, all, b->T, &d, rows_of(b, x, owner, p->k));
        here = next;
    }
    end_blocks(b);
}

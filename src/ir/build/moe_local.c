/* moe_local.c - all experts on one rank: tokens are sorted by expert and back.
 *
 * And the allgather dispatcher, which does the same on everybody's tokens with the experts that are
 * here: what other ranks' experts add is summed on the way back. */
#include "ir/build/moe.h"

/* Tokens that are sorted: this rank's, or all members'. */
static int64_t tokens_here(const builder *b)
{
    return b->T * seg_width(b, GROUP_TP_EP);
}

/* x, probs, ids and keep of the same tokens -> rows of the experts from `first` on. */
static void sort_and_permute(builder *b, moe_bufs *t, flow f, const int *ids_keep)
{
    int64_t N = tokens_here(b), E = local_experts(b), K = b->block->moe.topk, H = b->s->m.hidden;
    int64_t pad = t->pad * seg_width(b, GROUP_TP_EP), first = b->at.ep * E;
    t->rows = seg_saved_as(b, "dispatch.rows", N * K, DROP_MOE, DTYPE_I32);
    t->offsets = seg_saved_as(b, "dispatch.offsets", E + 1, DROP_MOE, DTYPE_I32);
    t->xp = experts_input(b, t->room * H);
    t->pp = seg_saved_as(b, "experts.p", t->room, DROP_MOE, DTYPE_F32);
    seg_op(b, SEG_FORWARD, OP_SORT, "dispatch.sort", ids_keep, OUT(t->rows, t->offsets, t->demand),
           DIM(N, E, K, t->room, pad, first, expert_align(b)));
    seg_op(b, SEG_FORWARD, OP_PERMUTE, "dispatch.permute", IN(f.x, f.p, t->rows), OUT(t->xp, t->pp),
           DIM(N, K, H, t->room));
}

/* Is the result of a step that of all steps, with a place of its own? */
static bool ends_here(const builder *b, int place)
{
    return moe_is_local(b) && place != NONE;
}

static flow lift(builder *b, moe_bufs *t, flow f)
{
    int64_t N = tokens_here(b), H = b->s->m.hidden;
    int y = ends_here(b, t->out) ? t->out : seg_temp(b, "moe.out", N * H);
    seg_op(b, SEG_FORWARD, OP_UNPERMUTE, "combine", IN(f.x, t->rows), OUT(y),
           DIM(N, b->block->moe.topk, H, t->room));
    return (flow){y, NONE};
}

static flow lift_d(builder *b, moe_bufs *t, flow f)
{
    int64_t N = tokens_here(b), H = b->s->m.hidden;
    int dyp = seg_temp(b, "experts.dy", t->room * H);
    seg_op(b, SEG_BACKWARD, OP_UNPERMUTE_D, "combine", IN(f.x, t->rows), OUT(dyp),
           DIM(N, b->block->moe.topk, H, t->room));
    return (flow){dyp, NONE};
}

static flow place_d(builder *b, moe_bufs *t, flow f)
{
    int64_t N = tokens_here(b), H = b->s->m.hidden, K = b->block->moe.topk;
    flow d = {t->dn, t->dp};
    if (!ends_here(b, t->dn))
        d = (flow){seg_temp(b, "moe.dn", N * H), seg_temp_as(b, "router.dprobs", N * K, DTYPE_F32)};
    seg_op(b, SEG_BACKWARD, OP_PERMUTE_D, "dispatch.permute", IN(f.x, f.p, t->rows), OUT(d.x, d.p),
           DIM(N, K, H, t->room));
    return d;
}

/* ---- on one rank */

static flow local_place(builder *b, moe_bufs *t, flow f)
{
    t->room = room_of_experts(b, room_of_pairs(b, t));
    sort_and_permute(b, t, f, IN(t->ids, t->keep));
    return f;
}

const moe_steps moe_local = {
    .place = local_place, .lift = lift, .lift_d = lift_d, .place_d = place_d};

/* ---- allgather */

static int gathered(builder *b, int phase, const char *name, int x, int64_t n)
{
    int64_t all = n * seg_width(b, GROUP_TP_EP);
    int y = flow_rows(b, name, x, all);
    seg_comm(b, phase, OP_ALL_GATHER, name, GROUP_TP_EP, IN(x), OUT(y), DIM(n));
    return y;
}

static int scattered(builder *b, int phase, const char *name, int x, int64_t n)
{
    int y = flow_rows(b, name, x, n);
    seg_comm(b, phase, OP_REDUCE_SCATTER, name, GROUP_TP_EP, IN(x), OUT(y), DIM(n));
    return y;
}

/* Ids first: sorting them runs beside the tokens' way. */
static flow all_place(builder *b, moe_bufs *t, flow f)
{
    int64_t n = b->T * b->block->moe.topk, width = b->T * b->s->m.hidden;
    b->node = NODE_DISPATCH;
    int ids = gathered(b, SEG_FORWARD, "dispatch.ids", t->ids, n);
    int keep = t->keep == NONE ? NONE : gathered(b, SEG_FORWARD, "dispatch.keep", t->keep, n);
    flow all = {.p = gathered(b, SEG_FORWARD, "dispatch.p", f.p, n)};
    all.x = gathered(b, SEG_FORWARD, "dispatch.x", f.x, width);
    b->node = NODE_MLP;
    t->room = room_of_experts(b, room_of_rows(b, t, seg_width(b, GROUP_TP_EP)));
    t->demand = seg_saved_as(b, "dispatch.demand", 2, DROP_MOE, DTYPE_I32);
    sort_and_permute(b, t, all, IN(ids, keep));
    return f;
}

static flow all_reply(builder *b, moe_bufs *t, flow f)
{
    (void)t;
    return (flow){scattered(b, SEG_FORWARD, "combine", f.x, b->T * b->s->m.hidden), NONE};
}

static flow all_reply_d(builder *b, moe_bufs *t, flow f)
{
    (void)t;
    return (flow){gathered(b, SEG_BACKWARD, "combine", f.x, b->T * b->s->m.hidden), NONE};
}

static flow all_send_d(builder *b, moe_bufs *t, flow f)
{
    (void)t;
    flow d = {.x = scattered(b, SEG_BACKWARD, "dispatch.x", f.x, b->T * b->s->m.hidden)};
    d.p = scattered(b, SEG_BACKWARD, "dispatch.p", f.p, b->T * b->block->moe.topk);
    return d;
}

const moe_steps moe_allgather = {.place = all_place,
                                 .lift = lift,
                                 .reply = all_reply,
                                 .reply_d = all_reply_d,
                                 .lift_d = lift_d,
                                 .place_d = place_d,
                                 .send_d = all_send_d};

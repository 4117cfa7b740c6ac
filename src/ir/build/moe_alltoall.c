/* moe_alltoall.c - rows travel to their experts' ranks, one for each expert of a token.
 *
 * Sorted by expert, a rank's rows lie by EP rank: one run to each. Over EP they meet those of the
 * ranks with the same place in ETP; over ETP everybody's are gathered, for each has a part of every
 * local expert. Weights travel beside them. The way back is the same with tables turned round; over
 * ETP the parts of a row are summed where it came from. */
#include <assert.h>

#include "ir/build/moe.h"

/* Rows of `width` numbers, forth or back. */
typedef struct wire {
    int phase;
    const char *name;
    int64_t width;
} wire;

static int exchange(builder *b, const wire *w, comm_group g, const int *x_table, int64_t room)
{
    int y = flow_rows(b, w->name, x_table[0], room * w->width);
    seg_comm(b, w->phase, OP_EXCHANGE, w->name, g, x_table, OUT(y), DIM(room, w->width));
    return y;
}

/* [room0] -> [room1]; they are the same with EP 1, where every row stays. */
static int ep_forth(builder *b, const moe_bufs *t, wire w, int x)
{
    int64_t EP = b->s->lay.ep;
    assert(EP > 1 || t->room0 == t->room1);
    if (EP == 1) return x;
    return exchange(b, &w, GROUP_EP, IN(x, seg_view(b, t->ep, 0, 4 * EP)), t->room1);
}

/* [room1] -> [arrived], in the order of arrival. */
static int etp_forth(builder *b, const moe_bufs *t, wire w, int x)
{
    int64_t ETP = b->s->lay.etp;
    if (ETP == 1) return x;
    return exchange(b, &w, GROUP_ETP, IN(x, seg_view(b, t->etp, 0, 4 * ETP)), t->arrived);
}

/* [arrived] -> parts [ETP][room1]. */
static int etp_back(builder *b, const moe_bufs *t, wire w, int x)
{
    int64_t ETP = b->s->lay.etp;
    if (ETP == 1) return x;
    int table = seg_view(b, t->etp, 4 * ETP, 4 * ETP);
    return exchange(b, &w, GROUP_ETP, IN(x, table), ETP * t->room1);
}

/* Their sum, [room1] -> [room0]. */
static int ep_back(builder *b, const moe_bufs *t, wire w, int x)
{
    int64_t EP = b->s->lay.ep, ETP = b->s->lay.etp;
    if (ETP > 1) {
        int parts = x;
        x = flow_rows(b, w.name, parts, t->room1 * w.width);
        seg_op(b, w.phase, OP_UNPERMUTE, w.name, IN(parts, t->sums), OUT(x),
               DIM(t->room1, ETP, w.width, ETP * t->room1));
    }
    if (EP == 1) return x;
    return exchange(b, &w, GROUP_EP, IN(x, seg_view(b, t->ep, 2 * EP, 4 * EP)), t->room0);
}

static void take_tables(builder *b, moe_bufs *t)
{
    int64_t EP = b->s->lay.ep, ETP = b->s->lay.etp;
    t->kept = seg_saved_as(b, "dispatch.kept", b->T * b->block->moe.topk, DROP_MOE, DTYPE_I32);
    t->ep = seg_saved_as(b, "dispatch.ep", 6 * EP, DROP_MOE, DTYPE_I32);
    t->rows = seg_saved_as(b, "dispatch.rows", t->arrived, DROP_MOE, DTYPE_I32);
    t->offsets = seg_saved_as(b, "dispatch.offsets", local_experts(b) + 1, DROP_MOE, DTYPE_I32);
    t->demand = seg_saved_as(b, "dispatch.demand", 2, DROP_MOE, DTYPE_I32);
    if (ETP == 1) return;
    t->etp = seg_saved_as(b, "dispatch.etp", 8 * ETP, DROP_MOE, DTYPE_I32);
    t->sums = seg_saved_as(b, "dispatch.sums", t->room1 * ETP, DROP_MOE, DTYPE_I32);
}

/* Counts travel while rows are permuted. */
static flow pack(builder *b, moe_bufs *t, flow f)
{
    const model *m = &b->s->m;
    const moe_block *moe = &b->block->moe;
    int64_t T = b->T, E = moe->experts, K = moe->topk, P = seg_width(b, GROUP_TP_EP);
    t->room1 = room_of_rows(b, t, b->s->lay.ep);
    t->arrived = b->s->lay.etp * t->room1;
    t->room = room_of_experts(b, t->arrived);
    t->room0 = room_of_pairs(b, t);
    take_tables(b, t);
    int rows = seg_temp_as(b, "dispatch.sorted", T * K, DTYPE_I32),
        counts = seg_temp_as(b, "dispatch.counts", E + 1, DTYPE_I32);
    int all = seg_temp_as(b, "dispatch.all counts", P * (E + 1), DTYPE_I32);
    seg_op(b, SEG_FORWARD, OP_SORT, "dispatch.sort", IN(t->ids, t->keep), OUT(rows, counts),
           DIM(T, E, K, t->room0, t->pad, 0));
    seg_comm(b, SEG_FORWARD, OP_ALL_GATHER, "dispatch.counts", GROUP_TP_EP, IN(counts), OUT(all),
             DIM(E + 1))
        ->role = ROLE_COUNTS;
    flow out = {seg_temp(b, "dispatch.x", t->room0 * m->hidden),
                seg_temp_as(b, "dispatch.p", t->room0, DTYPE_F32)};
    seg_op(b, SEG_FORWARD, OP_PERMUTE, "dispatch.permute", IN(f.x, f.p, rows), OUT(out.x, out.p),
           DIM(T, K, m->hidden, t->room0));
    seg_op(b, SEG_FORWARD, OP_ROUTE, "dispatch.route", IN(rows, all),
           OUT(t->kept, t->ep, t->etp, t->rows, t->offsets, t->sums, t->demand),
           DIM(E, b->s->lay.ep, b->s->lay.etp, seg_group_rank(b, GROUP_TP_EP), T, K, t->room1,
               expert_align(b)));
    return out;
}

static flow send(builder *b, moe_bufs *t, flow f)
{
    wire x = {SEG_FORWARD, "dispatch.x", b->s->m.hidden}, p = {SEG_FORWARD, "dispatch.p", 1};
    flow y = {.p = ep_forth(b, t, p, f.p)};
    y.x = ep_forth(b, t, x, f.x);
    y.p = etp_forth(b, t, p, y.p);
    y.x = etp_forth(b, t, x, y.x);
    return y;
}

static flow place(builder *b, moe_bufs *t, flow f)
{
    int64_t H = b->s->m.hidden;
    t->xp = experts_input(b, t->room * H);
    t->pp = seg_saved_as(b, "experts.p", t->room, DROP_MOE, DTYPE_F32);
    seg_op(b, SEG_FORWARD, OP_PERMUTE, "dispatch.reorder", IN(f.x, f.p, t->rows), OUT(t->xp, t->pp),
           DIM(t->arrived, 1, H, t->room));
    return f;
}

static flow lift(builder *b, moe_bufs *t, flow f)
{
    int64_t H = b->s->m.hidden;
    int y = seg_temp(b, "combine.x", t->arrived * H);
    seg_op(b, SEG_FORWARD, OP_UNPERMUTE, "combine.reorder", IN(f.x, t->rows), OUT(y),
           DIM(t->arrived, 1, H, t->room));
    return (flow){y, NONE};
}

static flow reply(builder *b, moe_bufs *t, flow f)
{
    wire w = {SEG_FORWARD, "combine", b->s->m.hidden};
    return (flow){ep_back(b, t, w, etp_back(b, t, w, f.x)), NONE};
}

static flow join(builder *b, moe_bufs *t, flow f)
{
    int64_t T = b->T, H = b->s->m.hidden;
    int y = t->out != NONE ? t->out : seg_temp(b, "moe.out", T * H);
    seg_op(b, SEG_FORWARD, OP_UNPERMUTE, "combine", IN(f.x, t->kept), OUT(y),
           DIM(T, b->block->moe.topk, H, t->room0));
    return (flow){y, NONE};
}

/* ---- backward */

static flow join_d(builder *b, moe_bufs *t, flow f)
{
    int64_t H = b->s->m.hidden;
    int dy = seg_temp(b, "combine.dx", t->room0 * H);
    seg_op(b, SEG_BACKWARD, OP_UNPERMUTE_D, "combine", IN(f.x, t->kept), OUT(dy),
           DIM(b->T, b->block->moe.topk, H, t->room0));
    return (flow){dy, NONE};
}

static flow reply_d(builder *b, moe_bufs *t, flow f)
{
    wire w = {SEG_BACKWARD, "combine", b->s->m.hidden};
    return (flow){etp_forth(b, t, w, ep_forth(b, t, w, f.x)), NONE};
}

static flow lift_d(builder *b, moe_bufs *t, flow f)
{
    int64_t H = b->s->m.hidden;
    int dy = seg_temp(b, "experts.dy", t->room * H);
    seg_op(b, SEG_BACKWARD, OP_UNPERMUTE_D, "combine.reorder", IN(f.x, t->rows), OUT(dy),
           DIM(t->arrived, 1, H, t->room));
    return (flow){dy, NONE};
}

static flow place_d(builder *b, moe_bufs *t, flow f)
{
    int64_t H = b->s->m.hidden;
    flow d = {seg_temp(b, "dispatch.dx", t->arrived * H),
              seg_temp_as(b, "dispatch.dp", t->arrived, DTYPE_F32)};
    seg_op(b, SEG_BACKWARD, OP_PERMUTE_D, "dispatch.reorder", IN(f.x, f.p, t->rows), OUT(d.x, d.p),
           DIM(t->arrived, 1, H, t->room));
    return d;
}

static flow send_d(builder *b, moe_bufs *t, flow f)
{
    wire x = {SEG_BACKWARD, "dispatch.x", b->s->m.hidden}, p = {SEG_BACKWARD, "dispatch.p", 1};
    flow d = {.x = etp_back(b, t, x, f.x)};
    d.p = etp_back(b, t, p, f.p);
    d.x = ep_back(b, t, x, d.x);
    d.p = ep_back(b, t, p, d.p);
    return d;
}

static flow pack_d(builder *b, moe_bufs *t, flow f)
{
    int64_t T = b->T, H = b->s->m.hidden, K = b->block->moe.topk;
    flow d = {t->dn, t->dp};
    if (t->dn == NONE)
        d = (flow){seg_temp(b, "moe.dn", T * H), seg_temp_as(b, "router.dprobs", T * K, DTYPE_F32)};
    seg_op(b, SEG_BACKWARD, OP_PERMUTE_D, "dispatch.permute", IN(f.x, f.p, t->kept), OUT(d.x, d.p),
           DIM(T, K, H, t->room0));
    return d;
}

const moe_steps moe_alltoall = {.pack = pack,
                                .send = send,
                                .place = place,
                                .lift = lift,
                                .reply = reply,
                                .join = join,
                                .join_d = join_d,
                                .reply_d = reply_d,
                                .lift_d = lift_d,
                                .place_d = place_d,
                                .send_d = send_d,
                                .pack_d = pack_d};

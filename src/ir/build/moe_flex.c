/* moe_flex.c - a token travels once to each domain that has one of its experts, and is fanned
 * out there to the members that have them; each adds up what its own experts give.
 *
 * A domain is a node, or an NVLink domain (over_nvlink). Beside a row travel its experts and
 * weights, 2K numbers. On the way back rows are summed at every stop: over a member's experts, over
 * the members of the domain (and so over ETP), over domains. Where all members share one domain the
 * first hop falls away. */
#include "ir/build/moe.h"

flex_group flex_group_at(const setup *s, const rank_at *at)
{
    const layout *l = &s->lay;
    int64_t place = group_rank(s, GROUP_TP_EP, at);
    int64_t span = dispatcher_of(&s->j)->over_nvlink ? l->nvlink_domain : l->gpus_per_node;
    if (span < 1) span = 1;
    int64_t shift = (at->rank - place) % span; /* its ranks follow one another */
    return (flex_group){s->m.moe->experts, l->ep, l->etp, place, shift, span};
}

static flex_group group_of_flex(const builder *b)
{
    return flex_group_at(b->s, &b->at);
}

int64_t flex_shift_of(const setup *s, const rank_at *at)
{
    return dispatcher_of(&s->j)->flex ? flex_group_at(s, at).shift : 0;
}

/* Sizes of flex operations: the group, then up to five of their own. */
#define FLEX_DIM(g, ...) DIM((g).E, (g).ep, (g).etp, (g).place, (g).shift, (g).span, __VA_ARGS__)

/* Rows of `width` numbers on their way, and the step that they take: `n` rows in, each to `k`
 * places by an index int32[n][k], `room` places. */
typedef struct wire {
    int phase;
    const char *name;
    int64_t width;
} wire;

typedef struct row_map {
    int rows;
    int64_t n, k, room;
} row_map;

static row_map to_domains(const builder *b, const moe_bufs *t, const flex_group *g)
{
    return (row_map){t->kept, b->T, flex_domains(g), t->room0};
}

static row_map to_members(const moe_bufs *t, const flex_group *g)
{
    flex_run own = flex_own(g);
    return (row_map){t->fan, t->room1, own.end - own.first, t->room_send};
}

static row_map to_experts(const builder *b, const moe_bufs *t)
{
    return (row_map){t->rows, t->room2, b->block->moe.topk, t->room};
}

static int spread(builder *b, wire w, const row_map *i, int x)
{
    int y = flow_rows(b, w.name, x, i->room * w.width);
    seg_op(b, w.phase, OP_UNPERMUTE_D, w.name, IN(x, i->rows), OUT(y),
           DIM(i->n, i->k, w.width, i->room));
    return y;
}

static int sum(builder *b, wire w, const row_map *i, int x)
{
    int y = flow_rows(b, w.name, x, i->n * w.width);
    seg_op(b, w.phase, OP_UNPERMUTE, w.name, IN(x, i->rows), OUT(y),
           DIM(i->n, i->k, w.width, i->room));
    return y;
}

/* Over a table's way forth (0) or back (2). */
static int travel(builder *b, wire w, op_role hop, int x, int table, int64_t room)
{
    int y = flow_rows(b, w.name, x, room * w.width);
    seg_comm(b, w.phase, OP_EXCHANGE, w.name, GROUP_TP_EP, IN(x, table), OUT(y), DIM(room, w.width))
        ->role = hop;
    return y;
}

static int way_forth(builder *b, int table)
{
    return seg_view(b, table, 0, 4 * seg_width(b, GROUP_TP_EP));
}

static int way_back(builder *b, int table)
{
    int64_t P = seg_width(b, GROUP_TP_EP);
    return seg_view(b, table, 2 * P, 4 * P);
}

static int hop1_forth(builder *b, const moe_bufs *t, wire w, int x)
{
    return t->hop1 == NONE ? x : travel(b, w, ROLE_HOP1, x, way_forth(b, t->hop1), t->room1);
}

static int hop2_forth(builder *b, const moe_bufs *t, wire w, int x)
{
    flex_group g = group_of_flex(b);
    row_map i = to_members(t, &g);
    return travel(b, w, ROLE_HOP2, spread(b, w, &i, x), way_forth(b, t->hop2), t->room2);
}

/* [room2] -> [room_send]: back at the rails. */
static int hop2_back(builder *b, const moe_bufs *t, wire w, int x)
{
    return travel(b, w, ROLE_HOP2, x, way_back(b, t->hop2), t->room_send);
}

/* [room_send] -> [room0]: summed there, back at the source. */
static int hop1_back(builder *b, const moe_bufs *t, wire w, int x)
{
    flex_group g = group_of_flex(b);
    row_map i = to_members(t, &g);
    if (t->hop1 == NONE) return x;
    return travel(b, w, ROLE_HOP1, sum(b, w, &i, x), way_back(b, t->hop1), t->room0);
}

/* What came back last -> [T]. */
static int sum_here(builder *b, const moe_bufs *t, wire w, int x)
{
    flex_group g = group_of_flex(b);
    row_map i = t->hop1 == NONE ? to_members(t, &g) : to_domains(b, t, &g);
    return sum(b, w, &i, x);
}

/* ---- forward */

static void take_tables(builder *b, moe_bufs *t, const flex_group *g)
{
    int64_t D = flex_domains(g), P = flex_members(g);
    flex_run own = flex_own(g);
    flex_rooms(b, t, g);
    if (D > 1) {
        t->kept = seg_saved_as(b, "dispatch.kept", b->T * D, DROP_MOE, DTYPE_I32);
        t->hop1 = seg_saved_as(b, "dispatch.hop1", 6 * P, DROP_MOE, DTYPE_I32);
    }
    t->hop2 = seg_saved_as(b, "dispatch.hop2", 6 * P, DROP_MOE, DTYPE_I32);
    t->demand3 = seg_saved_as(b, "dispatch.demand", 6, DROP_MOE, DTYPE_I32);
    t->fan = seg_saved_as(b, "dispatch.fan", t->room1 * (own.end - own.first), DROP_MOE, DTYPE_I32);
    t->rows = seg_saved_as(b, "dispatch.rows", t->room2 * b->block->moe.topk, DROP_MOE, DTYPE_I32);
    t->offsets = seg_saved_as(b, "dispatch.offsets", local_experts(b) + 1, DROP_MOE, DTYPE_I32);
    t->demand = seg_saved_as(b, "dispatch.demand", 2, DROP_MOE, DTYPE_I32);
    t->xp = experts_input(b, t->room * b->s->m.hidden);
    t->pp = seg_saved_as(b, "experts.p", t->room, DROP_MOE, DTYPE_F32);
}

/* Counts travel while rows are put in order. */
static flow pack(builder *b, moe_bufs *t, flow f)
{
    flex_group g = group_of_flex(b);
    int64_t T = b->T, K = b->block->moe.topk, D = flex_domains(&g), P = flex_members(&g);
    take_tables(b, t, &g);
    flow out = {f.x, seg_temp_as(b, "dispatch.meta", T * 2 * K, DTYPE_F32)};
    int rows = D > 1 ? seg_temp_as(b, "dispatch.sorted", T * D, DTYPE_I32) : NONE;
    int counts = seg_temp_as(b, "dispatch.counts", D + P, DTYPE_I32);
    int all = seg_temp_as(b, "dispatch.all counts", P * (D + P), DTYPE_I32);
    int64_t widest = flex_widest(&g);
    int pairs = seg_temp_as(b, "dispatch.pairs", widest * widest, DTYPE_I32);
    seg_op(b, SEG_FORWARD, OP_FLEX_COUNT, "dispatch.count", IN(t->ids, t->keep), OUT(rows, counts),
           FLEX_DIM(g, T, K));
    seg_comm(b, SEG_FORWARD, OP_ALL_GATHER, "dispatch.counts", GROUP_TP_EP, IN(counts), OUT(all),
             DIM(D + P))
        ->role = ROLE_COUNTS;
    seg_op(b, SEG_FORWARD, OP_FLEX_PACK, "dispatch.meta", IN(f.p, t->ids, t->keep), OUT(out.p),
           DIM(T, K));
    if (D > 1) {
        row_map i = {rows, T, D, t->room0};
        out.p = spread(b, (wire){SEG_FORWARD, "dispatch.meta", 2 * K}, &i, out.p);
        out.x = spread(b, (wire){SEG_FORWARD, "dispatch.x", b->s->m.hidden}, &i, f.x);
    }
    seg_op(b, SEG_FORWARD, OP_FLEX_PLAN, "dispatch.plan", IN(rows, all),
           OUT(t->kept, t->hop1, t->hop2, pairs, t->demand3),
           FLEX_DIM(g, T, t->room1, t->room_send, t->room2));
    return out;
}

static flow send(builder *b, moe_bufs *t, flow f)
{
    flex_group g = group_of_flex(b);
    int64_t K = b->block->moe.topk;
    wire meta = {SEG_FORWARD, "dispatch.meta", 2 * K}, x = {SEG_FORWARD, "dispatch.x", 0};
    x.width = b->s->m.hidden;
    f.p = hop1_forth(b, t, meta, f.p);
    f.x = hop1_forth(b, t, x, f.x);
    seg_op(b, SEG_FORWARD, OP_FLEX_FAN, "dispatch.fan", IN(f.p, t->hop1, t->hop2), OUT(t->fan),
           FLEX_DIM(g, t->room1, K));
    f.p = hop2_forth(b, t, meta, f.p);
    f.x = hop2_forth(b, t, x, f.x);
    return f;
}

static flow place(builder *b, moe_bufs *t, flow f)
{
    int64_t N = t->room2, K = b->block->moe.topk, H = b->s->m.hidden, E = local_experts(b);
    int64_t P = seg_width(b, GROUP_TP_EP);
    int probs = seg_temp_as(b, "dispatch.p", N * K, DTYPE_F32),
        ids = seg_temp_as(b, "dispatch.ids", N * K, DTYPE_I32);
    seg_op(b, SEG_FORWARD, OP_FLEX_UNPACK, "dispatch.meta", IN(f.p, t->hop2), OUT(probs, ids),
           DIM(N, K, P));
    seg_op(b, SEG_FORWARD, OP_SORT, "dispatch.sort", IN(ids, NONE),
           OUT(t->rows, t->offsets, t->demand),
           DIM(N, E, K, t->room, 0, b->at.ep * E, expert_align(b)));
    seg_op(b, SEG_FORWARD, OP_PERMUTE, "dispatch.permute", IN(f.x, probs, t->rows),
           OUT(t->xp, t->pp), DIM(N, K, H, t->room));
    return f;
}

/* hybridep: in one. */
static flow place_at_once(builder *b, moe_bufs *t, flow f)
{
    int64_t E = local_experts(b);
    seg_op(b, SEG_FORWARD, OP_FLEX_PLACE, "dispatch.place", IN(f.x, f.p, t->hop2),
           OUT(t->xp, t->pp, t->rows, t->offsets, t->demand),
           DIM(t->room2, b->block->moe.topk, b->s->m.hidden, t->room, E, b->at.ep * E,
               seg_width(b, GROUP_TP_EP), expert_align(b)));
    return f;
}

static flow lift(builder *b, moe_bufs *t, flow f)
{
    row_map i = to_experts(b, t);
    return (flow){sum(b, (wire){SEG_FORWARD, "combine.sum", b->s->m.hidden}, &i, f.x), NONE};
}

static flow reply(builder *b, moe_bufs *t, flow f)
{
    wire w = {SEG_FORWARD, "combine", b->s->m.hidden};
    return (flow){hop1_back(b, t, w, hop2_back(b, t, w, f.x)), NONE};
}

static flow join(builder *b, moe_bufs *t, flow f)
{
    return (flow){sum_here(b, t, (wire){SEG_FORWARD, "moe.out", b->s->m.hidden}, f.x), NONE};
}

/* ---- backward */

static flow join_d(builder *b, moe_bufs *t, flow f)
{
    flex_group g = group_of_flex(b);
    row_map i = to_domains(b, t, &g);
    if (t->hop1 == NONE) return f;
    return (flow){spread(b, (wire){SEG_BACKWARD, "combine", b->s->m.hidden}, &i, f.x), NONE};
}

static flow reply_d(builder *b, moe_bufs *t, flow f)
{
    wire w = {SEG_BACKWARD, "combine", b->s->m.hidden};
    return (flow){hop2_forth(b, t, w, hop1_forth(b, t, w, f.x)), NONE};
}

static flow lift_d(builder *b, moe_bufs *t, flow f)
{
    row_map i = to_experts(b, t);
    b->role = ROLE_EXPERTS;
    flow d = {spread(b, (wire){SEG_BACKWARD, "experts.dy", b->s->m.hidden}, &i, f.x), NONE};
    b->role = ROLE_NONE;
    return d;
}

static flow place_d(builder *b, moe_bufs *t, flow f)
{
    int64_t N = t->room2, K = b->block->moe.topk, H = b->s->m.hidden;
    flow d = {seg_temp(b, "dispatch.dx", N * H), seg_temp_as(b, "dispatch.dp", N * K, DTYPE_F32)};
    seg_op(b, SEG_BACKWARD, OP_PERMUTE_D, "dispatch.permute", IN(f.x, f.p, t->rows), OUT(d.x, d.p),
           DIM(N, K, H, t->room));
    return d;
}

/* Both at once, hop by hop. */
static flow send_d(builder *b, moe_bufs *t, flow f)
{
    wire x = {SEG_BACKWARD, "dispatch.x", b->s->m.hidden};
    wire p = {SEG_BACKWARD, "dispatch.p", b->block->moe.topk};
    flow d = {.x = hop2_back(b, t, x, f.x)};
    d.p = hop2_back(b, t, p, f.p);
    d.x = hop1_back(b, t, x, d.x);
    d.p = hop1_back(b, t, p, d.p);
    return d;
}

static flow pack_d(builder *b, moe_bufs *t, flow f)
{
    flow d = {.x = sum_here(b, t, (wire){SEG_BACKWARD, "moe.dn", b->s->m.hidden}, f.x)};
    b->role = ROLE_ROUTER;
    d.p = sum_here(b, t, (wire){SEG_BACKWARD, "router.dprobs", b->block->moe.topk}, f.p);
    b->role = ROLE_NONE;
    return d;
}

#define STEPS_OF(how)                                                                              \
    {                                                                                              \
        .pack = pack, .send = send, .place = how, .lift = lift, .reply = reply, .join = join,      \
        .join_d = join_d, .reply_d = reply_d, .lift_d = lift_d, .place_d = place_d,                \
        .send_d = send_d, .pack_d = pack_d                                                         \
    }

const moe_steps moe_deepep = STEPS_OF(place);
const moe_steps moe_hybridep = STEPS_OF(place_at_once);

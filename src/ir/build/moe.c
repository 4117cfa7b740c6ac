/* moe.c - a layer of routed experts: the order of its parts.
 *
 * I1  Losses and counters are written in backward only: forward may be replayed.
 * I2  Every buffer is written once (or added to in a row), so that a replay makes it again.
 * I3  Overlap is order of issue: a message starts where it stands, and is waited for where it is
 *     first used. What stands between runs beside it.
 * I4  In chunks, the norm and the router with its losses and its capacity see all tokens; what is
 *     dispatched, computed and combined is of a chunk, and goes to its rows of one buffer. The
 *     shared expert comes behind, chunk by chunk. So a token's sums are of the same numbers in the
 *     same order. */
#include "ir/build/moe.h"

bool moe_is_local(const builder *b)
{
    return b->s->lay.ep * b->s->lay.etp == 1;
}

const moe_steps *moe_steps_of(const builder *b)
{
    static const moe_steps *const all[DISPATCHERS] = {
#define DISPATCHER(id, name, title, steps, ...) [DISPATCHER_##id] = &steps,
#include "job/dispatchers.def"
    };
    return moe_is_local(b) ? &moe_local : all[dispatcher_of(&b->s->j) - dispatchers];
}

static flow take(moe_step *step, builder *b, moe_bufs *t, flow f)
{
    return step ? step(b, t, f) : f;
}

/* Is the shared expert computed beside messages? Without messages it comes last, before dispatch it
 * comes first. */
typedef enum shared_place { SHARED_NONE, SHARED_FIRST, SHARED_ASYNC, SHARED_LAST } shared_place;

static shared_place place_of_shared(const builder *b)
{
    if (!b->block->moe.shared_ffn) return SHARED_NONE;
    if (moe_is_local(b)) return SHARED_LAST;
    return b->s->j.shared_overlap ? SHARED_ASYNC : SHARED_FIRST;
}

static void none_yet(builder *b, moe_bufs *t)
{
    *t = (moe_bufs){.keep = NONE, .demand = NONE, .demand3 = NONE, .kept = NONE};
    t->ep = t->etp = t->sums = t->hop1 = t->fan = t->hop2 = NONE;
    t->out = t->dn = t->dp = NONE;
    t->capacity = moe_capacity(b);
    t->pad = b->s->j.pad_capacity ? t->capacity : 0;
}

/* From tokens and their weights to the experts' sums, [T][H]. `shared`: the shared expert's, where
 * it is computed here. */
static int routed_forward(builder *b, moe_bufs *t, int x, shared_place place, int *shared)
{
    const moe_steps *d = moe_steps_of(b);
    flow f = take(d->pack, b, t, (flow){x, t->probs});
    if (place == SHARED_FIRST) shared_forward_first(b, t), *shared = shared_forward_second(b, t);
    b->node = NODE_DISPATCH;
    f = take(d->send, b, t, f);
    if (place == SHARED_ASYNC) shared_forward_first(b, t); /* I3 */
    b->node = NODE_MLP;
    take(d->place, b, t, f);
    f = take(d->lift, b, t, (flow){experts_forward(b, t), NONE});
    b->node = NODE_COMBINE;
    f = take(d->reply, b, t, f);
    if (place == SHARED_ASYNC) *shared = shared_forward_second(b, t); /* I3 */
    return take(d->join, b, t, f).x;
}

/* A chunk's own: its rows of what the router chose. */
static moe_bufs part_of(builder *b, const moe_bufs *t, const token_chunk *c)
{
    int64_t K = b->block->moe.topk;
    moe_bufs part = *t;
    part.norm.y = chunk_rows(b, c, t->norm.y, b->s->m.hidden);
    part.probs = chunk_rows(b, c, t->probs, K);
    part.ids = chunk_rows(b, c, t->ids, K);
    part.keep = chunk_rows(b, c, t->keep, K);
    return part;
}

/* To the chunk's rows, unless the last step wrote it there. */
static void bring(builder *b, int phase, int from, int to, int64_t n)
{
    if (from != to) seg_op(b, phase, OP_COPY, "moe.chunk", IN(from), OUT(to), DIM(n));
}

static int chunks_forward(builder *b, moe_bufs *t, int64_t n)
{
    int64_t H = b->s->m.hidden;
    int out = seg_temp(b, "moe.out", b->T * H);
    t->parts = ARENA_ARRAY(b->a, moe_bufs, n);
    for (int64_t i = 0; i < n; i++) {
        moe_bufs *part = &t->parts[i];
        token_chunk c = chunk_enter(b, i);
        *part = part_of(b, t, &c);
        part->out = chunk_rows(b, &c, out, H);
        int y = routed_forward(b, part, part->norm.y, SHARED_NONE, NULL);
        bring(b, SEG_FORWARD, y, part->out, b->T * H);
        chunk_leave(b, &c);
    }
    return out;
}

/* The shared expert, added to the chunks' rows. */
static void shared_chunks_forward(builder *b, moe_bufs *t, shared_place place, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        moe_bufs *part = &t->parts[i];
        token_chunk c = chunk_enter(b, i);
        shared_forward_first(b, part);
        if (place == SHARED_LAST) {
            shared_forward_add(b, part, part->out);
        } else {
            int y = shared_forward_second(b, part);
            seg_op(b, SEG_FORWARD, OP_ADD, "shared.add", IN(part->out, y), OUT(part->out),
                   DIM(b->T * b->s->m.hidden));
        }
        chunk_leave(b, &c);
    }
}

void moe_forward(builder *b, moe_bufs *t, int h, int y)
{
    shared_place place = place_of_shared(b);
    int64_t T = b->T, H = b->s->m.hidden, n = chunk_count(b);
    int shared = NONE, out;
    b->module = MODULE_MOE;
    none_yet(b, t);
    t->norm = norm_forward(b, &(norm_shape){"moe.norm", "pre_mlp_layernorm.weight", T, H}, h,
                           DROP_LAYERNORM);
    router_forward(b, t);
    if (n > 1) {
        out = chunks_forward(b, t, n); /* I4 */
        if (place != SHARED_NONE) shared_chunks_forward(b, t, place, n);
    } else {
        out = routed_forward(b, t, t->norm.y, place, &shared);
        if (place == SHARED_LAST) shared_forward_first(b, t), shared_forward_add(b, t, out);
    }
    if (shared != NONE)
        seg_op(b, SEG_FORWARD, OP_ADD, "shared.add", IN(out, shared), OUT(out), DIM(T * H));
    seg_op(b, SEG_FORWARD, OP_ADD, "moe.residual", IN(h, out), OUT(y), DIM(T * H));
    b->node = NODE_ATTN;
}

/* ---- backward */

/* From the gradient of the sum to that of tokens and weights of the router. `beside` is the shared
 * expert's gradient by its input where it was computed beside messages; `g` NULL: not here. */
static flow routed_backward(builder *b, moe_bufs *t, int dh, shared_grads *g, int *beside)
{
    const moe_steps *d = moe_steps_of(b);
    bool overlap = g && place_of_shared(b) == SHARED_ASYNC;
    bool late = !moe_is_local(b) && b->s->j.dispatch_wgrad;
    b->node = NODE_COMBINE;
    flow f = take(d->join_d, b, t, (flow){dh, NONE});
    f = take(d->reply_d, b, t, f);
    if (overlap) *g = shared_backward_second(b, t, dh); /* I3 */
    b->node = NODE_MLP;
    f = take(d->lift_d, b, t, f);
    expert_grads e = experts_backward(b, t, f.x, late);
    f = take(d->place_d, b, t, (flow){e.dx, e.dp});
    b->node = NODE_DISPATCH;
    f = take(d->send_d, b, t, f);
    b->node = NODE_MLP;
    if (late) experts_weights(b, t, &e); /* I3 */
    b->node = NODE_ATTN;
    if (overlap) {
        *beside = seg_temp(b, "shared.dx", b->T * b->s->m.hidden);
        shared_backward_first(b, t, g, *beside, false); /* I3 */
    }
    return take(d->pack_d, b, t, f);
}

static flow chunks_backward(builder *b, moe_bufs *t, int dh, int64_t n)
{
    int64_t T = b->T, H = b->s->m.hidden, K = b->block->moe.topk;
    flow d = {seg_temp(b, "moe.dn", T * H), seg_temp_as(b, "router.dprobs", T * K, DTYPE_F32)};
    for (int64_t i = 0; i < n; i++) {
        moe_bufs *part = &t->parts[i];
        token_chunk c = chunk_enter(b, i);
        part->dn = chunk_rows(b, &c, d.x, H);
        part->dp = chunk_rows(b, &c, d.p, K);
        flow f = routed_backward(b, part, chunk_rows(b, &c, dh, H), NULL, NULL);
        bring(b, SEG_BACKWARD, f.x, part->dn, b->T * H);
        bring(b, SEG_BACKWARD, f.p, part->dp, b->T * K);
        chunk_leave(b, &c);
    }
    return d;
}

/* Rows that routed buffers were asked to take. */
static void note_demand(builder *b, const moe_bufs *t)
{
    if (t->demand == NONE && t->demand3 == NONE) return;
    int most = seg_layer_step(b, STEP_OVERFLOW, 2);
    if (t->demand3 != NONE)
        seg_op(b, SEG_BACKWARD, OP_DEMAND, "dispatch.demand", IN(t->demand3), OUT(most), DIM(3));
    if (t->demand != NONE)
        seg_op(b, SEG_BACKWARD, OP_DEMAND, "dispatch.demand", IN(t->demand), OUT(most), DIM(1));
}

static void shared_chunks_backward(builder *b, moe_bufs *t, int dh, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const moe_bufs *part = &t->parts[i];
        token_chunk c = chunk_enter(b, i);
        shared_grads g = shared_backward_second(b, part, chunk_rows(b, &c, dh, b->s->m.hidden));
        shared_backward_gate(b, part, &g, part->dn);
        shared_backward_first(b, part, &g, part->dn, true);
        chunk_leave(b, &c);
    }
}

void moe_backward(builder *b, const moe_bufs *bufs, int dh)
{
    moe_bufs t = *bufs;
    shared_grads g = {NONE, NONE};
    int beside = NONE;
    b->module = MODULE_MOE;
    int64_t n = chunk_count(b);
    flow d = n > 1 ? chunks_backward(b, &t, dh, n) : routed_backward(b, &t, dh, &g, &beside);
    for (int64_t i = 0; i < n; i++) note_demand(b, n > 1 ? &t.parts[i] : &t); /* I1 */
    router_backward(b, &t, d);
    if (b->block->moe.shared_ffn && n > 1) {
        shared_chunks_backward(b, &t, dh, n);
    } else if (b->block->moe.shared_ffn) {
        if (beside == NONE) g = shared_backward_second(b, &t, dh);
        shared_backward_gate(b, &t, &g, d.x);
        if (beside == NONE)
            shared_backward_first(b, &t, &g, d.x, true);
        else
            seg_op(b, SEG_BACKWARD, OP_ADD, "shared.add", IN(d.x, beside), OUT(d.x),
                   DIM(b->T * b->s->m.hidden));
    }
    norm_backward(b, &t.norm, d.x, dh, true);
}

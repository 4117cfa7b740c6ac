/* pair.c - combined 1F1B: the forward of one layer and the backward of another, node by node.
 *
 * The two are independent chains. This file only chooses the order of issue, so that the messages
 * of one overlap with the GEMMs of the other.
 *
 *     combine B | attention F | dispatch F | experts B | dispatch B | experts' weights B
 *     | experts F | combine F | attention B | attention's weights B | what follows combine F
 *
 * Each stream has Megatron's order (attention F, experts B, experts' weights B, experts F,
 * attention B; combine B, dispatch F, dispatch B, combine F). A message is issued as soon as its
 * data are computed. That matters where a GEMM is finished when its call returns (CPUs): a message
 * that is issued after it also starts after it.
 *
 * I1  Inside a chain the order of nodes stays that of its list. An operation that comes after one
 *     of a later node belongs to that node. A replayed operation or a copy from the host belongs to
 *     the node of the operation that follows it.
 * I2  A delayed weight gradient reads the same data as in its original place. If its input is
 *     overwritten in between, it reads a copy. */
#include <string.h>

#include "ir/segment.h"

enum { STEPS = NODE_COUNT };

/* Which node comes when. */
static const int forward_step[NODE_COUNT] = {
    [NODE_ATTN] = 0, [NODE_DISPATCH] = 1, [NODE_MLP] = 2, [NODE_COMBINE] = 3, [NODE_POST] = 4};
static const int backward_step[NODE_COUNT] = {
    [NODE_POST] = 0, [NODE_COMBINE] = 1, [NODE_MLP] = 2, [NODE_DISPATCH] = 3, [NODE_ATTN] = 4};

typedef struct half {
    const segment *seg;
    const op *list;
    int n, shift;  /* what its buffer numbers are shifted by */
    int *step;     /* [n] when each operation's node comes */
    bool *delayed; /* [n] */
} half;

typedef struct merge {
    segment *out;
    arena *a;
    int room;
} merge;

/* ---- nodes */

static void find_steps(half *h, const int *table)
{
    int step = 0;
    for (int i = 0; i < h->n; i++) { /* I1 */
        int first = i;
        while (i < h->n - 1 &&
               (h->list[i].phase == PHASE_RECOMPUTE || h->list[i].kind == OP_COPY_IN))
            i++;
        int own = table[h->list[i].node];
        if (own > step) step = own;
        for (int k = first; k <= i; k++) h->step[k] = step;
    }
}

/* What follows the last message of combine need not stand beside it. */
static void post_after_combine(half *h)
{
    int i = h->n;
    while (i > 0 &&
           !(op_is_comm(h->list[i - 1].kind) && h->step[i - 1] == forward_step[NODE_COMBINE]))
        i--;
    for (; i > 0 && i < h->n; i++) h->step[i] = forward_step[NODE_POST];
}

static half half_of(const segment *seg, int phase, int shift, arena *a)
{
    half h = {.seg = seg, .shift = shift};
    if (!seg) return h;
    h.list = seg->bare[phase] ? seg->bare[phase] : seg->ops[phase];
    h.n = seg->bare[phase] ? seg->n_bare[phase] : seg->n_ops[phase];
    h.step = ARENA_ARRAY(a, int, h.n + 1);
    h.delayed = ARENA_ARRAY(a, bool, h.n + 1);
    find_steps(&h, phase == SEG_FORWARD ? forward_step : backward_step);
    if (phase == SEG_FORWARD) post_after_combine(&h);
    return h;
}

/* ---- the list */

static op *put(merge *m, const op *o, int shift)
{
    segment *out = m->out;
    op *made = &out->ops[0][out->n_ops[0]++];
    *made = *o;
    for (int i = 0; i < OP_IN_MAX; i++)
        if (made->in[i] >= 0) made->in[i] += shift;
    for (int i = 0; i < OP_OUT_MAX; i++)
        if (made->out[i] >= 0) made->out[i] += shift;
    return made;
}

static void put_step(merge *m, const half *h, int step)
{
    for (int i = 0; i < h->n; i++)
        if (h->step[i] == step) put(m, &h->list[i], h->shift);
}

static bool written_later(const half *h, int from, int id)
{
    for (int i = from + 1; i < h->n; i++)
        for (int k = 0; k < OP_OUT_MAX; k++)
            if (!h->delayed[i] && h->list[i].out[k] >= 0 &&
                seg_root(h->seg, h->list[i].out[k]) == seg_root(h->seg, id))
                return true;
    return false;
}

static int add_copy(merge *m, int of)
{
    buf made = m->out->bufs[of];
    made.life = LIFE_TEMP;
    made.parent = NONE;
    made.offset[0] = made.offset[1] = -1;
    m->out->bufs[m->out->n_bufs] = made;
    return m->out->n_bufs++;
}

/* The delayed operations of a step; copies of what they read were taken in put_copies (I2). */
typedef struct copies {
    int *of; /* [n][OP_IN_MAX] by operation of the half: the copy, or -1 */
} copies;

static copies plan_copies(merge *m, const half *h)
{
    copies c = {ARENA_ARRAY(m->a, int, h->n *OP_IN_MAX + 1)};
    for (int i = 0; i < h->n * OP_IN_MAX; i++) c.of[i] = NONE;
    for (int i = 0; i < h->n; i++) {
        if (!h->delayed[i]) continue;
        for (int k = 0; k < OP_IN_MAX; k++) {
            int id = h->list[i].in[k];
            if (id >= 0 && written_later(h, i, id))
                c.of[i * OP_IN_MAX + k] = add_copy(m, id + h->shift);
        }
    }
    return c;
}

/* A step of the backward half: copies are taken where the delayed operations stood. */
static void put_backward(merge *m, const half *h, const copies *c, int step)
{
    for (int i = 0; i < h->n; i++) {
        if (h->step[i] != step) continue;
        if (!h->delayed[i]) put(m, &h->list[i], h->shift);
        for (int k = 0; h->delayed[i] && k < OP_IN_MAX; k++) {
            int copy = c->of[i * OP_IN_MAX + k];
            if (copy == NONE) continue;
            op *o = put(m, &h->list[i], h->shift);
            *o = (op){.kind = OP_COPY,
                      .phase = PHASE_BACKWARD,
                      .node = o->node,
                      .name = "kept for the weight gradient",
                      .module = o->module};
            for (int n = 0; n < OP_IN_MAX; n++) o->in[n] = NONE;
            for (int n = 0; n < OP_OUT_MAX; n++) o->out[n] = NONE;
            o->in[IN_COPY_a] = h->list[i].in[k] + h->shift;
            o->out[OUT_COPY_y] = copy;
            o->dim[DIM_COPY_N] = dtype_elements(m->out->bufs[copy].type, m->out->bufs[copy].bytes);
        }
    }
}

static void put_delayed(merge *m, const half *h, const copies *c, int step)
{
    for (int i = 0; i < h->n; i++) {
        if (h->step[i] != step || !h->delayed[i]) continue;
        op *o = put(m, &h->list[i], h->shift);
        for (int k = 0; k < OP_IN_MAX; k++)
            if (c->of[i * OP_IN_MAX + k] != NONE) o->in[k] = c->of[i * OP_IN_MAX + k];
    }
}

static void join_bufs(segment *out, const segment *f, const segment *b)
{
    int nf = f ? f->n_bufs : 0, nb = b ? b->n_bufs : 0;
    if (nf) memcpy(out->bufs, f->bufs, sizeof *out->bufs * (size_t)nf);
    if (nb) memcpy(out->bufs + nf, b->bufs, sizeof *out->bufs * (size_t)nb);
    for (int i = nf; i < nf + nb; i++) {
        out->bufs[i].owner = 1;
        if (out->bufs[i].parent >= 0) out->bufs[i].parent += nf;
    }
    for (int i = 0; i < nf + nb; i++)
        if (out->bufs[i].life == LIFE_TEMP) out->bufs[i].offset[0] = out->bufs[i].offset[1] = -1;
    out->n_bufs = nf + nb;
}

void segment_pair(segment *out, const segment *f, const segment *b, pair_options o, arena *a)
{
    int nf = f ? f->n_bufs : 0;
    half hf = half_of(f, SEG_FORWARD, 0, a), hb = half_of(b, SEG_BACKWARD, nf, a);
    for (int i = 0; o.delay && i < hb.n; i++) hb.delayed[i] = hb.list[i].phase == PHASE_WGRAD;
    int kept = o.delay ? hb.n * OP_IN_MAX : 0; /* copies at most */
    int room = hf.n + hb.n + kept;
    *out = (segment){.kind = SEGMENT_PAIR, .name = segment_names[SEGMENT_PAIR], .n_layers = 1};
    out->dropped = f ? f->dropped : 0;
    out->bufs_room = nf + (b ? b->n_bufs : 0) + kept + 1;
    out->bufs = ARENA_RAW(a, buf, out->bufs_room);
    out->ops[0] = ARENA_RAW(a, op, room + 1);
    out->ops_room[0] = room + 1;
    join_bufs(out, f, b);
    merge m = {out, a, room};
    copies c = plan_copies(&m, &hb);
    put_backward(&m, &hb, &c, 0);
    put_backward(&m, &hb, &c, 1);
    put_step(&m, &hf, 0);
    put_step(&m, &hf, 1);
    put_backward(&m, &hb, &c, 2);
    put_backward(&m, &hb, &c, 3);
    put_delayed(&m, &hb, &c, 2);
    if (o.early) put_backward(&m, &hb, &c, 4);
    put_step(&m, &hf, 2);
    put_step(&m, &hf, 3);
    if (!o.early) put_backward(&m, &hb, &c, 4);
    for (int step = 0; step < STEPS; step++)
        if (step != 2) put_delayed(&m, &hb, &c, step);
    put_step(&m, &hf, 4);
    if (o.unplanned) return;
    segment_fit_temporaries(out, a);
    segment_waits(out, a);
}

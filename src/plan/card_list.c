/* card_list.c - finds the waits of a list of operations whose buffers share no memory.
 *
 * I1  The result is that of waits.c, without the waits that are due to temporaries sharing memory.
 *     Both call the same function (wait_finder.h).
 * I2  At most WAITS_MAX waits are kept. Leaving some out only makes bounds lower. */
#include "plan/card_list.h"

typedef struct ids {
    const int *id;
    int n;
    bool written;
} ids;

static void add_touches(event_list *l, event *e, const segment *seg, ids of)
{
    for (int i = 0; i < of.n; i++) {
        if (of.id[i] < 0) continue;
        const buf *b = &seg->bufs[of.id[i]];
        bool view = b->parent >= 0;
        int64_t at = view ? b->view_at : 0;
        *l->free++ = (touch){.space = view ? b->parent : of.id[i],
                             .written = of.written,
                             .start = at,
                             .end = at + b->bytes};
        e->t.n++;
    }
}

static void find_waits(event_list *l, event *e, const op *o) /* I1 */
{
    int n = wait_finder_next(&l->finder, o, e->t, l->found);
    for (int i = 0; i < n && e->n_waits < WAITS_MAX; i++) {
        int other = l->found[i] - 1; /* events are numbered from 1 on */
        e->waits[e->n_waits++] = other;
        e->early = e->early && l->e[other].early;
    }
}

/* Most bytes of temporaries that live at once, from their first operation to their last. */
static int64_t most_alive(const event_list *l, const segment *seg, arena *a)
{
    int *last = ARENA_ARRAY(a, int, seg->n_bufs + 1);
    bool *born = ARENA_ARRAY(a, bool, seg->n_bufs + 1);
    int64_t alive = 0, most = 0;
    for (int i = 0; i < l->n; i++)
        for (int k = 0; k < l->e[i].t.n; k++) last[l->e[i].t.list[k].space] = i;
    for (int i = 0; i < l->n; i++) {
        const event *e = &l->e[i];
        for (int k = 0; k < e->t.n; k++) {
            int root = e->t.list[k].space;
            if (seg->bufs[root].life != LIFE_TEMP || born[root]) continue;
            born[root] = true;
            alive += seg->bufs[root].bytes;
        }
        if (alive > most) most = alive;
        for (int k = 0; k < e->t.n; k++) {
            int root = e->t.list[k].space;
            if (seg->bufs[root].life != LIFE_TEMP || !born[root] || last[root] != i) continue;
            last[root] = -1;
            alive -= seg->bufs[root].bytes;
        }
    }
    return most;
}

static int count_touches(const segment *seg, int phase)
{
    int n = 0;
    for (int i = 0; i < seg->n_ops[phase]; i++) {
        const op *o = &seg->ops[phase][i];
        for (int k = 0; k < OP_IN_MAX; k++) n += o->in[k] >= 0;
        for (int k = 0; k < OP_OUT_MAX; k++) n += o->out[k] >= 0;
    }
    return n;
}

void event_list_fill(event_list *l, const cost_model c[2], const segment *seg, int phase, arena *a)
{
    l->e = ARENA_RAW(a, event, seg->n_ops[phase] + 1);
    l->free = ARENA_RAW(a, touch, count_touches(seg, phase) + 1);
    l->found = ARENA_RAW(a, int, seg->n_ops[phase] + STREAM_COUNT);
    wait_finder_init(&l->finder, seg->n_ops[phase], a);
    for (int i = 0; i < seg->n_ops[phase]; i++) {
        const op *o = &seg->ops[phase][i];
        event *e = &l->e[l->n];
        e->n_waits = 0;
        for (int step = 0; step < 2; step++)
            e->cost[step] = step && !l->steps ? e->cost[0] : cost_of(&c[step], seg, o);
        e->lane = simulation_lane(c, o);
        e->passed = cost_passes_on(c, seg, o);
        e->early = op_is_comm(o->kind) || e->passed;
        e->t = (touched){l->free, 0};
        add_touches(l, e, seg, (ids){o->in, OP_IN_MAX, false});
        add_touches(l, e, seg, (ids){o->out, OP_OUT_MAX, true});
        find_waits(l, e, o);
        l->n++;
        if (e->passed) e->n_waits = 0;
        cost_kind kind = e->cost[0].kind;
        if (kind == COST_GEMM || kind == COST_GROUPED) l->flops += op_flops(o);
    }
    l->temp = most_alive(l, seg, a);
}

/* card_list.c - what waits for what in a list whose buffers share no memory.
 *
 * I1  These are waits.c's, less those that places of temporaries add: the compute stream waits for
 *     a message once; a message for what it needs, and for the last operation of the compute stream
 *     that it conflicts with.
 * I2  What is left out for want of room (WAITS_MAX, FLIGHT_MAX) only makes bounds lower. */
#include "search/card_list.h"

typedef struct ids {
    const int *id;
    int n;
    bool written;
} ids;

static void add_parts(event_list *l, event *e, const segment *seg, ids of)
{
    for (int i = 0; i < of.n; i++) {
        if (of.id[i] < 0) continue;
        const buf *b = &seg->bufs[of.id[i]];
        bool view = b->parent >= 0;
        int64_t at = view ? b->view_at : 0;
        event_part *p = l->parts++;
        *p = (event_part){.at = {.space = view ? b->parent : of.id[i],
                                 .written = of.written,
                                 .start = at,
                                 .end = at + b->bytes},
                          .event = l->n};
        e->n_parts++;
        if (e->message) continue;
        p->before = l->touched[p->at.space];
        l->touched[p->at.space] = p;
    }
}

static bool conflict(const event *a, const event *b)
{
    for (int i = 0; i < a->n_parts; i++)
        for (int k = 0; k < b->n_parts; k++)
            if (touch_conflict(&a->parts[i].at, &b->parts[k].at)) return true;
    return false;
}

/* The last operation of the compute stream that a message conflicts with; -1: none. */
static int last_conflict(const event_list *l, const event *e)
{
    int last = -1;
    for (int i = 0; i < e->n_parts; i++) {
        const event_part *p = l->touched[e->parts[i].at.space];
        while (p && p->event > last && !touch_conflict(&p->at, &e->parts[i].at)) p = p->before;
        if (p && p->event > last) last = p->event;
    }
    return last;
}

static void add_wait(event_list *l, event *e, int other)
{
    if (e->n_waits == WAITS_MAX) return;
    e->waits[e->n_waits++] = other;
    e->early = e->early && l->e[other].early;
}

/* The compute stream waits for a message once; a message for what it needs, and for the last
 * operation of the compute stream that it conflicts with. */
static void find_waits(event_list *l, event *e, int at)
{
    int kept = 0;
    for (int i = 0; i < l->n_flight; i++) {
        bool waits = conflict(&l->e[l->flight[i]], e);
        if (waits) add_wait(l, e, l->flight[i]);
        if (!waits || e->message) l->flight[kept++] = l->flight[i];
    }
    l->n_flight = kept;
    int last = e->message ? last_conflict(l, e) : -1;
    if (last >= 0) add_wait(l, e, last);
    if (e->message && l->n_flight < FLIGHT_MAX) l->flight[l->n_flight++] = at;
}

/* Most bytes of temporaries that live at once, from their first operation to their last. */
static int64_t most_alive(const event_list *l, const segment *seg, arena *a)
{
    int *last = ARENA_ARRAY(a, int, seg->n_bufs + 1);
    bool *born = ARENA_ARRAY(a, bool, seg->n_bufs + 1);
    int64_t alive = 0, most = 0;
    for (int i = 0; i < l->n; i++)
        for (int k = 0; k < l->e[i].n_parts; k++) last[l->e[i].parts[k].at.space] = i;
    for (int i = 0; i < l->n; i++) {
        const event *e = &l->e[i];
        for (int k = 0; k < e->n_parts; k++) {
            int root = e->parts[k].at.space;
            if (seg->bufs[root].life != LIFE_TEMP || born[root]) continue;
            born[root] = true;
            alive += seg->bufs[root].bytes;
        }
        if (alive > most) most = alive;
        for (int k = 0; k < e->n_parts; k++) {
            int root = e->parts[k].at.space;
            if (seg->bufs[root].life != LIFE_TEMP || !born[root] || last[root] != i) continue;
            last[root] = -1;
            alive -= seg->bufs[root].bytes;
        }
    }
    return most;
}

static int count_parts(const segment *seg, int phase)
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
    l->parts = ARENA_RAW(a, event_part, count_parts(seg, phase) + 1);
    l->touched = (const event_part **)ARENA_ARRAY(a, event_part *, seg->n_bufs + 1);
    for (int i = 0; i < seg->n_ops[phase]; i++) {
        const op *o = &seg->ops[phase][i];
        event *e = &l->e[l->n];
        e->n_parts = e->n_waits = 0;
        for (int step = 0; step < 2; step++)
            e->cost[step] = step && !l->steps ? e->cost[0] : cost_of(&c[step], seg, o);
        e->lane = play_lane(c, o);
        e->message = op_is_comm(o->kind);
        e->passed = cost_passes_on(c, seg, o);
        e->early = e->message || e->passed;
        e->parts = l->parts;
        add_parts(l, e, seg, (ids){o->in, OP_IN_MAX, false});
        add_parts(l, e, seg, (ids){o->out, OP_OUT_MAX, true});
        l->parts_held |= e->cost[0].part;
        find_waits(l, e, l->n++);
        if (e->passed) e->n_waits = 0;
        cost_kind kind = e->cost[0].kind;
        if (kind == COST_GEMM || kind == COST_GROUPED) l->flops += op_flops(o);
    }
    l->temp = most_alive(l, seg, a);
}

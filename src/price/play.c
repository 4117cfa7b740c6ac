/* play.c - a list of operations played over its streams.
 *
 * I1  An operation starts when its stream is free, when the host has launched it, and when what its
 *     stream waits for is complete.
 * I2  What the compute stream loses is told apart: it waited for a message or a copy (exposed), or
 *     for the host.
 * I3  Where Megatron runs, each kind of message has a stream of its own (ours share one), and what
 *     stands between the two hops of a dispatch is part of its kernel: compute does not wait there,
 *     and rows are passed on while more arrive. */
#include <string.h>

#include "price/price.h"

enum { EVENTS_MAX = 8192 };

typedef struct play {
    const cost_model *c;
    const op_cost *costs; /* by place in the list */
    played *out;
    double stream[PLAY_LANES], host;
    double pace;                                   /* of the host: 0, or 1 */
    double launched[EVENTS_MAX], done[EVENTS_MAX]; /* by event */
    cost_kind kind[EVENTS_MAX];
    bool message[EVENTS_MAX];
    const watcher *watch;
    const op *by[EVENTS_MAX]; /* whose event it is; only for a watcher */
} play;

static void tell(const play *p, seen_op s)
{
    if (s.end > s.start) p->watch->see(p->watch->to, &s);
}

/* The lane of operation `o`, or of a WAIT before it (I3). */
int play_lane(const cost_model *c, const op *o)
{
    bool own = c->hw->framework > 0 && o->stream == STREAM_COMM && op_is_comm(o->kind);
    return own ? STREAM_COUNT + (int)cost_kind_of(o->group) : (int)o->stream;
}

/* What a lane loses before it goes on: first to the host, then to what it waits for. */
static void tell_wait(const play *p, int64_t e, int slot)
{
    double now = p->stream[slot], host = p->launched[e] > now ? p->launched[e] : now;
    bool exposed = slot == STREAM_COMPUTE && p->message[e];
    seen_op s = {.o = p->by[e], .kind = p->kind[e], .lane = slot, .start = now, .end = host};
    s.as = SEEN_HOST;
    if (exposed) tell(p, s);
    s.as = exposed ? SEEN_EXPOSED : SEEN_STREAM;
    s.start = exposed ? host : now;
    s.end = p->done[e];
    tell(p, s);
}

static void wait_for(play *p, const op *o, int slot)
{
    int64_t e = o->dim[DIM_WAIT_EVENT];
    double now = p->stream[slot];
    if (e >= EVENTS_MAX || p->done[e] <= now) return;
    if (p->watch) tell_wait(p, e, slot);
    if (slot == STREAM_COMPUTE && p->message[e]) { /* I2 */
        double late = p->launched[e] > now ? p->launched[e] - now : 0;
        p->out->host += late;
        p->out->exposed[p->kind[e]] += p->done[e] - now - late;
    }
    p->stream[slot] = p->done[e];
}

static void run(play *p, const op *o, op_cost cost)
{
    int slot = play_lane(p->c, o);
    p->host += (p->c->captured & cost.part ? cost.replayed : cost.eager) * p->pace;
    bool here = op_is_copy(o->kind) && !p->c->copies_beside;
    if (here) slot = STREAM_COMPUTE;
    double free = p->stream[slot], start = free > p->host ? free : p->host; /* I1 */
    if (slot == STREAM_COMPUTE) p->out->host += start - free;               /* I2 */
    double end = start + cost.seconds;
    if (p->watch) {
        tell(p, (seen_op){.o = o, .as = SEEN_HOST, .lane = slot, .start = free, .end = start});
        tell(p, (seen_op){.o = o, .kind = cost.kind, .lane = slot, .start = start, .end = end});
    }
    p->stream[slot] = end;
    if (here) p->out->exposed[COST_COPY] += cost.seconds;
    p->out->busy[cost.kind] += cost.seconds - cost.quantise;
    p->out->busy[COST_QUANTISE] += cost.quantise;
    if (o->event >= EVENTS_MAX) return;
    p->launched[o->event] = p->host;
    p->done[o->event] = end;
    p->kind[o->event] = cost.kind;
    p->message[o->event] = op_is_beside(o->kind);
    if (p->watch) p->by[o->event] = o;
}

/* Messages that run beside products take their share of the chip. */
static double share_of_messages(const play *p)
{
    double taken = 0;
    for (int k = COST_TP; k <= COST_DP; k++)
        taken += (p->out->busy[k] - p->out->exposed[k]) * p->c->share[k];
    return taken > 0 ? taken : 0;
}

/* Plays operation i with the WAITs before it. Returns the place of the next. */
static int play_next(play *p, const segment *seg, int phase, int i)
{
    const op *ops = seg->ops[phase];
    int n = seg->n_ops[phase], at = i;
    while (at < n && ops[at].kind == OP_WAIT) at++;
    const op *o = at < n ? &ops[at] : NULL;
    if (o && cost_passes_on(p->c, seg, o)) return at + 1; /* I3 */
    for (; i < at; i++)
        wait_for(p, &ops[i],
                 o && o->stream == ops[i].stream ? play_lane(p->c, o) : (int)ops[i].stream);
    if (o) run(p, o, p->costs[at]);
    return at + 1;
}

void play_costs(op_cost *costs, const cost_model *c, const segment *seg, int phase)
{
    for (int i = 0; i < seg->n_ops[phase]; i++) costs[i] = cost_of(c, seg, &seg->ops[phase][i]);
}

void play_list(played *out, const cost_model *c, const segment *seg, int phase, arena *a)
{
    arena_place mark = arena_mark(a);
    op_cost *costs = ARENA_RAW(a, op_cost, seg->n_ops[phase] + 1);
    play_costs(costs, c, seg, phase);
    play_with(out, c, seg, phase, (play_as){costs, true, NULL});
    arena_release(a, mark);
}

/* What lies between compute's last operation and the list's end. */
static void tell_end(const play *p, const played *l)
{
    double end = l->seconds - l->slowed;
    tell(p, (seen_op){.as = SEEN_END, .start = p->stream[STREAM_COMPUTE], .end = end});
    tell(p, (seen_op){.as = SEEN_SLOWED, .start = end, .end = l->seconds});
}

void play_with(played *out, const cost_model *c, const segment *seg, int phase, play_as as)
{
    static _Thread_local play p; /* large, and used again and again */
    *out = (played){0};
    p.c = c;
    p.costs = as.costs;
    p.pace = as.launching;
    p.watch = as.watch;
    p.out = out;
    p.host = 0;
    memset(p.stream, 0, sizeof p.stream);
    int n = seg->n_ops[phase];
    for (int i = 0; i < n && i < EVENTS_MAX; i++) p.done[i] = 0;
    for (int i = 0; i < n;) i = play_next(&p, seg, phase, i);
    for (int s = 0; s < PLAY_LANES; s++)
        if (p.stream[s] > out->seconds) out->seconds = p.stream[s];
    out->slowed = share_of_messages(&p);
    out->seconds += out->slowed;
    if (p.watch) tell_end(&p, out);
}

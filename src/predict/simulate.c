/* simulate.c - a list of operations played over its streams.
 *
 * I1  An operation starts when its stream is free, when the host has launched it, and when what its
 *     stream waits for is complete.
 * I2  What the compute stream loses is told apart: it waited for a message or a copy (exposed), or
 *     for the host.
 * I3  Where Megatron runs, each kind of message has a stream of its own (ours share one), and what
 *     stands between the two hops of a dispatch is part of its kernel: compute does not wait there,
 *     and rows are passed on while more arrive.
 * I4  Lists of a step repeat, and the host's lead is carried from each to the next: a list takes
 *     what it takes in a long row of its like. Times are maxima of sums, so two numbers are the
 *     state between lists, when the host and when the device are done, and a list maps them by
 *     four: device to device (a), host to device (b), host to host (c), and, where the host reads
 *     counts back, device to host (e). In a long row each takes max(a, c, (b + e) / 2).
 * I5  The host launches a dispatch once it has read the counts that were made for it.
 * I6  On CPUs launching is calling: there is no lead. */
#include <string.h>

#include "predict/price.h"

/* What an operation with this event left. */
typedef struct simulated_event {
    double launched, done;
    const op *by; /* only for a watcher */
    cost_kind kind;
    bool message;
} simulated_event;

typedef struct simulation {
    const cost_model *c;
    const op_cost *costs; /* by place in the list */
    simulated *out;
    double stream[PLAY_LANES], host;
    double pace;       /* of the host: 0, or 1 */
    double counted[2]; /* by owner: counts are there (I5) */
    unsigned graph;    /* inside a replay of captured parts? */
    const watcher *watch;
    simulated_event *events; /* [n_events]; those of other lists are done before this one starts */
    int n_events;
} simulation;

static void tell(const simulation *p, seen_op s)
{
    if (s.end > s.start) p->watch->see(p->watch->to, &s);
}

/* The lane of operation `o`, or of a WAIT before it (I3). */
int simulation_lane(const cost_model *c, const op *o)
{
    bool own = c->hw->framework > 0 && o->stream == STREAM_COMM && op_is_comm(o->kind);
    return own ? STREAM_COUNT + (int)cost_kind_of(o->group) : (int)o->stream;
}

/* What a lane loses before it goes on: first to the host, then to what it waits for. */
static void tell_wait(const simulation *p, const simulated_event *e, int slot)
{
    double now = p->stream[slot], host = e->launched > now ? e->launched : now;
    bool exposed = slot == STREAM_COMPUTE && e->message;
    seen_op s = {.o = e->by, .kind = e->kind, .lane = slot, .start = now, .end = host};
    s.as = SEEN_HOST;
    if (exposed) tell(p, s);
    s.as = exposed ? SEEN_EXPOSED : SEEN_STREAM;
    s.start = exposed ? host : now;
    s.end = e->done;
    tell(p, s);
}

static void wait_for(simulation *p, const op *o, int slot)
{
    int64_t at = o->dim[DIM_WAIT_EVENT];
    double now = p->stream[slot];
    if (at >= p->n_events || p->events[at].done <= now) return;
    const simulated_event *e = &p->events[at];
    if (p->watch) tell_wait(p, e, slot);
    if (slot == STREAM_COMPUTE && e->message) { /* I2 */
        double late = e->launched > now ? e->launched - now : 0;
        p->out->host += late;
        p->out->exposed[e->kind] += e->done - now - late;
    }
    p->stream[slot] = e->done;
}

/* A graph of parts of a layer takes the host a fixed time, one of the whole step none here. */
static double launching(simulation *p, const op *o, const op_cost *cost)
{
    bool held = (p->c->captured & cost->part) != 0, starts = held && !p->graph;
    bool back = o->phase == PHASE_BACKWARD || o->phase == PHASE_WGRAD;
    p->graph = held;
    if (!held) return cost->eager;
    return cost->replayed + (starts && p->c->captured != ~0u ? p->c->replay[back] : 0);
}

static void run(simulation *p, const op *o, op_cost cost)
{
    int slot = simulation_lane(p->c, o), half = cost.owner ? 1 : 0;
    if (op_is(o->kind, NEEDS_COUNTS) && p->counted[half] > p->host && p->pace > 0)
        p->host = p->counted[half]; /* I5 */
    p->host += launching(p, o, &cost) * p->pace;
    bool here = op_is_copy(o->kind) && !p->c->copies_async;
    if (here) slot = STREAM_COMPUTE;
    double free = p->stream[slot], start = free > p->host ? free : p->host; /* I1 */
    if (slot == STREAM_COMPUTE) p->out->host += start - free;               /* I2 */
    double end = start + cost.seconds;
    if (p->watch) {
        tell(p, (seen_op){.o = o, .as = SEEN_HOST, .lane = slot, .start = free, .end = start});
        tell(p, (seen_op){.o = o, .kind = cost.kind, .lane = slot, .start = start, .end = end});
    }
    p->stream[slot] = end;
    if (cost.counts) p->counted[half] = end;
    if (here) p->out->exposed[COST_COPY] += cost.seconds;
    p->out->busy[cost.kind] += cost.seconds - cost.quantise;
    p->out->busy[COST_QUANTISE] += cost.quantise;
    if (o->event < p->n_events)
        p->events[o->event] = (simulated_event){p->host, end, o, cost.kind, op_is_async(o->kind)};
}

/* Messages that run beside GEMMs take their share of the chip. */
static double share_of_messages(const simulation *p)
{
    double taken = 0;
    for (int k = COST_TP; k <= COST_DP; k++)
        taken += (p->out->busy[k] - p->out->exposed[k]) * p->c->share[k];
    return taken > 0 ? taken : 0;
}

/* Plays operation i with the WAITs before it. Returns the place of the next. */
static int simulate_next(simulation *p, const segment *seg, int phase, int i)
{
    const op *ops = seg->ops[phase];
    int n = seg->n_ops[phase], at = i;
    while (at < n && ops[at].kind == OP_WAIT) at++;
    const op *o = at < n ? &ops[at] : NULL;
    if (o && cost_passes_on(p->c, seg, o)) return at + 1; /* I3 */
    for (; i < at; i++)
        wait_for(p, &ops[i],
                 o && o->stream == ops[i].stream ? simulation_lane(p->c, o) : (int)ops[i].stream);
    if (o) run(p, o, p->costs[at]);
    return at + 1;
}

void simulation_costs(op_cost *costs, const cost_model *c, const segment *seg, int phase)
{
    for (int i = 0; i < seg->n_ops[phase]; i++) costs[i] = cost_of(c, seg, &seg->ops[phase][i]);
}

void simulate_list(simulated *out, const cost_model *c, const segment *seg, int phase, arena *a)
{
    arena_place mark = arena_mark(a);
    op_cost *costs = ARENA_RAW(a, op_cost, seg->n_ops[phase] + 1);
    simulation_costs(costs, c, seg, phase);
    simulate_with(out, c, seg, phase, (simulation_options){costs, true, NULL}, a);
    arena_release(a, mark);
}

/* What lies between compute's last operation and the list's end. */
static void tell_end(const simulation *p, const simulated *l)
{
    double end = l->seconds - l->slowed;
    tell(p, (seen_op){.as = SEEN_END, .start = p->stream[STREAM_COMPUTE], .end = end});
    tell(p, (seen_op){.as = SEEN_SLOWED, .start = end, .end = l->seconds});
}

static const double LONG_AGO = -1e6; /* seconds: before anything that a list waits for */

/* Plays all of it from a state between lists. Returns when the last of its streams is done. */
static double simulate_from(simulation *p, const segment *seg, int phase, double host,
                            double device)
{
    int n = seg->n_ops[phase];
    *p->out = (simulated){0};
    p->host = host;
    p->counted[0] = p->counted[1] = LONG_AGO;
    p->graph = 0;
    for (int s = 0; s < PLAY_LANES; s++) p->stream[s] = device;
    for (int i = 0; i < p->n_events; i++) p->events[i] = (simulated_event){.done = device};
    for (int i = 0; i < n;) i = simulate_next(p, seg, phase, i);
    double end = device;
    for (int s = 0; s < PLAY_LANES; s++)
        if (p->stream[s] > end) end = p->stream[s];
    return end;
}

static double larger(double x, double y)
{
    return x > y ? x : y;
}

double pace_seconds(const simulation_pace *p)
{
    return larger(p->device + p->slowed, larger(p->host, (p->late + p->back) / 2));
}

simulation_pace pace_join(const simulation_pace *x, const simulation_pace *y)
{
    return (simulation_pace){.device = larger(x->device + y->device, x->back + y->late),
                             .late = larger(x->late + y->device, x->host + y->late),
                             .host = larger(x->host + y->host, x->late + y->back),
                             .back = larger(x->back + y->host, x->device + y->back),
                             .slowed = x->slowed + y->slowed};
}

/* In a long row of its like (I4): `out` is of one that has many before it. Slower GEMMs fit into
 * the gaps in which the device waits for its host. */
static void simulate_in_row(simulation *p, const segment *seg, int phase)
{
    const watcher *watch = p->watch;
    simulation_pace pace;
    p->watch = NULL;
    pace.late = simulate_from(p, seg, phase, 0, LONG_AGO);
    pace.host = p->host;
    pace.device = simulate_from(p, seg, phase, LONG_AGO, 0);
    pace.back = p->host;
    pace.slowed = share_of_messages(p);
    double hosts = larger(pace.host, (pace.late + pace.back) / 2), seconds = pace_seconds(&pace);
    p->watch = watch;
    if (hosts > pace.device)
        simulate_from(p, seg, phase, hosts - pace.late, 0);
    else if (watch)
        simulate_from(p, seg, phase, pace.back - pace.device, 0);
    p->out->pace = pace;
    p->out->seconds = seconds;
    p->out->slowed = seconds - larger(hosts, pace.device);
}

void simulate_with(simulated *out, const cost_model *c, const segment *seg, int phase,
                   simulation_options as, arena *scratch)
{
    arena_place mark = arena_mark(scratch);
    simulation p = {.c = c, .costs = as.costs, .out = out, .pace = as.launching, .watch = as.watch};
    p.n_events = seg->n_ops[phase] + 1;
    p.events = ARENA_RAW(scratch, simulated_event, p.n_events);
    if (as.launching && c->copies_async) {
        simulate_in_row(&p, seg, phase);
    } else { /* I6 */
        double end = simulate_from(&p, seg, phase, 0, 0);
        out->pace = (simulation_pace){end, LONG_AGO, LONG_AGO, LONG_AGO, share_of_messages(&p)};
        out->slowed = out->pace.slowed;
        out->seconds = end + out->slowed;
    }
    if (p.watch) tell_end(&p, out);
    arena_release(scratch, mark);
}

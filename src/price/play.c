/* play.c - a list of operations played over its streams.
 *
 * I1  An operation starts when its stream is free, when the host has launched it, and when what its
 *     stream waits for is complete.
 * I2  Messages inside layers that leave the NVLink domain and those that stay in it have links of
 *     their own: they run beside each other, each kind in its order.
 * I3  What the compute stream loses is told apart: it waited for a message or a copy (exposed), or
 *     for the host. */
#include <string.h>

#include "price/price.h"

enum { EVENTS_MAX = 8192, LANES = STREAM_COUNT + 1, LANE_NETWORK = STREAM_COUNT };

typedef struct play {
    const cost_model *c;
    played *out;
    double lane[LANES], host;
    double late;                                   /* what the next message waits for */
    double launched[EVENTS_MAX], done[EVENTS_MAX]; /* by event */
    cost_kind kind[EVENTS_MAX];
    bool message[EVENTS_MAX];
} play;

static void wait_for(play *p, const op *o)
{
    int64_t e = o->dim[0];
    if (e < EVENTS_MAX && o->stream == STREAM_COMM && p->done[e] > p->late) p->late = p->done[e];
    if (e >= EVENTS_MAX || o->stream == STREAM_COMM) return;
    double now = p->lane[o->stream];
    if (p->done[e] <= now) return;
    if (o->stream == STREAM_COMPUTE && p->message[e]) { /* I3 */
        double late = p->launched[e] > now ? p->launched[e] - now : 0;
        p->out->host += late;
        p->out->exposed[p->kind[e]] += p->done[e] - now - late;
    }
    p->lane[o->stream] = p->done[e];
}

static void run(play *p, const segment *seg, const op *o)
{
    op_cost cost = cost_of(p->c, seg, o);
    p->host += cost.host;
    bool comm = o->stream == STREAM_COMM, here = op_is_copy(o->kind) && !p->c->copies_beside;
    int at =
        comm && cost.network ? LANE_NETWORK : (int)(here ? STREAM_COMPUTE : o->stream); /* I2 */
    double free = p->lane[at], start = free > p->host ? free : p->host;                 /* I1 */
    if (comm && p->late > start) start = p->late;
    if (comm) p->late = 0;
    if (at == STREAM_COMPUTE) p->out->host += start - free; /* I3 */
    double end = start + cost.seconds;
    p->lane[at] = end;
    if (here) p->out->exposed[COST_COPY] += cost.seconds;
    p->out->busy[cost.kind] += cost.seconds - cost.quantise;
    p->out->busy[COST_QUANTISE] += cost.quantise;
    if (o->event >= EVENTS_MAX) return;
    p->launched[o->event] = p->host;
    p->done[o->event] = end;
    p->kind[o->event] = cost.kind;
    p->message[o->event] = op_is_beside(o->kind);
}

/* Messages that run beside products take their share of the chip. */
static double share_of_messages(const play *p)
{
    double hidden = 0;
    for (int k = COST_TP; k <= COST_DP; k++) hidden += p->out->busy[k] - p->out->exposed[k];
    return hidden > 0 ? hidden * p->c->hw->message_share : 0;
}

void play_list(played *out, const cost_model *c, const segment *seg, int phase)
{
    static _Thread_local play p; /* large, and used again and again */
    *out = (played){0};
    p.c = c;
    p.out = out;
    p.host = 0;
    p.late = 0;
    memset(p.lane, 0, sizeof p.lane);
    int n = seg->n_ops[phase];
    for (int i = 0; i < n && i < EVENTS_MAX; i++) p.done[i] = 0;
    for (int i = 0; i < n; i++) {
        const op *o = &seg->ops[phase][i];
        if (o->kind == OP_WAIT)
            wait_for(&p, o);
        else
            run(&p, seg, o);
    }
    for (int i = 0; i < LANES; i++)
        if (p.lane[i] > out->seconds) out->seconds = p.lane[i];
    out->seconds += share_of_messages(&p);
}

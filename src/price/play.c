/* play.c - a list of operations played over its streams.
 *
 * I1  An operation starts when its stream is free, when the host has launched it, and when what its
 *     stream waits for is complete.
 * I2  What the compute stream loses is told apart: it waited for a message (exposed), or for the
 *     host. */
#include <string.h>

#include "price/price.h"

enum { EVENTS_MAX = 8192 };

typedef struct play {
    const cost_model *c;
    played *out;
    double stream[STREAM_COUNT], host;
    double pace;                                   /* of the host's launches */
    double launched[EVENTS_MAX], done[EVENTS_MAX]; /* by event */
    cost_kind kind[EVENTS_MAX];
    bool message[EVENTS_MAX];
} play;

static void wait_for(play *p, const op *o)
{
    int64_t e = o->dim[0];
    double now = p->stream[o->stream];
    if (e >= EVENTS_MAX || p->done[e] <= now) return;
    if (o->stream == STREAM_COMPUTE && p->message[e]) { /* I2 */
        double late = p->launched[e] > now ? p->launched[e] - now : 0;
        p->out->host += late;
        p->out->exposed[p->kind[e]] += p->done[e] - now - late;
    }
    p->stream[o->stream] = p->done[e];
}

static void run(play *p, const segment *seg, const op *o)
{
    op_cost cost = cost_of(p->c, seg, o);
    p->host += cost.host * p->pace;
    double free = p->stream[o->stream], start = free > p->host ? free : p->host; /* I1 */
    if (o->stream == STREAM_COMPUTE) p->out->host += start - free;               /* I2 */
    double end = start + cost.seconds;
    p->stream[o->stream] = end;
    p->out->busy[cost.kind] += cost.seconds - cost.quantise;
    p->out->busy[COST_QUANTISE] += cost.quantise;
    if (o->event >= EVENTS_MAX) return;
    p->launched[o->event] = p->host;
    p->done[o->event] = end;
    p->kind[o->event] = cost.kind;
    p->message[o->event] = op_is_comm(o->kind);
}

/* Messages that run beside products take their share of the chip. */
static double share_of_messages(const play *p)
{
    double taken = 0;
    for (int k = COST_TP; k <= COST_DP; k++)
        taken += (p->out->busy[k] - p->out->exposed[k]) * p->c->share[k];
    return taken > 0 ? taken : 0;
}

/* Two microbatches side by side: every node is an autograd graph of its own, launched from Python
 * one after another. */
static bool is_pair(const segment *seg)
{
    return seg->n_bufs > 0 && seg->bufs[seg->n_bufs - 1].owner == 1;
}

void play_list(played *out, const cost_model *c, const segment *seg, int phase)
{
    static _Thread_local play p; /* large, and used again and again */
    *out = (played){0};
    p.c = c;
    p.out = out;
    p.host = 0;
    p.pace = is_pair(seg) && c->hw->paired > 1 ? c->hw->paired : 1;
    memset(p.stream, 0, sizeof p.stream);
    int n = seg->n_ops[phase];
    for (int i = 0; i < n && i < EVENTS_MAX; i++) p.done[i] = 0;
    for (int i = 0; i < n; i++) {
        const op *o = &seg->ops[phase][i];
        if (o->kind == OP_WAIT)
            wait_for(&p, o);
        else
            run(&p, seg, o);
    }
    for (int s = 0; s < STREAM_COUNT; s++)
        if (p.stream[s] > out->seconds) out->seconds = p.stream[s];
    out->seconds += share_of_messages(&p);
}

/* tracing_ops.c - stamps of a step as operations and waits of a trace. */
#include <string.h>

#include "predict/described.h"
#include "train/loop/tracing_state.h"

/* Shorter waits are the calls themselves: they count as idle. */
static const double least_wait = 1e-6;

static void forget(tracing *t, int which)
{
    for (int i = 0; i < t->n_awaited[which]; i++) t->awaited[which][i] = NULL;
}

static bool is_message(const op *o)
{
    return (o->kind == OP_SEND || o->kind == OP_RECV) && o->group == GROUP_PP;
}

/* I2 */
static void number_message(tracing *t, const program *p, const op *o, trace_op *out)
{
    int64_t pp = p->s->pipe.pp, to = (p->at.pp + o->dim[DIM_MESSAGE_STEP] % pp + pp) % pp;
    bool sends = o->kind == OP_SEND;
    out->message = sends ? TRACE_SENDS : TRACE_RECEIVES;
    out->peer = described_at_stage(p->s, p->at.rank, to);
    out->tag = o->dim[DIM_MESSAGE_TAG];
    message_count *c = NULL;
    for (int64_t i = 0; i < t->n_counts && !c; i++) {
        message_count *x = &t->counts[i];
        if (x->peer == out->peer && x->tag == out->tag && x->sends == sends) c = x;
    }
    if (!c) {
        ARENA_GROW(t->steps, t->counts, t->n_counts, t->counts_room);
        c = &t->counts[t->n_counts++];
        *c = (message_count){out->peer, out->tag, 0, sends};
    }
    out->number = c->n++;
}

/* What an event stands for: of the program where an operation is ACROSS lists, else of its list. */
static const trace_op **awaited_at(tracing *t, const op *o, int64_t event)
{
    int which = (o->flags & ACROSS) != 0;
    if (event >= t->n_awaited[which]) {
        int n = (int)event + 64;
        const trace_op **larger = ARENA_ARRAY(t->a, const trace_op *, n);
        for (int i = 0; i < t->n_awaited[which]; i++) larger[i] = t->awaited[which][i];
        t->awaited[which] = larger;
        t->n_awaited[which] = n;
    }
    return &t->awaited[which][event];
}

/* Of a wait: for whom, and what that costs. */
static void describe_wait(tracing *t, const op *o, trace_op *out)
{
    const trace_op *for_it = *awaited_at(t, o, o->dim[DIM_WAIT_EVENT]);
    bool beside = for_it && for_it->stream != (int)STREAM_COMPUTE;
    out->what = TRACE_WAIT;
    out->name = for_it ? for_it->name : "";
    out->phase = out->group = NULL;
    out->bytes = -1;
    out->kind = "waiting for another stream";
    if (o->stream == STREAM_COMPUTE && beside)
        out->kind = arena_text(t->steps, "%s, exposed", for_it->kind);
    if (for_it && for_it->message == TRACE_RECEIVES) {
        out->peer = for_it->peer;
        out->tag = for_it->tag;
        out->number = for_it->number;
        out->awaits = true;
    }
}

static trace_op describe(tracing *t, const program *p, const op_times *x, double from)
{
    const item *it = &p->items[x->part].list[x->item];
    const op *o = &it->seg->ops[it->phase][x->op];
    trace_op out = described(p, it, o, cost_kind_of_op(o));
    bool offload = x->part == PART_UPDATE && cost_kind_of_op(o) == COST_COPY;
    if (!part_is_simulated(x->part) && !offload) out.kind = "optimizer";
    out.rank = p->at.rank;
    out.stream = (int)o->stream;
    out.start = from + x->start;
    out.end = from + x->end;
    out.seconds = out.end - out.start;
    if (o->kind == OP_WAIT) {
        describe_wait(t, o, &out);
        return out;
    }
    if (is_message(o)) number_message(t, p, o, &out);
    return out;
}

/* Compute stood without waiting for a stream: the host had not launched the operation yet. */
static void add_gap(tracing *t, const trace_op *next)
{
    trace_op wait = *next;
    wait.what = TRACE_WAIT;
    wait.kind = "waiting for kernel launches";
    wait.phase = wait.group = NULL;
    wait.bytes = -1;
    wait.message = TRACE_NO_MESSAGE;
    wait.start = t->compute_end;
    wait.end = next->start;
    wait.seconds = wait.end - wait.start;
    wait.awaits = false;
    if (wait.seconds >= least_wait) trace_add(&t->own, wait);
    t->compute_end = next->end;
}

static void add_row(tracing *t, const program *p, const op_times *x, double from)
{
    const item *it = &p->items[x->part].list[x->item];
    const op *o = &it->seg->ops[it->phase][x->op];
    if (x->op == 0) forget(t, 0);
    trace_op out = describe(t, p, x, from);
    if (o->kind != OP_WAIT && (o->event || (o->flags & ACROSS))) {
        trace_op *kept = ARENA_NEW(t->steps, trace_op);
        *kept = out;
        *awaited_at(t, o, o->event) = kept;
    }
    if (out.what == TRACE_WAIT && out.end - out.start < least_wait) return;
    if (o->stream == STREAM_COMPUTE) add_gap(t, &out);
    trace_add(&t->own, out);
}

static void add_batch(tracing *t, const kept_step *k)
{
    trace_op batch = {.name = "batch", .kind = "reading data", .rank = k->p->at.rank};
    batch.what = TRACE_WAIT;
    batch.micro = batch.layer = batch.bytes = -1;
    batch.start = k->begun;
    batch.end = k->at.loaded;
    batch.seconds = k->at.loaded - k->begun;
    trace_add(&t->own, batch);
}

void tracing_describe(tracing *t)
{
    forget(t, 0);
    forget(t, 1);
    for (int64_t i = 0; i < t->n_steps; i++) {
        const kept_step *k = &t->kept[i];
        t->compute_end = k->at.loaded;
        for (int64_t x = 0; x < k->n; x++) add_row(t, k->p, &k->rows[x], k->origin);
        add_batch(t, k);
    }
}

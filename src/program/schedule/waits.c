/* waits.c - what must wait for what inside a list of operations.
 *
 * Here a message is any operation that runs beside others: copies to and from the host, too. A
 * stream runs its operations in order; two streams know nothing of each other but what WAITs say.
 *
 * I1  Two operations conflict where one writes memory that the other touches; memory, not buffers:
 *     temporaries share places.
 * I2  Before an operation stands a WAIT of its stream for each message that it conflicts with and
 *     that neither its stream nor the compute stream has waited for, and, if it is a message, for
 *     the last conflicting operation of the compute stream.
 *     Copies and messages know nothing of each other by what the compute stream has waited for:
 *     each waits for the last operation of the other's stream that it conflicts with.
 * I3  At the end of a list no message is under way, but those whose events belong to the program
 *     (ACROSS).
 * I4  Event 0 of a list is the compute stream at its start. The first operation of any other stream
 *     waits for it, unless it waits for another operation of the list, which knows it. With I3 that
 *     orders lists: what an operation finds is all that came before its list, but for messages with
 *     ACROSS that the compute stream has not waited for. */
#include <string.h>

#include "program/schedule/touch.h"
#include "program/segment.h"

/* Buffers are compared by where they lie in what they share: temporaries, a half's saved buffers, a
 * region of the arena. Of all others each has memory of its own. */
enum { SPACE_TEMP = 1, SPACE_SAVED, SPACE_OWN, SPACE_REGION = 1 << 22 };

static touch touch_of(const segment *seg, int phase, int id, bool written)
{
    const buf *b = &seg->bufs[id];
    int space = SPACE_OWN + seg_root(seg, id);
    int64_t at = b->parent >= 0 ? b->view_at : 0;
    if (b->life == LIFE_TEMP) space = SPACE_TEMP, at = b->offset[phase];
    if (b->life == LIFE_SAVED) space = SPACE_SAVED + b->owner * (1 << 20), at = b->offset[0];
    if (b->life == LIFE_FIXED) space = SPACE_REGION + b->region, at = b->offset[0];
    return (touch){space, written, at, at + b->bytes};
}

/* The memory that an operation reads and writes. */
typedef struct touched {
    touch list[OP_IN_MAX + OP_OUT_MAX];
    int n;
} touched;

static touched touched_by(const segment *seg, int phase, const op *o)
{
    touched t = {.n = 0};
    for (int i = 0; i < OP_IN_MAX; i++)
        if (o->in[i] >= 0) t.list[t.n++] = touch_of(seg, phase, o->in[i], false);
    for (int i = 0; i < OP_OUT_MAX; i++)
        if (o->out[i] >= 0) t.list[t.n++] = touch_of(seg, phase, o->out[i], true);
    return t;
}

static bool conflict(const touched *a, const touched *b) /* I1 */
{
    for (int i = 0; i < a->n; i++)
        for (int k = 0; k < b->n; k++)
            if (touch_conflict(&a->list[i], &b->list[k])) return true;
    return false;
}

typedef struct listing {
    const segment *seg;
    int phase;
    op *out;
    int n;
    touched *known; /* of the operations so far, by event */
    const op **by_event;
    bool *under_way; /* by event: a message that the compute stream has not waited for */
    bool *met;       /* by event: a message did */
    bool begun[STREAM_COUNT];
    int events;
} listing;

/* A WAIT of a stream, with the names of the operation that it is for. */
static void add_wait(listing *l, op_stream stream, int event, const op *target)
{
    op *w = &l->out[l->n++];
    *w = (op){.kind = OP_WAIT,
              .phase = target->phase,
              .stream = stream,
              .node = target->node,
              .name = target->name,
              .module = target->module};
    for (int i = 0; i < OP_IN_MAX; i++) w->in[i] = NONE;
    for (int i = 0; i < OP_OUT_MAX; i++) w->out[i] = NONE;
    w->dim[DIM_WAIT_EVENT] = event;
}

static void put_wait(listing *l, op_stream stream, int event)
{
    add_wait(l, stream, event, l->by_event[event]);
    if (stream == STREAM_COMPUTE)
        l->under_way[event] = false;
    else
        l->met[event] = true;
}

/* The last operation of a stream that it conflicts with. */
static void wait_for_last(listing *l, const op *o, const touched *t, op_stream stream)
{
    for (int e = l->events; e >= 1; e--)
        if (l->by_event[e]->stream == stream && conflict(&l->known[e], t)) {
            put_wait(l, o->stream, e);
            return;
        }
}

static void put_waits(listing *l, const op *o, const touched *t) /* I2 */
{
    bool copy = op_is_copy(o->kind), message = op_is_comm(o->kind);
    for (int e = 1; e <= l->events && !copy; e++) {
        bool known = message && (l->met[e] || op_is_copy(l->by_event[e]->kind));
        if (l->under_way[e] && !known && conflict(&l->known[e], t)) put_wait(l, o->stream, e);
    }
    for (int s = 0; s < STREAM_COUNT && op_is_beside(o->kind); s++) {
        bool unknown = copy || s == STREAM_COMPUTE || s == STREAM_COPY || s == STREAM_COPY_BACK;
        if (unknown && s != (int)o->stream) wait_for_last(l, o, t, (op_stream)s);
    }
}

static void put(listing *l, const op *o)
{
    touched t = touched_by(l->seg, l->phase, o);
    int before = l->n;
    put_waits(l, o, &t);
    bool first = o->stream != STREAM_COMPUTE && !l->begun[o->stream];
    if (first && l->n == before) add_wait(l, o->stream, 0, o); /* I4 */
    l->begun[o->stream] = true;
    l->out[l->n] = *o;
    if (!(o->flags & ACROSS)) {
        int e = ++l->events;
        l->out[l->n].event = e;
        l->known[e] = t;
        l->by_event[e] = o;
        l->under_way[e] = op_is_beside(o->kind);
    }
    l->n++;
}

static void list_waits(segment *seg, int phase, arena *a)
{
    int n = seg->n_ops[phase], messages = 0;
    for (int i = 0; i < n; i++) messages += op_is_beside(seg->ops[phase][i].kind);
    listing l = {.seg = seg, .phase = phase};
    l.out = ARENA_RAW(a, op, n + (2 + STREAM_COUNT) * messages + STREAM_COUNT + 1);
    l.known = ARENA_RAW(a, touched, n + 1);
    l.by_event = (const op **)ARENA_ARRAY(a, op *, n + 1);
    l.under_way = ARENA_ARRAY(a, bool, n + 1);
    l.met = ARENA_ARRAY(a, bool, n + 1);
    for (int i = 0; i < n; i++) put(&l, &seg->ops[phase][i]);
    for (int e = 1; e <= l.events; e++)
        if (l.under_way[e]) put_wait(&l, STREAM_COMPUTE, e); /* I3 */
    seg->bare[phase] = seg->ops[phase];
    seg->n_bare[phase] = n;
    seg->ops[phase] = l.out;
    seg->n_ops[phase] = seg->ops_room[phase] = l.n;
}

void segment_waits(segment *seg, arena *a)
{
    for (int phase = 0; phase < 2; phase++) list_waits(seg, phase, a);
}

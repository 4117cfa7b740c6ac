/* waits.c - what must wait for what inside a list of operations.
 *
 * Here a message is any operation that runs beside others: copies to and from the host, too. A
 * stream runs its operations in order; two streams know nothing of each other but what WAITs say.
 *
 * I1  Before an operation stands a WAIT of its stream for each operation that it conflicts with and
 *     that its stream does not know to be complete (wait_finder.h).
 * I2  At the end of a list no message is under way, but those whose events belong to the program
 *     (ACROSS).
 * I3  Event 0 of a list is the compute stream at its start. The first operation of any other stream
 *     waits for it, unless it waits for another operation of the list, which knows it. With I2 that
 *     orders lists: what an operation finds is all that came before its list, but for messages with
 *     ACROSS that the compute stream has not waited for. */
#include <stdlib.h>
#include <string.h>

#include "ir/schedule/wait_finder.h"
#include "ir/segment.h"

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

typedef struct listing {
    const segment *seg;
    int phase;
    op *out;
    int n;
    wait_finder finder;
    touch *free; /* for the touches of the next operation */
    const op **by_event;
    int *events; /* for the finder's answers */
    bool begun[STREAM_COUNT];
} listing;

/* The memory that an operation reads and writes. */
static touched touched_by(listing *l, const op *o)
{
    touched t = {.list = l->free};
    for (int i = 0; i < OP_IN_MAX; i++)
        if (o->in[i] >= 0) *l->free++ = touch_of(l->seg, l->phase, o->in[i], false);
    for (int i = 0; i < OP_OUT_MAX; i++)
        if (o->out[i] >= 0) *l->free++ = touch_of(l->seg, l->phase, o->out[i], true);
    t.n = (int)(l->free - t.list);
    return t;
}

/* A WAIT of a stream, with the names of the operation that it is for. */
static void put_wait(listing *l, op_stream stream, int event, const op *target)
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

static void put(listing *l, const op *o)
{
    touched t = touched_by(l, o);
    int n = wait_finder_next(&l->finder, o, t, l->events); /* I1 */
    for (int i = 0; i < n; i++) put_wait(l, o->stream, l->events[i], l->by_event[l->events[i]]);
    bool first = o->stream != STREAM_COMPUTE && !l->begun[o->stream];
    if (first && !n) put_wait(l, o->stream, 0, o); /* I3 */
    l->begun[o->stream] = true;
    op *copy = &l->out[l->n++];
    *copy = *o;
    if (o->flags & ACROSS) return;
    copy->event = l->finder.n;
    l->by_event[copy->event] = o;
}

/* The list alone, without what it was made with: long lists have room for many more waits than they
 * need. */
static op *kept_only(op *list, int n, arena_place mark, arena *a)
{
    size_t bytes = sizeof *list * (size_t)n;
    op *aside = malloc(bytes + 1);
    if (!aside) return list;
    memcpy(aside, list, bytes);
    arena_release(a, mark);
    op *out = ARENA_RAW(a, op, n + 1);
    memcpy(out, aside, bytes);
    free(aside);
    return out;
}

static void list_waits(segment *seg, int phase, arena *a)
{
    int n = seg->n_ops[phase], messages = 0, touches = 0;
    for (int i = 0; i < n; i++) {
        const op *o = &seg->ops[phase][i];
        messages += op_is_async(o->kind);
        for (int k = 0; k < OP_IN_MAX; k++) touches += o->in[k] >= 0;
        for (int k = 0; k < OP_OUT_MAX; k++) touches += o->out[k] >= 0;
    }
    arena_place mark = arena_mark(a);
    listing l = {.seg = seg, .phase = phase};
    l.out = ARENA_RAW(a, op, n + (2 + STREAM_COUNT) * messages + STREAM_COUNT + 1);
    l.free = ARENA_RAW(a, touch, touches + 1);
    l.by_event = (const op **)ARENA_ARRAY(a, op *, n + 1);
    l.events = ARENA_RAW(a, int, n + STREAM_COUNT);
    wait_finder_init(&l.finder, n, a);
    for (int i = 0; i < n; i++) put(&l, &seg->ops[phase][i]);
    int left = wait_finder_left(&l.finder, l.events);
    for (int i = 0; i < left; i++)
        put_wait(&l, STREAM_COMPUTE, l.events[i], l.by_event[l.events[i]]); /* I2 */
    seg->bare[phase] = seg->ops[phase];
    seg->n_bare[phase] = n;
    seg->ops[phase] = kept_only(l.out, l.n, mark, a);
    seg->n_ops[phase] = seg->ops_room[phase] = l.n;
}

void segment_waits(segment *seg, arena *a)
{
    for (int phase = 0; phase < 2; phase++) list_waits(seg, phase, a);
}

/* order_check.c - replays a program with vector clocks.
 *
 * I1  A clock has for each stream how many of its operations are known to be complete. A stream
 *     runs in order, so a count is enough. An operation begins with what its stream knows; then the
 *     stream knows the operation.
 * I2  A stream learns by a WAIT what the operation that is named knew, and that operation; by one
 *     for event 0 what the compute stream knew at the start of the list.
 * I3  Of two conflicting operations the later one in the lists knows the earlier one, or they are
 *     not ordered: the earlier one cannot wait for what comes after it. The last write and the last
 *     read of each stream stand for all before them. */
#include "predict/audit/order_check.h"

#include <inttypes.h>
#include <string.h>

#include "predict/audit/order_memory.h"

typedef struct order_clock {
    uint32_t n[STREAM_COUNT];
} order_clock;

typedef struct event {
    order_clock c;
    int64_t list; /* of the operation; 0: none yet */
    uint32_t number;
    op_stream stream;
} event;

/* Where the replay is. */
typedef struct place {
    int pass, part;
    int64_t item;
} place;

typedef struct replay {
    order_report *out;
    const order_map *m;
    order_memory memory;
    uint32_t begun[STREAM_COUNT];    /* operations */
    uint32_t due[STREAM_COUNT];      /* of the list: the last that must be complete at its end */
    order_clock known[STREAM_COUNT]; /* I1 */
    order_clock at_start;            /* I2 */
    event *own, *across;             /* by event: of the list, of the program */
    int64_t list;                    /* its number, from 1 on */
} replay;

/* ---- the order of items */

enum { PASSES = 2 };

/* Weights that are gathered late are gathered by the step itself; by a part only where training
 * stops to look at them. */
static bool is_run(const program *p, const place *at)
{
    return at->part != PART_GATHER || !p->gathers_late || at->pass == PASSES - 1;
}

static const item *next_item(const program *p, place *at)
{
    for (at->item++; at->pass < PASSES; at->pass++, at->part = 0) {
        for (; at->part < PART_COUNT; at->part++, at->item = 0)
            if (is_run(p, at) && at->item < p->items[at->part].n)
                return &p->items[at->part].list[at->item];
    }
    return NULL;
}

static const place before_all = {.item = -1};

/* ---- what is wrong */

/* The operation of this number on its stream. */
static order_at operation(const replay *r, op_stream stream, uint32_t wanted)
{
    place at = before_all;
    const item *it;
    uint32_t n = 0;
    while ((it = next_item(r->m->p, &at)))
        for (int k = 0; k < it->seg->n_ops[it->phase]; k++) {
            const op *o = &it->seg->ops[it->phase][k];
            if (o->kind == OP_WAIT || o->stream != stream) continue;
            if (++n == wanted) return (order_at){it, o};
        }
    return (order_at){NULL, NULL};
}

static void not_finished(replay *r, op_stream stream, uint32_t number)
{
    if (r->known[STREAM_COMPUTE].n[stream] >= number) return;
    r->out->unfinished++;
    if (!r->out->first[0].o) r->out->first[0] = operation(r, stream, number);
}

/* ---- the replay */

static void learn(replay *r, const op *wait, const item *it) /* I2 */
{
    order_clock *c = &r->known[wait->stream];
    bool across = (wait->flags & ACROSS) != 0;
    int64_t e = wait->dim[DIM_WAIT_EVENT];
    if (planted_deaf && planted_deaf(wait, it)) return;
    const event *named = across ? &r->across[e] : &r->own[e];
    if (e && (across ? !named->list : named->list != r->list)) return;
    const order_clock *more = e ? &named->c : &r->at_start;
    for (int i = 0; i < STREAM_COUNT; i++)
        if (more->n[i] > c->n[i]) c->n[i] = more->n[i];
}

/* Compares an access with what was there before; the first that is not known: its stream, or -1. */
static int compare(replay *r, const order_run *run, op_stream own, bool writes, uint32_t *number)
{
    const order_clock *c = &r->known[own];
    int wrong = -1;
    for (int s = 0; s < STREAM_COUNT; s++) { /* I3 */
        uint32_t last = run->written && run->writer == (op_stream)s ? run->written : 0;
        if (writes && run->read[s] > last) last = run->read[s];
        if (!last || s == (int)own) continue;
        r->out->compared++;
        if (c->n[s] >= last || wrong >= 0) continue;
        wrong = s;
        *number = last;
    }
    return wrong;
}

typedef struct seen {
    int wrong; /* a stream, or -1 */
    uint32_t number;
} seen;

static void touch_memory(replay *r, order_access x, op_stream own, bool writes, seen *found)
{
    order_memory *m = &r->memory;
    order_memory_cut(m, x);
    for (int32_t i = x.first; i < x.end; i = order_memory_next(m, i)) {
        uint32_t number = 0;
        int wrong = compare(r, &m->runs[i], own, writes, &number);
        if (wrong >= 0 && found->wrong < 0) *found = (seen){wrong, number};
        if (!writes) m->runs[i].read[own] = r->begun[own];
    }
    if (writes) order_memory_write(m, x, own, r->begun[own]);
}

static void run(replay *r, const item *it, const op *o, order_counts n, const order_access *list)
{
    op_stream own = o->stream;
    seen found = {-1, 0};
    r->begun[own]++;
    for (int i = 0; i < n.reads + n.writes; i++)
        touch_memory(r, list[i], own, i >= n.reads, &found);
    if (found.wrong >= 0 && !r->out->unordered++ && !r->out->first[0].o) {
        r->out->first[0] = operation(r, (op_stream)found.wrong, found.number);
        r->out->first[1] = (order_at){it, o};
    }
    r->known[own].n[own] = r->begun[own]; /* I1 */
    bool across = (o->flags & ACROSS) != 0;
    event *e = across ? &r->across[o->event] : &r->own[o->event];
    if (across && e->list) not_finished(r, e->stream, e->number);
    if (op_is_async(o->kind) && !across) r->due[own] = r->begun[own];
    *e = (event){r->known[own], r->list, r->begun[own], own};
}

static void run_list(replay *r, const item *it, const place *at)
{
    int64_t i = r->m->first_op[at->part][at->item];
    const order_access *list = &r->m->accesses[r->m->first_access[at->part][at->item]];
    r->list++;
    r->at_start = r->known[STREAM_COMPUTE];
    memset(r->due, 0, sizeof r->due);
    for (int k = 0; k < it->seg->n_ops[it->phase]; k++, i++) {
        const op *o = &it->seg->ops[it->phase][k];
        order_counts n = r->m->counts[i];
        if (o->kind == OP_WAIT)
            learn(r, o, it);
        else
            run(r, it, o, n, list);
        list += n.reads + n.writes;
    }
    for (int s = 0; s < STREAM_COUNT; s++) not_finished(r, (op_stream)s, r->due[s]);
}

static int most_events(const program *p)
{
    int most = 0;
    for (int i = 0; i < p->n_segments; i++)
        for (int phase = 0; phase < 2; phase++)
            if (p->segments[i]->n_ops[phase] > most) most = p->segments[i]->n_ops[phase];
    return most;
}

void order_check(order_report *out, const order_map *m, arena *scratch)
{
    arena_place mark = arena_mark(scratch);
    *out = (order_report){0};
    replay r = {.out = out, .m = m};
    order_memory_init(&r.memory, m->n_intervals, scratch);
    r.own = ARENA_ARRAY(scratch, event, most_events(m->p) + 1);
    r.across = ARENA_ARRAY(scratch, event, m->p->n_events + 1);
    place at = before_all;
    const item *it;
    while ((it = next_item(m->p, &at))) run_list(&r, it, &at);
    for (int s = 0; s < STREAM_COUNT; s++) not_finished(&r, (op_stream)s, r.begun[s]);
    arena_release(scratch, mark);
}

/* ---- for people */

static void add_operation(textbuf *t, const order_at *at)
{
    const segment *seg = at->it->seg;
    text_add(t, "%s %s (%s, %s", op_infos[at->o->kind].name, at->o->name ? at->o->name : "",
             seg->name, at->it->phase == SEG_FORWARD ? "forward" : "backward");
    if (at->it->at[0].chunk >= 0) text_add(t, ", microbatch %" PRId64, at->it->at[0].micro);
    text_add(t, "; stream %s)", op_stream_names[at->o->stream]);
}

const char *order_text(const order_report *r, arena *a)
{
    if (!r->first[0].o) return NULL;
    textbuf t = text_init(a);
    add_operation(&t, &r->first[0]);
    if (r->first[1].o) {
        text_add(&t, " and ");
        add_operation(&t, &r->first[1]);
        text_add(&t, " access the same memory without an order between them");
    } else {
        text_add(&t, " is never waited for");
    }
    return t.s;
}

/* executor_times.c - stamps of a step: taking them, and what is read from them.
 *
 * I1  Stamps of the device are a ring. One is read before it is used again: the host would wait for
 *     it then, but no device lets the host run so far ahead that it has not passed.
 * I2  An operation's event is recorded before its end is stamped: who waits for it does not wait
 *     for the stamp.
 * I3  A trace begins and ends between steps; rows beyond the memory it has are not kept.
 * I4  Where a call of the compute stream is done when it returns, the host's clock is its stamp,
 *     and the end of an operation is the start of the next one: a step of small operations would
 *     feel more. There a message has one stamp, at its end: it starts when it is put, or when the
 *     one before it in its stream has ended.
 * I5  Elsewhere the stamp behind an operation is the start of the next one in its stream, where
 *     that one is put before the stamp has passed: the stream does not stand between them. A stamp
 *     costs a GPU 2 us, and two for each operation of 0.2 ms were 1.75 % of a step.
 * I6  There stamps are read as they pass, while the host would wait for the step's report anyway:
 *     read behind the step they would take a GPU that has nothing to do 2 us each. */
#include "train/executor/executor_times.h"

#include "base/clock.h"
#include "train/executor/executor_state.h"

enum { RING = 8192, NO_ROW = -1, NO_KIND = -1, NO_STAMP = -1 };

/* What a stamp of the ring is for. */
typedef struct mark {
    int64_t row;  /* of the trace, or NO_ROW */
    int64_t next; /* the row that starts here, or NO_ROW (I5) */
    op_stream stream;
    bool is_end;
    bool timed; /* the next `timed` one counts from here .. */
    int kind;   /* .. and this one adds to the kind, unless NO_KIND */
} mark;

struct op_clock {
    mark marks[RING];
    int64_t put, read; /* stamps so far */
    double origin;     /* clock of the host */
    double last;       /* of the timed stamp that was read last */
    op_times *rows;    /* NULL: nobody has traced yet */
    int64_t n_rows, room;
    int64_t row; /* of the operation that is being put, or NO_ROW */
    bool tracing;
    int64_t ends[STREAM_COUNT]; /* I5: the stamp behind each stream's last operation, or NO_STAMP */
    /* I4 */
    bool direct;                   /* the host's clock serves */
    bool goes_on;                  /* compute's last operation has just ended, at .. */
    double compute_end;            /* .. */
    double ended_in[STREAM_COUNT]; /* the row of each stream that was read last */
};

/* ---- the ring */

static void set_time(op_clock *c, const mark *m, double at)
{
    op_times *x = &c->rows[m->row];
    if (!m->is_end) {
        x->start = at;
        return;
    }
    x->end = at;
    if (!c->direct) return;
    if (x->start < c->ended_in[m->stream]) x->start = c->ended_in[m->stream];
    c->ended_in[m->stream] = at;
}

static void read_one(const executor *e)
{
    op_clock *c = e->clock;
    const mark *m = &c->marks[c->read % RING];
    double at = e->d->table->stamp_read(e->d, (int)(c->read % RING));
    c->read++;
    if (m->row != NO_ROW) set_time(c, m, at);
    if (m->next != NO_ROW) c->rows[m->next].start = at; /* I5 */
    if (!m->timed) return;
    if (m->kind != NO_KIND && e->times) timing_add(e->times, (cost_kind)m->kind, at - c->last);
    c->last = at;
}

static void read_all(const executor *e)
{
    while (e->clock->read < e->clock->put) read_one(e);
}

static void put(executor *e, op_stream s, mark m)
{
    op_clock *c = e->clock;
    if (c->put - c->read == RING) read_one(e); /* I1 */
    m.stream = s;
    m.next = NO_ROW;
    c->marks[c->put % RING] = m;
    e->d->table->stamp(e->d, s, (int)(c->put++ % RING));
}

static status open_clock(executor *e, error *err)
{
    if (e->clock) return OK;
    TRY(e->d->table->stamps(e->d, RING, err));
    e->clock = ARENA_NEW(e->memory, op_clock);
    e->clock->direct = !e->d->runs_ahead;
    return OK;
}

static void begin(executor *e)
{
    read_all(e);
    e->clock->origin = e->d->table->stamp_origin(e->d);
    e->clock->goes_on = false;
    for (int s = 0; s < STREAM_COUNT; s++) {
        e->clock->ended_in[s] = 0;
        e->clock->ends[s] = NO_STAMP;
    }
}

/* I6 */
void op_clock_follow(const executor *e)
{
    if (!e->clock->direct) read_all(e);
}

/* ---- while operations are put */

void op_clock_item(executor *e, item_part part)
{
    if (e->times && part_is_simulated(part))
        put(e, STREAM_COMPUTE, (mark){.row = NO_ROW, .timed = true, .kind = NO_KIND});
}

/* I4 */
static void start_here(op_clock *c, op_stream s)
{
    bool goes_on = c->goes_on && s == STREAM_COMPUTE;
    c->rows[c->row].start = goes_on ? c->compute_end : clock_seconds() - c->origin;
    c->goes_on = false;
}

static void end_here(executor *e)
{
    op_clock *c = e->clock;
    double now = clock_seconds();
    c->compute_end = c->rows[c->row].end = now - c->origin;
    c->goes_on = true;
    e->d->table->look(e->d, now);
}

/* I5. False: it wants a stamp of its own. */
static bool starts_behind(executor *e, op_stream s)
{
    op_clock *c = e->clock;
    int64_t end = c->ends[s];
    if (end == NO_STAMP || end < c->read || !e->d->table->stamp_passed) return false;
    if (e->d->table->stamp_passed(e->d, (int)(end % RING))) return false;
    c->marks[end % RING].next = c->row;
    return true;
}

void op_clock_start(executor *e, item_part part, int64_t i, int k, op_stream s)
{
    op_clock *c = e->clock;
    c->row = NO_ROW;
    if (!c->tracing || c->n_rows == c->room) return; /* I3 */
    c->row = c->n_rows++;
    c->rows[c->row] = (op_times){.part = part, .item = i, .op = k};
    if (c->direct)
        start_here(c, s);
    else if (!starts_behind(e, s))
        put(e, s, (mark){.row = c->row, .kind = NO_KIND});
}

/* The kind whose time has ended with this operation: its own, or that of the message that it waited
 * for. */
static int kind_of(executor *e, const bound_item *it, int phase, int k)
{
    const op *o = &it->seg->seg->ops[phase][k];
    int event = it->seg->ops[phase][k].event;
    cost_kind kind = it->seg->kind[phase][k];
    if (o->kind == OP_WAIT) return (int)e->event_kind[event];
    if (op_is_comm(o->kind) && event != NO_EVENT) e->event_kind[event] = kind;
    return (int)kind;
}

/* On the compute stream one stamp serves both readers. */
void op_clock_end(executor *e, item_part part, const bound_item *it, int phase, int k)
{
    op_clock *c = e->clock;
    op_stream s = it->seg->seg->ops[phase][k].stream;
    bool timed = e->times && part_is_simulated(part);
    int kind = timed ? kind_of(e, it, phase, k) : NO_KIND;
    bool traced = c->row != NO_ROW, both = traced && timed && s == STREAM_COMPUTE && !c->direct;
    if (traced && c->direct && s == STREAM_COMPUTE) {
        end_here(e);
        traced = false;
    }
    if (traced) {
        put(e, s, (mark){.row = c->row, .is_end = true, .timed = both, .kind = kind});
        c->ends[s] = c->put - 1;
    }
    if (timed && !both) put(e, STREAM_COMPUTE, (mark){.row = NO_ROW, .timed = true, .kind = kind});
}

/* ---- traces */

static int64_t count_ops(const program *p)
{
    int64_t n = 0;
    for (int part = 0; part < PART_COUNT; part++)
        for (int64_t i = 0; i < p->items[part].n; i++) {
            const item *it = &p->items[part].list[i];
            n += it->seg->n_ops[it->phase];
        }
    return n;
}

status executor_trace_begin(executor *e, error *err)
{
    TRY(open_clock(e, err));
    op_clock *c = e->clock;
    if (!c->rows) {
        c->room = count_ops(e->p);
        c->rows = ARENA_ARRAY(e->memory, op_times, c->room + 1);
    }
    begin(e);
    c->n_rows = 0;
    c->tracing = true;
    return OK;
}

const op_times *executor_trace_end(executor *e, int64_t *n)
{
    op_clock *c = e->clock;
    *n = 0;
    if (!c || !c->tracing) return NULL;
    read_all(e);
    c->tracing = false;
    *n = c->n_rows;
    return c->rows;
}

double executor_trace_origin(const executor *e)
{
    return e->clock->origin;
}

/* ---- times by kind */

static void bind_kinds(executor *e, bound_segment *b, int phase, const cost_model *cost)
{
    const segment *seg = b->seg;
    b->kind[phase] = ARENA_ARRAY(e->memory, cost_kind, seg->n_ops[phase] + 1);
    for (int i = 0; i < seg->n_ops[phase]; i++)
        b->kind[phase][i] = cost_of(cost, seg, &seg->ops[phase][i]).kind;
}

status executor_time(executor *e, timing *t, const cost_model *cost, error *err)
{
    TRY(open_clock(e, err));
    e->event_kind = ARENA_ARRAY(e->memory, cost_kind, e->n_events);
    for (int i = 0; i < e->p->n_segments; i++)
        for (int phase = 0; phase < 2; phase++) bind_kinds(e, &e->segments[i], phase, cost);
    e->times = t;
    return OK;
}

void executor_time_begin(executor *e)
{
    if (e->times) begin(e);
}

void executor_time_end(executor *e)
{
    if (e->times) read_all(e);
}

/* timeline.c - from what a watcher sees to a trace.
 *
 * I1  A step is played twice: the first time lists are timed, which says where the window lies; the
 *     second time operations of its lists are written down.
 * I2  What crosses an edge of the window is cut there, and carries its whole length.
 * I3  The optimizer starts when the last stage is through; lists behind it move to its end. */
#include "predict/timeline.h"

#include "predict/described.h"

/* ---- the window */

typedef struct unit {
    const program *p;
    int chunk;
    int64_t micro;
    int phase;
    double start, end;
} unit;

typedef struct unit_list {
    arena *a;
    unit *list; /* lists of one chunk and microbatch in a row, of every stage in turn */
    int64_t n, room;
    unit *last; /* [pp] the one at hand of each */
} unit_list;

static bool same_unit(const unit *x, const unit *y)
{
    return x->p == y->p && x->chunk == y->chunk && x->micro == y->micro && x->phase == y->phase;
}

static bool time_item(void *to, const seen_item *i)
{
    unit_list *l = to;
    const item_at *at = &i->it->at[0];
    if (i->part != PART_STEP || at->chunk < 0) return false;
    unit u = {i->p, at->chunk, at->micro, i->it->phase, i->start, i->end};
    unit *last = &l->last[i->p->at.pp];
    if (last->p && same_unit(last, &u)) {
        last->end = i->end;
        return false;
    }
    *last = u;
    ARENA_GROW(l->a, l->list, l->n, l->room);
    l->list[l->n++] = u;
    return false;
}

/* Of the slowest stage: so many units from the middle on. */
static void choose_window(double window[2], const unit_list *l, const price *p, int64_t vpp)
{
    double *starts = ARENA_ARRAY(l->a, double, l->n + 1);
    int64_t n = 0, length = 2 * vpp;
    for (int64_t i = 0; i < l->n; i++)
        if (l->list[i].p->at.pp == p->slowest) starts[n++] = l->list[i].start;
    int64_t from = (n - length) / 2;
    window[0] = 0;
    window[1] = p->step_s;
    if (n < 2 * length) return; /* too short to have a middle */
    window[0] = starts[from];
    window[1] = starts[from + length];
}

/* ---- operations */

typedef struct timeline {
    trace *t;
    const setup *s;
    arena *a;
    double window[2];
    const int64_t *ranks;
    int64_t n_ranks;
    double *moved;      /* [pp] what lists behind the optimizer move by (I3) */
    int64_t **of_stage; /* [pp] places in `ranks` */
    int64_t *n_of_stage;
} timeline;

static const char *wait_kind(const timeline *l, const seen_op *s)
{
    switch (s->as) {
    case SEEN_HOST:
        return "waiting for kernel launches";
    case SEEN_BUBBLE:
        return "pipeline bubble";
    case SEEN_STREAM:
        return "waiting for another stream";
    case SEEN_END:
        return "end of a list";
    default:
        return arena_text(l->a, "%s, exposed", cost_kind_title(s->kind));
    }
}

static trace_op describe(const timeline *l, const seen_op *s)
{
    bool op_seen = s->as == SEEN_OP, slowed = s->as == SEEN_SLOWED;
    trace_op o = described(s->p, s->it, s->o, s->kind);
    o.stream = s->lane;
    o.start = s->start;
    o.end = s->end;
    o.tag = s->message.tag;
    o.number = s->message.number;
    if (s->message.is) o.message = s->message.sends ? TRACE_SENDS : TRACE_RECEIVES;
    if (op_seen) return o;
    o.what = slowed ? TRACE_OPERATION : TRACE_WAIT;
    o.kind = slowed ? "compute slowed by hidden transfers" : wait_kind(l, s);
    if (slowed && !s->o) o.name = "slowed by hidden transfers";
    o.phase = o.group = NULL;
    o.bytes = -1;
    return o;
}

/* I2. False: it lies outside. */
static bool cut(const timeline *l, trace_op *o)
{
    o->seconds = o->end - o->start;
    if (o->start < l->window[0]) o->start = l->window[0];
    if (o->end > l->window[1]) o->end = l->window[1];
    o->start -= l->window[0];
    o->end -= l->window[0];
    return o->end > o->start;
}

static void add_for_stage(timeline *l, int64_t pp, trace_op o, const seen_message *m)
{
    if (!cut(l, &o)) return;
    for (int64_t i = 0; i < l->n_of_stage[pp]; i++) {
        o.rank = l->ranks[l->of_stage[pp][i]];
        if (m && m->is) o.peer = described_at_stage(l->s, o.rank, m->sends ? m->to : m->from);
        trace_add(l->t, o);
    }
}

static void see(void *to, const seen_op *s)
{
    timeline *l = to;
    int64_t pp = s->p->at.pp;
    seen_op moved = *s;
    if (s->part == PART_GATHER) { /* I3 */
        moved.start += l->moved[pp];
        moved.end += l->moved[pp];
    }
    if (!l->n_of_stage[pp] || moved.end <= l->window[0] || moved.start >= l->window[1]) return;
    add_for_stage(l, pp, describe(l, &moved), &s->message);
}

static bool is_wanted(void *to, const seen_item *i)
{
    const timeline *l = to;
    double by = i->part == PART_GATHER ? l->moved[i->p->at.pp] : 0;
    return l->n_of_stage[i->p->at.pp] && i->end + by > l->window[0] && i->start + by < l->window[1];
}

/* ---- ranks and streams */

static void open_ranks(timeline *l, const timeline_options *o)
{
    int64_t pp = l->s->pipe.pp, n = o->ranks ? o->n_ranks : pp;
    int64_t *ranks = ARENA_ARRAY(l->a, int64_t, n);
    for (int64_t i = 0; i < n; i++)
        ranks[i] = o->ranks ? o->ranks[i] : layout_stage_rank(&l->s->lay, i);
    l->ranks = ranks;
    l->n_ranks = n;
    l->of_stage = ARENA_ARRAY(l->a, int64_t *, pp);
    l->n_of_stage = ARENA_ARRAY(l->a, int64_t, pp);
    for (int64_t i = 0; i < pp; i++) l->of_stage[i] = ARENA_ARRAY(l->a, int64_t, n);
    for (int64_t i = 0; i < n; i++) {
        int64_t at = layout_coordinate(&l->s->lay, GRID_DENSE, AXIS_PP, ranks[i]);
        l->of_stage[at][l->n_of_stage[at]++] = i;
        trace_add_rank(l->t, ranks[i], described_rank(l->s, ranks[i], l->a));
    }
}

static void name_streams(trace *t, arena *a)
{
    t->streams = ARENA_ARRAY(a, const char *, PLAY_LANES);
    t->n_streams = PLAY_LANES;
    for (int i = 0; i < STREAM_COUNT; i++) t->streams[i] = op_stream_names[i];
    for (int i = 0; i < COST_KINDS; i++)
        t->streams[STREAM_COUNT + i] = cost_kind_title((cost_kind)i);
}

/* Waiting for the last stage, the optimizer, and waiting for the last gather. */
static void add_optimizer(timeline *l, const price_step *step)
{
    for (int64_t pp = 0; pp < l->s->pipe.pp; pp++) {
        double end = step->all_end + step->optimizer;
        trace_op o = {.what = TRACE_WAIT, .name = "the last stage", .kind = "pipeline bubble"};
        o.micro = o.layer = o.bytes = -1;
        o.start = step->end[pp];
        o.end = step->all_end;
        add_for_stage(l, pp, o, NULL);
        o.what = TRACE_OPERATION;
        o.name = o.kind = "optimizer";
        o.start = step->all_end;
        o.end = end;
        add_for_stage(l, pp, o, NULL);
    }
}

void price_timeline(trace *out, price *p, const price_job *j, const timeline_options *o, arena *a)
{
    int64_t pp = j->s->pipe.pp;
    price_step step;
    arena *scratch = arena_create();
    unit_list units = {.a = scratch, .last = ARENA_ARRAY(scratch, unit, pp)};
    timeline l = {.t = out, .s = j->s, .a = a};
    price_watched(p, &step, j, &(watcher){&units, time_item, NULL}, scratch);
    p->evidence = arena_text(a, "%s", p->evidence);
    l.window[1] = p->step_s;
    if (!o->whole) choose_window(l.window, &units, p, j->s->pipe.vpp); /* I1 */
    l.moved = ARENA_ARRAY(a, double, pp);
    for (int64_t i = 0; i < pp; i++) l.moved[i] = step.all_end + step.optimizer - step.end[i];
    arena_destroy(scratch);
    trace_init(out, "predicted", a);
    out->recipe = j->s->r.name;
    out->machine = j->hw->name;
    out->from = l.window[0];
    out->span = l.window[1] - l.window[0];
    out->step = p->step_s;
    open_ranks(&l, o);
    name_streams(out, a);
    price again;
    price_watched(&again, &step, j, &(watcher){&l, is_wanted, see}, a);
    add_optimizer(&l, &step);
    trace_sort(out);
}

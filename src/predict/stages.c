/* stages.c - simulates the pipeline ranks against each other.
 *
 * Each rank walks its items. A list costs what it was played for; messages between stages meet in
 * queues, one for each pair of neighbours and tag, in order; messages between replicas run on a
 * stream of their own.
 *
 * I1  A rank runs until it needs a message that has not been sent yet; then the next rank runs. If
 *     no rank advances in a whole round, the schedule is deadlocked.
 * I2  A message occupies the sender's link between stages for its time, whichever way it goes, and
 *     is there at its end.
 * I3  Waiting before a message is sent counts as pipeline bubble, waiting while it is in flight as
 *     exposed communication.
 * I4  A list costs the same whenever it runs, but with recorded routing it differs by layer.
 * I5  Where a receive is not posted ahead of its use, the message begins when its receiver comes to
 *     it. The sender's link and buffer are taken as if it had begun when it was sent. */
#include "predict/stages.h"

#include <string.h>

#include "ir/build/messages.h"

typedef struct sent {
    double start, end;
    int64_t from;
    seen_op told; /* for the sender's watcher, when it is received */
} sent;

typedef struct queue {
    sent *list;
    int64_t n, taken, room;
} queue;

/* A list as it was played for the layers of an item (I4). */
typedef struct layer_list {
    struct layer_list *next;
    int64_t first[2];
    simulated p;
} layer_list;

typedef struct rank_simulation {
    const program *p;
    stage_time *out;
    simulated *lists[2];    /* [phase][n_segments]; seconds < 0: not played yet */
    bool *messages[2];      /* the same: does the list meet other ranks or lists? */
    layer_list **routed[2]; /* the same where layers have loads of their own */
    double now, p2p, dp;
    int64_t next;     /* item */
    int next_op;      /* inside a list of messages that had to stop */
    double *done;     /* by event of the program */
    int64_t *awaited; /* by event: number of the message in its queue, -1: done[] says */
    cost_kind *kind;  /* by event */
    const watcher *watch;
    item_part part; /* for the watcher: what is played now */
    const item *it;
    const op *awaits;  /* what is waited for */
    const op **posted; /* by event: the operation that completes with it */
} rank_simulation;

typedef struct stages {
    const cost_model *c;
    cost_model *of_item; /* a copy with the layers of the item at hand */
    arena *a;
    int64_t pp;
    rank_simulation *ranks;
    queue *queues; /* [pp][2]: what arrives at a rank, by tag */
    const watcher *watch;
    op_cost *costs; /* of a list that a watcher sees; the arena is the watcher's, too */
    int costs_room;
} stages;

/* ---- watchers */

static seen_op placed(const rank_simulation *r, seen_op s)
{
    s.p = r->p;
    s.part = r->part;
    s.it = r->it;
    return s;
}

static void tell_as(const watcher *w, const seen_op *s)
{
    if (w && w->see && s->end > s->start) w->see(w->to, s);
}

static void tell(const rank_simulation *r, seen_op s)
{
    s = placed(r, s);
    tell_as(r->watch, &s);
}

/* Times of a list are from its start on. */
typedef struct list_watch {
    const rank_simulation *r;
    double start;
} list_watch;

static void tell_of_list(void *to, const seen_op *in)
{
    const list_watch *l = to;
    seen_op s = *in;
    s.start += l->start;
    s.end += l->start;
    tell(l->r, s);
}

/* Plays it again, for the watcher alone. */
static void show_list(stages *s, rank_simulation *r, const item *it, double seconds)
{
    seen_item i = {r->p, r->part, it, r->now, r->now + seconds};
    const watcher *w = r->watch;
    bool wanted = w->item ? w->item(w->to, &i) : true;
    if (!wanted || !w->see) return;
    list_watch to = {r, r->now};
    watcher listens = {.to = &to, .see = tell_of_list};
    const cost_model *c = s->c->by_layer ? s->of_item : s->c;
    int n = it->seg->n_ops[it->phase];
    if (n > s->costs_room) s->costs = ARENA_RAW(s->a, op_cost, s->costs_room = 2 * n);
    simulated again;
    arena *own = arena_create(); /* watchers may take from the others while it is played */
    simulation_costs(s->costs, c, it->seg, it->phase);
    simulate_with(&again, c, it->seg, it->phase, (simulation_options){s->costs, true, &listens},
                  own);
    arena_destroy(own);
}

/* ---- lists */

static bool has_messages_of_program(const segment *seg, int phase)
{
    for (int i = 0; i < seg->n_ops[phase]; i++) {
        const op *o = &seg->ops[phase][i];
        if ((o->flags & ACROSS) || op_is(o->kind, GIVES) || op_is(o->kind, TAKES)) return true;
    }
    return false;
}

static int64_t layer_of(const program *p, const item_at *at)
{
    if (at->chunk < 0) return 0;
    return p->chunks[at->chunk].list[at->instance].layer;
}

static const simulated *routed_list(stages *s, rank_simulation *r, const item *it)
{
    layer_list **at = &r->routed[it->phase][it->seg->id];
    int64_t f = layer_of(r->p, &it->at[0]), b = layer_of(r->p, &it->at[1]);
    s->of_item->first[0] = f;
    s->of_item->first[1] = b;
    for (layer_list *l = *at; l; l = l->next)
        if (l->first[0] == f && l->first[1] == b) return &l->p;
    layer_list *l = ARENA_NEW(s->a, layer_list);
    *l = (layer_list){.next = *at, .first = {f, b}};
    *at = l;
    simulate_list(&l->p, s->of_item, it->seg, it->phase, s->a);
    return &l->p;
}

static const simulated *simulated_list(stages *s, rank_simulation *r, const item *it)
{
    if (s->c->by_layer) return routed_list(s, r, it); /* I4 */
    simulated *l = &r->lists[it->phase][it->seg->id];
    if (l->seconds < 0) simulate_list(l, s->c, it->seg, it->phase, s->a);
    return l;
}

static void add_list(stage_time *t, const simulated *l)
{
    for (int k = 0; k < COST_KINDS; k++) {
        t->busy[k] += l->busy[k];
        t->exposed[k] += l->exposed[k];
    }
    t->host += l->host;
    t->slowed += l->slowed;
}

/* ---- messages between stages */

static void push(stages *s, queue *q, sent m)
{
    ARENA_GROW(s->a, q->list, q->n, q->room);
    q->list[q->n++] = m;
}

static int64_t neighbour(const stages *s, int64_t pp, int64_t step)
{
    return ((pp + step) % s->pp + s->pp) % s->pp;
}

static void wait_until(rank_simulation *r, double when, double since, cost_kind k)
{
    if (when <= r->now) return;
    double from = since > r->now ? since : r->now; /* I3 */
    const op *o = r->awaits;
    tell(r, (seen_op){.o = o, .as = SEEN_BUBBLE, .kind = k, .start = r->now, .end = from});
    tell(r, (seen_op){.o = o, .as = SEEN_EXPOSED, .kind = k, .start = from, .end = when});
    r->out->bubble += from - r->now;
    r->out->exposed[k] += when - from;
    r->now = when;
}

/* The receiver comes to it only now: the message begins when both are there (I5). */
static void meet_now(queue *q, double now)
{
    if (q->taken >= q->n) return;
    sent *m = &q->list[q->taken];
    if (m->start >= now) return;
    m->end += now - m->start;
    m->start = now;
}

/* False: not sent yet (I1). */
static bool take(rank_simulation *r, queue *q, int64_t number)
{
    if (number >= q->n) return false;
    sent *m = &q->list[number];
    if (r->watch) {
        m->told.start = m->start;
        m->told.end = m->end;
        tell_as(r->watch, &m->told);
        tell(r, (seen_op){.o = r->awaits,
                          .kind = COST_PP,
                          .lane = (int)r->awaits->stream,
                          .start = m->start,
                          .end = m->end,
                          .message = {true, false, m->from, r->p->at.pp,
                                      r->awaits->dim[DIM_RECV_TAG], number}});
    }
    wait_until(r, m->end, m->start, COST_PP);
    return true;
}

static void start_message(stages *s, rank_simulation *r, const segment *seg, const op *o)
{
    op_cost cost = cost_of(s->c, seg, o);
    double *stream = o->group == GROUP_PP ? &r->p2p : &r->dp;
    double start = r->now > *stream ? r->now : *stream;
    *stream = start + cost.seconds; /* I2 */
    r->out->busy[cost.kind] += cost.seconds;
    r->done[o->event] = *stream;
    r->awaited[o->event] = -1;
    r->kind[o->event] = cost.kind;
    r->posted[o->event] = o;
    seen_op told = {.o = o, .kind = cost.kind, .lane = (int)o->stream, .start = start};
    told.end = *stream;
    if (op_is(o->kind, GIVES)) {
        int64_t to = neighbour(s, r->p->at.pp, o->dim[DIM_SEND_STEP]), tag = o->dim[DIM_SEND_TAG];
        queue *q = &s->queues[to * 2 + tag];
        told.message = (seen_message){true, true, r->p->at.pp, to, tag, q->n};
        push(s, q, (sent){start, *stream, r->p->at.pp, placed(r, told)});
        return;
    }
    tell(r, told);
}

/* Operations of a list of messages. False: it has to stop before operation next_op. */
static bool run_messages(stages *s, rank_simulation *r, const item *it)
{
    const segment *seg = it->seg;
    for (int n = seg->n_ops[it->phase]; r->next_op < n; r->next_op++) {
        const op *o = &seg->ops[it->phase][r->next_op];
        bool across = (o->flags & ACROSS) != 0;
        int64_t tag = op_is(o->kind, TAKES) ? o->dim[DIM_RECV_TAG] : 0;
        queue *mine = &s->queues[r->p->at.pp * 2 + tag];
        if (op_is(o->kind, TAKES) && across) {
            r->awaited[o->event] = mine->taken++;
            r->kind[o->event] = COST_PP;
            r->posted[o->event] = o;
        } else if (op_is(o->kind, TAKES)) {
            r->awaits = o;
            meet_now(mine, r->now);
            if (!take(r, mine, mine->taken)) return false;
            mine->taken++;
        } else if (o->kind == OP_WAIT && across) {
            int64_t e = o->dim[DIM_WAIT_EVENT];
            r->awaits = r->posted[e];
            if (r->awaited[e] >= 0) {
                int64_t backward = r->posted[e]->dim[DIM_RECV_TAG];
                if (!take(r, &s->queues[r->p->at.pp * 2 + backward], r->awaited[e])) return false;
                r->awaited[e] = -1;
                r->done[e] = 0;
            }
            wait_until(r, r->done[e], r->now, r->kind[e]);
        } else if (op_is_comm(o->kind)) {
            start_message(s, r, seg, o);
        }
    }
    r->next_op = 0;
    return true;
}

/* ---- ranks */

static bool run_item(stages *s, rank_simulation *r, const item *it)
{
    r->it = it;
    if (r->messages[it->phase][it->seg->id]) return run_messages(s, r, it);
    const simulated *l = simulated_list(s, r, it);
    if (r->watch) show_list(s, r, it, l->seconds);
    add_list(r->out, l);
    r->now += l->seconds;
    return true;
}

static bool run_rank(stages *s, rank_simulation *r)
{
    const item_list *l = &r->p->items[PART_STEP];
    int64_t before = r->next;
    int op_before = r->next_op;
    while (r->next < l->n && run_item(s, r, &l->list[r->next])) r->next++;
    return r->next != before || r->next_op != op_before;
}

static void run_part(stages *s, rank_simulation *r, item_part part, double *seconds)
{
    double start = r->now;
    const item_list *l = &r->p->items[part];
    r->part = part;
    for (int64_t i = 0; i < l->n; i++) run_item(s, r, &l->list[i]);
    *seconds = r->now - start;
}

static void open_rank(stages *s, rank_simulation *r, const program *p, stage_time *out)
{
    *r = (rank_simulation){.p = p, .out = out, .watch = s->watch, .part = PART_STEP};
    *out = (stage_time){0};
    for (int phase = 0; phase < 2; phase++) {
        r->lists[phase] = ARENA_ARRAY(s->a, simulated, p->n_segments);
        r->routed[phase] = ARENA_ARRAY(s->a, layer_list *, p->n_segments);
        r->messages[phase] = ARENA_ARRAY(s->a, bool, p->n_segments);
        for (int i = 0; i < p->n_segments; i++) {
            r->messages[phase][i] = has_messages_of_program(p->segments[i], phase);
            r->lists[phase][i].seconds = -1;
            r->routed[phase][i] = NULL;
        }
    }
    r->done = ARENA_ARRAY(s->a, double, p->n_events + 1);
    r->awaited = ARENA_ARRAY(s->a, int64_t, p->n_events + 1);
    r->kind = ARENA_ARRAY(s->a, cost_kind, p->n_events + 1);
    r->posted = ARENA_ARRAY(s->a, const op *, p->n_events + 1);
    for (int i = 0; i <= p->n_events; i++) {
        r->done[i] = 0;
        r->awaited[i] = -1;
        r->kind[i] = COST_OTHER;
    }
}

bool simulate_stages(stage_time *out, const stage_simulation *simulation, arena *a)
{
    const cost_model *c = simulation->c;
    program *const *programs = simulation->programs;
    stages s = {.c = c, .a = a, .pp = c->s->pipe.pp, .watch = simulation->watch};
    s.of_item = ARENA_NEW(a, cost_model);
    *s.of_item = *c;
    s.ranks = ARENA_ARRAY(a, rank_simulation, s.pp);
    s.queues = ARENA_ARRAY(a, queue, s.pp * 2);
    memset(s.queues, 0, sizeof *s.queues * (size_t)s.pp * 2);
    for (int64_t i = 0; i < s.pp; i++) open_rank(&s, &s.ranks[i], programs[i], &out[i]);
    bool moved = true, all = false;
    while (moved && !all) { /* I1 */
        moved = false;
        all = true;
        for (int64_t i = 0; i < s.pp; i++) {
            moved = run_rank(&s, &s.ranks[i]) || moved;
            all = all && s.ranks[i].next == programs[i]->items[PART_STEP].n;
        }
    }
    for (int64_t i = 0; i < s.pp; i++) {
        out[i].end = s.ranks[i].now;
        run_part(&s, &s.ranks[i], PART_FINISH, &out[i].finish);
        if (!programs[i]->gathers_late) run_part(&s, &s.ranks[i], PART_GATHER, &out[i].gather);
    }
    return all;
}

/* simulate.c - is there a deadlock?
 *
 * Every actor goes through its list, puts messages into the queues of their streams, and stops at a
 * WAIT for a message that is not complete. A message begins when the one before it in its queue is
 * complete; a send is complete when its receive has begun, a collective when all members have begun
 * it. What a rank does next never depends on time, only on what others have begun, and beginning
 * more never stops anybody: so if one way of taking turns comes to the end, all do. For the same
 * reason the parts may be played one after another, as if all ranks met between them.
 *
 * A WAIT stops the whole actor, whichever stream it stands on, as it does where ranks are CPUs. A
 * device that stops only that stream begins messages no later than that, so it stops nowhere else.
 *
 * I1  `begun` of an actor in a lane is how many messages it has begun there; message k (from 0) of
 *     a lane is complete when the actor itself and every actor around have begun more than k. A
 *     lane has one stream, so it begins in the order in which it was queued.
 * I2  Events of a list are free at its end, events of the program at the end of the step.
 * I3  The first message of a queue has begun, the others have not. It leaves the queue when the
 *     next one is to begin, or when it was waited for. */
#include "predict/audit/simulate.h"

#include <inttypes.h>
#include <string.h>

#define WORK_MAX 3e8 /* messages that are still played once other faults are known */

/* ---- queues */

static void queue_take(queue *q)
{
    q->first = q->first + 1 == q->room ? 0 : q->first + 1;
    q->n--;
}

/* A copy with more room, if any is asked for. */
static void queue_copy(queue *to, const queue *from, arena *a)
{
    int room = from->room > 2 * from->n ? from->room : 2 * from->n + 4;
    under_way *list = arena_take(a, sizeof *list * (size_t)room);
    for (int i = 0; i < from->n; i++) list[i] = from->list[(from->first + i) % from->room];
    *to = (queue){list, 0, from->n, room};
}

static void queue_put(queue *q, under_way u, arena *a)
{
    if (q->n == q->room) queue_copy(q, q, a);
    int at = q->first + q->n;
    q->list[at < q->room ? at : at - q->room] = u;
    q->n++;
}

/* ---- setting up */

/* The actors of a group. */
static lane_around around_collective(simulation *p, comm_group group, int64_t rank, int lane)
{
    const group_table *g = &p->t->groups[group];
    if (!p->groups[group]) p->groups[group] = ARENA_ARRAY(p->a, lane_around, g->n_groups);
    lane_around *x = &p->groups[group][g->group_of[rank]];
    x->lane = lane;
    if (x->who) return *x;
    x->who = ARENA_ARRAY(p->a, int32_t, g->n < p->c.n ? g->n : p->c.n);
    p->mark++;
    for (int64_t i = 0; i < g->n; i++) {
        int32_t c = p->c.of[group_at(g, rank)[i]];
        if (p->stamp[c] != p->mark) x->who[x->n++] = c;
        p->stamp[c] = p->mark;
    }
    return *x;
}

static lane_around around_of(simulation *p, int64_t rank, int lane)
{
    const audit_lane *l = &p->t->book->lanes[lane];
    const group_table *g = &p->t->groups[l->group];
    if (!p->t->ids[p->t->class_of[rank]][lane] || g->group_of[rank] < 0)
        return (lane_around){.lane = lane}; /* not used, or already a fault */
    if (l->kind == LANE_COLLECTIVE) return around_collective(p, l->group, rank, lane);
    lane_around x = {.n = 1, .who = ARENA_ARRAY(p->a, int32_t, 1)};
    x.who[0] = p->c.of[group_partner(g, rank, l->step)];
    x.lane = lane_opposite(p->t, lane);
    return x;
}

/* A new part: what an actor of the part before has under way goes on. */
static void set_up(simulation *p, item_part part, const simulation *before)
{
    int n_lanes = p->t->book->n_lanes;
    p->actors = ARENA_ARRAY(p->a, actor, p->c.n);
    p->stamp = ARENA_ARRAY(p->a, int64_t, p->c.n);
    for (int32_t i = 0; i < p->c.n; i++) {
        actor *x = &p->actors[i];
        const audit_class *c = &p->t->classes[p->t->class_of[p->c.rank[i]]];
        *x = (actor){.rank = p->c.rank[i], .part = c->trace.part[part]};
        x->queued = ARENA_ARRAY(p->a, int64_t, n_lanes + 1);
        x->begun = ARENA_ARRAY(p->a, int64_t, n_lanes + 1);
        x->around = ARENA_ARRAY(p->a, lane_around, n_lanes + 1);
        x->local = ARENA_ARRAY(p->a, under_way, p->local_room + 1);
        x->across = ARENA_ARRAY(p->a, under_way, c->trace.n_events + 1);
        for (int l = 0; l < n_lanes; l++) x->around[l] = around_of(p, x->rank, l);
        if (!before) continue;
        const actor *was = &before->actors[before->c.of[x->rank]];
        memcpy(x->queued, was->queued, sizeof *x->queued * (size_t)n_lanes);
        memcpy(x->begun, was->begun, sizeof *x->begun * (size_t)n_lanes);
        for (int k = 0; k < STREAM_COUNT; k++) queue_copy(&x->streams[k], &was->streams[k], p->a);
        memcpy(x->across, was->across, sizeof *x->across * (size_t)(c->trace.n_events + 1));
    }
}

/* ---- playing */

static bool complete(const simulation *p, const actor *x, const under_way *u)
{
    const lane_around *around = &x->around[u->message->lane];
    if (x->begun[u->message->lane] <= u->k) return false; /* I1 */
    for (int i = 0; i < around->n; i++)
        if (around->lane < 0 || p->actors[around->who[i]].begun[around->lane] <= u->k) return false;
    return true;
}

/* The first of the queue is complete: the next begins. */
static void begin_next(actor *x, queue *q)
{
    queue_take(q);
    if (q->n) x->begun[queue_head(q)->message->lane]++; /* I3 */
}

/* Begins what can begin. Returns whether anything did. */
static bool move_streams(const simulation *p, actor *x)
{
    bool moved = false;
    for (int k = 0; k < STREAM_COUNT; k++) {
        queue *q = &x->streams[k];
        for (; q->n > 1 && complete(p, x, queue_head(q)); moved = true) begin_next(x, q);
    }
    return moved;
}

static void event_fault(simulation *p, actor *x, const under_way *u, const char *what)
{
    if (x->told) return;
    x->told = true;
    audit_fault *f = fault_add(p->t, FAULT_EVENT, x->rank, x->rank, u->message->name);
    if (f)
        f->text = arena_text(p->t->a, "rank %" PRId64 " starts %s, and %s", x->rank,
                             entry_text(u->it, u->message, p->t->a), what);
}

under_way *simulation_slot(const simulation *p, actor *x, const audit_entry *e)
{
    int n_events = p->t->classes[p->t->class_of[x->rank]].trace.n_events;
    if (e->event < 0 || e->event > (e->across ? n_events : p->local_room)) return NULL;
    return e->across ? &x->across[e->event] : &x->local[e->event];
}

static void start(simulation *p, actor *x, const audit_item *it, const audit_entry *e)
{
    under_way now = {it, e, x->queued[e->lane]++}, *slot = simulation_slot(p, x, e);
    queue *q = &x->streams[e->stream];
    while (q->n && complete(p, x, queue_head(q))) begin_next(x, q);
    queue_put(q, now, p->a);
    if (q->n == 1) x->begun[e->lane]++; /* I3 */
    if (!slot) {
        event_fault(p, x, &now, "its event does not belong to the program");
        return;
    }
    if (slot->message)
        event_fault(p, x, slot,
                    "starts another message with the same event before waiting for the first");
    else if (!e->across)
        x->n_local++;
    *slot = now;
}

/* Goes on as far as it can. Returns whether it moved. */
static bool advance(simulation *p, actor *x)
{
    bool moved = move_streams(p, x);
    while (x->item < x->part->n) {
        const audit_item *it = &x->part->items[x->item];
        for (; x->entry < it->list->n; x->entry++, moved = true) {
            const audit_entry *e = &it->list->entries[x->entry];
            if (e->kind != OP_WAIT) {
                start(p, x, it, e);
                continue;
            }
            under_way *u = simulation_slot(p, x, e);
            if (!u || !u->message) continue; /* nothing to wait for */
            if (!complete(p, x, u)) return moved;
            queue *q = &x->streams[u->message->stream];
            if (q->n && queue_head(q)->message == u->message && queue_head(q)->k == u->k)
                begin_next(x, q); /* I3 */
            u->message = NULL;
            if (!e->across) x->n_local--;
        }
        for (int i = 1; x->n_local && i <= it->list->n_events; i++) { /* I2 */
            if (!x->local[i].message) continue;
            event_fault(p, x, &x->local[i], "no operation waits for it before its list ends");
            x->local[i].message = NULL;
        }
        x->n_local = 0;
        x->item++;
        x->entry = 0;
        moved = true;
    }
    return moved;
}

static bool simulate_part(simulation *p)
{
    bool moved = true, done = false;
    while (moved && !done) {
        moved = false;
        done = true;
        for (int32_t i = 0; i < p->c.n; i++) {
            moved = advance(p, &p->actors[i]) || moved;
            done = done && p->actors[i].item == p->actors[i].part->n;
        }
    }
    return done;
}

static void still_under_way(simulation *p)
{
    for (int32_t i = 0; i < p->c.n; i++) {
        actor *x = &p->actors[i];
        int n_events = p->t->classes[p->t->class_of[x->rank]].trace.n_events;
        for (int e = 0; e <= n_events; e++)
            if (x->across[e].message)
                event_fault(p, x, &x->across[e], "no operation of the step waits for it"); /* I2 */
    }
}

/* ---- all */

/* Messages to be played, of all actors. */
static double work_of(const audit_state *t, const colours *c, item_part part)
{
    double n = 0;
    for (int32_t i = 0; i < c->n; i++) {
        const audit_part *p = t->classes[t->class_of[c->rank[i]]].trace.part[part];
        for (int l = 0; l < t->book->n_lanes; l++) n += (double)p->use[l].count;
    }
    return n;
}

static int most_events(const audit_book *book)
{
    int n = 0;
    for (int i = 0; i < book->n_lists; i++)
        if (book->lists[i]->n_events > n) n = book->lists[i]->n_events;
    return n;
}

void simulate_all(audit_state *t)
{
    arena *a = arena_create();
    simulation parts[PART_COUNT];
    bool done = true;
    t->out->simulated = true;
    for (int k = 0; k < PART_COUNT && done; k++) {
        simulation *p = &parts[k], *before = k ? &parts[k - 1] : NULL;
        *p = (simulation){.t = t, .a = a, .local_room = most_events(t->book)};
        p->c = colours_make(t, (item_part)k, before ? &before->c : NULL, a);
        if (p->c.n > t->out->actors) t->out->actors = p->c.n;
        if (t->out->n_all_faults && work_of(t, &p->c, (item_part)k) > WORK_MAX) {
            t->out->simulated = false;
            break;
        }
        set_up(p, (item_part)k, before);
        done = simulate_part(p);
        if (!done) deadlock_name(p);
        if (done && k == PART_COUNT - 1) still_under_way(p);
    }
    arena_destroy(a);
}

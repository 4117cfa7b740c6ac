/* play.c - is there a deadlock?
 *
 * Every actor goes through its list until it meets a WAIT for a message that others have not
 * started, and goes on once they have. A send waits for its receive; a collective for all members.
 * What a rank does next never depends on time, only on what others have started, and starting more
 * never stops anybody: so if one way of taking turns comes to the end, all do. For the same reason
 * the parts may be played one after another, as if all ranks met between them.
 *
 * I1  `count` of an actor in a lane is how many messages it has started there; message k (from 0)
 *     of a lane is complete when every actor around has a count above k.
 * I2  Events of a list are free at its end, events of the program at the end of the step. */
#include "audit/colours.h"

#include <inttypes.h>
#include <string.h>

#define WORK_MAX 3e8 /* messages that are still played once other faults are known */

typedef struct under_way {
    const audit_item *it;
    const audit_entry *message; /* NULL: nothing */
    int64_t k;
} under_way;

/* Whom a lane depends on. */
typedef struct lane_around {
    int32_t *who; /* [n] actors */
    int n;
    int lane; /* theirs; -1: they have no such lane */
} lane_around;

typedef struct actor {
    int64_t rank;
    const audit_part *part;
    int64_t item;
    int entry;
    int64_t *count;      /* [n_lanes] */
    lane_around *around; /* [n_lanes] */
    under_way *local, *across;
    int n_local; /* under way now */
    bool told;   /* of a fault with its events */
} actor;

typedef struct play {
    audit_state *t;
    arena *a;
    colours c;
    actor *actors; /* [c.n] */
    int local_room;
    lane_around *groups[GROUP_COUNT]; /* [n_groups]: the actors of each group, once asked for */
    int64_t *stamp;                   /* [c.n] */
    int64_t mark;
} play;

/* ---- setting up */

/* The actors of a group. */
static lane_around around_collective(play *p, comm_group group, int64_t rank, int lane)
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

static lane_around around_of(play *p, int64_t rank, int lane)
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
static void set_up(play *p, item_part part, const play *before)
{
    int n_lanes = p->t->book->n_lanes;
    p->actors = ARENA_ARRAY(p->a, actor, p->c.n);
    p->stamp = ARENA_ARRAY(p->a, int64_t, p->c.n);
    for (int32_t i = 0; i < p->c.n; i++) {
        actor *x = &p->actors[i];
        const audit_class *c = &p->t->classes[p->t->class_of[p->c.rank[i]]];
        *x = (actor){.rank = p->c.rank[i], .part = c->stream.part[part]};
        x->count = ARENA_ARRAY(p->a, int64_t, n_lanes + 1);
        x->around = ARENA_ARRAY(p->a, lane_around, n_lanes + 1);
        x->local = ARENA_ARRAY(p->a, under_way, p->local_room + 1);
        x->across = ARENA_ARRAY(p->a, under_way, c->stream.n_events + 1);
        for (int l = 0; l < n_lanes; l++) x->around[l] = around_of(p, x->rank, l);
        if (!before) continue;
        const actor *was = &before->actors[before->c.of[x->rank]];
        memcpy(x->count, was->count, sizeof *x->count * (size_t)n_lanes);
        memcpy(x->across, was->across, sizeof *x->across * (size_t)(c->stream.n_events + 1));
    }
}

/* ---- playing */

static bool complete(const play *p, const actor *x, const under_way *u)
{
    const lane_around *around = &x->around[u->message->lane];
    for (int i = 0; i < around->n; i++)
        if (around->lane < 0 || p->actors[around->who[i]].count[around->lane] <= u->k) /* I1 */
            return false;
    return true;
}

static void event_fault(play *p, actor *x, const under_way *u, const char *what)
{
    if (x->told) return;
    x->told = true;
    audit_fault *f = fault_add(p->t, FAULT_EVENT, x->rank, x->rank, u->message->name);
    if (f)
        f->text = arena_text(p->t->a, "rank %" PRId64 " starts %s, and %s", x->rank,
                             entry_text(u->it, u->message, p->t->a), what);
}

static under_way *slot_of(const play *p, actor *x, const audit_entry *e)
{
    int n_events = p->t->classes[p->t->class_of[x->rank]].stream.n_events;
    if (e->event < 0 || e->event > (e->across ? n_events : p->local_room)) return NULL;
    return e->across ? &x->across[e->event] : &x->local[e->event];
}

static void start(play *p, actor *x, const audit_item *it, const audit_entry *e)
{
    under_way now = {it, e, x->count[e->lane]++}, *slot = slot_of(p, x, e);
    if (!slot) {
        event_fault(p, x, &now, "its event does not belong to the program");
        return;
    }
    if (slot->message)
        event_fault(p, x, slot, "starts another message with the same event before it waits");
    else if (!e->across)
        x->n_local++;
    *slot = now;
}

/* Goes on as far as it can. Returns whether it moved. */
static bool advance(play *p, actor *x)
{
    bool moved = false;
    while (x->item < x->part->n) {
        const audit_item *it = &x->part->items[x->item];
        for (; x->entry < it->list->n; x->entry++, moved = true) {
            const audit_entry *e = &it->list->entries[x->entry];
            if (e->kind != OP_WAIT) {
                start(p, x, it, e);
                continue;
            }
            under_way *u = slot_of(p, x, e);
            if (!u || !u->message) continue; /* nothing to wait for */
            if (!complete(p, x, u)) return moved;
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

static bool play_part(play *p)
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

/* ---- who waits for whom */

static const under_way *waits_for(const play *p, actor *x)
{
    if (x->item == x->part->n) return NULL;
    return slot_of(p, x, &x->part->items[x->item].list->entries[x->entry]);
}

static actor *missing(const play *p, const actor *x, const under_way *u)
{
    const lane_around *around = &x->around[u->message->lane];
    for (int i = 0; i < around->n; i++) {
        actor *other = &p->actors[around->who[i]];
        if (around->lane < 0 || other->count[around->lane] <= u->k) return other;
    }
    return NULL;
}

/* The rank of that actor which takes part in the message. */
static int64_t peer_rank(const play *p, const actor *x, const under_way *u, const actor *other)
{
    const audit_lane *l = &p->t->book->lanes[u->message->lane];
    const group_table *g = &p->t->groups[l->group];
    if (l->kind != LANE_COLLECTIVE) return group_partner(g, x->rank, l->step);
    for (int64_t i = 0; i < g->n; i++)
        if (&p->actors[p->c.of[group_at(g, x->rank)[i]]] == other) return group_at(g, x->rank)[i];
    return other->rank;
}

/* From one that waits to the one it waits for, until somebody comes a second time or is at the end
 * of the part. */
static void name_deadlock(play *p)
{
    bool *met = ARENA_ARRAY(p->a, bool, p->c.n);
    int64_t waiting = 0;
    actor *x = NULL;
    for (int32_t i = p->c.n - 1; i >= 0; i--)
        if (waits_for(p, &p->actors[i])) {
            x = &p->actors[i];
            for (int64_t r = 0; r < p->t->s->lay.world; r++) waiting += p->c.of[r] == i;
        }
    textbuf text = text_init(p->t->a);
    audit_fault *f = NULL;
    int steps = 0;
    while (x && !met[x - p->actors]) {
        const under_way *u = waits_for(p, x);
        actor *other = u ? missing(p, x, u) : NULL;
        met[x - p->actors] = true;
        if (!other) {
            text_add(&text, "rank %" PRId64 " has started everything it has", x->rank);
            break;
        }
        if (!f) f = fault_add(p->t, FAULT_DEADLOCK, x->rank, other->rank, u->message->name);
        if (f && f->peer == other->rank && !steps) f->peer = peer_rank(p, x, u, other);
        if (steps++ < 8)
            text_add(&text,
                     "rank %" PRId64 " waits for %s, which rank %" PRId64 " has not started; ",
                     x->rank, entry_text(u->it, u->message, p->t->a), peer_rank(p, x, u, other));
        x = other;
    }
    if (x && met[x - p->actors] && waits_for(p, x))
        text_add(&text, "so rank %" PRId64 " waits for itself", x->rank);
    if (f) f->text = arena_text(p->t->a, "%s (%" PRId64 " ranks are deadlocked)", text.s, waiting);
}

static void still_under_way(play *p)
{
    for (int32_t i = 0; i < p->c.n; i++) {
        actor *x = &p->actors[i];
        int n_events = p->t->classes[p->t->class_of[x->rank]].stream.n_events;
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
        const audit_part *p = t->classes[t->class_of[c->rank[i]]].stream.part[part];
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

void play_all(audit_state *t)
{
    arena *a = arena_create();
    play parts[PART_COUNT];
    bool done = true;
    t->out->played = true;
    for (int k = 0; k < PART_COUNT && done; k++) {
        play *p = &parts[k], *before = k ? &parts[k - 1] : NULL;
        *p = (play){.t = t, .a = a, .local_room = most_events(t->book)};
        p->c = colours_make(t, (item_part)k, before ? &before->c : NULL, a);
        if (p->c.n > t->out->actors) t->out->actors = p->c.n;
        if (t->out->n_all_faults && work_of(t, &p->c, (item_part)k) > WORK_MAX) {
            t->out->played = false;
            break;
        }
        set_up(p, (item_part)k, before);
        done = play_part(p);
        if (!done) name_deadlock(p);
        if (done && k == PART_COUNT - 1) still_under_way(p);
    }
    arena_destroy(a);
}

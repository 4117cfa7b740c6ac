/* deadlock.c - describes a deadlock: which rank waits for which message of which rank. */
#include "predict/audit/simulate.h"

#include <inttypes.h>

static const under_way *waits_for(const simulation *p, actor *x)
{
    if (x->item == x->part->n) return NULL;
    return simulation_slot(p, x, &x->part->items[x->item].list->entries[x->entry]);
}

static actor *missing(const simulation *p, const actor *x, const under_way *u)
{
    const lane_around *around = &x->around[u->message->lane];
    for (int i = 0; i < around->n; i++) {
        actor *other = &p->actors[around->who[i]];
        if (around->lane < 0 || other->begun[around->lane] <= u->k) return other;
    }
    return NULL;
}

/* The rank of that actor which takes part in the message. */
static int64_t peer_rank(const simulation *p, const actor *x, const under_way *u,
                         const actor *other)
{
    const audit_lane *l = &p->t->book->lanes[u->message->lane];
    const group_table *g = &p->t->groups[l->group];
    if (l->kind != LANE_COLLECTIVE) return group_partner(g, x->rank, l->step);
    for (int64_t i = 0; i < g->n; i++)
        if (&p->actors[p->c.of[group_at(g, x->rank)[i]]] == other) return group_at(g, x->rank)[i];
    return other->rank;
}

/* The message in whose queue that of the actor stands: it has been started, but has not begun.
 * NULL: it was not even started. */
static const under_way *in_front(const actor *x, int lane, int64_t k)
{
    if (lane < 0 || x->queued[lane] <= k) return NULL;
    for (int s = 0; s < STREAM_COUNT; s++) {
        const queue *q = &x->streams[s];
        for (int i = 1; i < q->n; i++)
            if (q->list[(q->first + i) % q->room].message->lane == lane) return queue_head(q);
    }
    return NULL;
}

/* What stops an actor: a WAIT, or the first message of a queue. */
typedef struct stop {
    actor *x;
    const under_way *u;
} stop;

/* From a message that is not complete to what stops one that has not begun it; adds the sentence.
 * Nothing stops an actor that has started everything. */
static stop next_stop(simulation *p, stop now, bool said, textbuf *text)
{
    arena *a = p->t->a;
    const under_way *own = NULL;
    if (now.x->begun[now.u->message->lane] <= now.u->k)
        own = in_front(now.x, now.u->message->lane, now.u->k);
    const char *what = entry_text(now.u->it, now.u->message, a);
    if (own) {
        if (said)
            text_add(text, "rank %" PRId64 " waits for %s, which stands behind %s on stream %s; ",
                     now.x->rank, what, entry_text(own->it, own->message, a),
                     op_stream_names[own->message->stream]);
        return (stop){now.x, own};
    }
    actor *other = missing(p, now.x, now.u);
    if (!other) return (stop){NULL, NULL};
    int64_t peer = peer_rank(p, now.x, now.u, other);
    const under_way *front = in_front(other, now.x->around[now.u->message->lane].lane, now.u->k);
    if (said && front)
        text_add(text,
                 "rank %" PRId64 " waits for %s, which on rank %" PRId64
                 " stands behind %s on stream %s; ",
                 now.x->rank, what, peer, entry_text(front->it, front->message, a),
                 op_stream_names[front->message->stream]);
    else if (said)
        text_add(text, "rank %" PRId64 " waits for %s, which rank %" PRId64 " has not started; ",
                 now.x->rank, what, peer);
    return (stop){other, front ? front : waits_for(p, other)};
}

/* The first actor that waits, and how many ranks do. */
static stop first_stop(simulation *p, int64_t *waiting)
{
    stop at = {NULL, NULL};
    for (int32_t i = p->c.n - 1; i >= 0; i--) {
        const under_way *u = waits_for(p, &p->actors[i]);
        if (!u) continue;
        at = (stop){&p->actors[i], u};
        for (int64_t r = 0; r < p->t->s->lay.world; r++) *waiting += p->c.of[r] == i;
    }
    return at;
}

/* From one that waits to the one it waits for, until a message comes a second time or somebody is
 * at the end of the part. */
void deadlock_name(simulation *p)
{
    enum { STEPS = 64, SAID = 8 };
    int64_t waiting = 0;
    stop at = first_stop(p, &waiting), met[STEPS];
    if (!at.x) return;
    textbuf text = text_init(p->t->a);
    audit_fault *f = fault_add(p->t, FAULT_DEADLOCK, at.x->rank, at.x->rank, at.u->message->name);
    bool circle = false;
    for (int n = 0; at.u && n < STEPS && !circle; n++) {
        met[n] = at;
        const actor *other = missing(p, at.x, at.u);
        if (f && other && f->peer == f->rank) f->peer = peer_rank(p, at.x, at.u, other);
        at = next_stop(p, at, n < SAID, &text);
        for (int i = 0; i <= n; i++)
            circle |= at.u && met[i].x == at.x && met[i].u->message == at.u->message;
    }
    if (circle) text_add(&text, "so rank %" PRId64 " waits for itself", at.x->rank);
    if (at.x && !at.u)
        text_add(&text, "rank %" PRId64 " has started everything it has", at.x->rank);
    if (f) f->text = arena_text(p->t->a, "%s (%" PRId64 " ranks are deadlocked)", text.s, waiting);
}

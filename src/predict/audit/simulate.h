/* simulate.h - ranks that are played; shared by simulate.c and deadlock.c. */
#ifndef PREDICT_AUDIT_SIMULATE_H
#define PREDICT_AUDIT_SIMULATE_H

#include "predict/audit/colours.h"

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

/* Messages of a stream, in order (I3). */
typedef struct queue {
    under_way *list; /* [room] */
    int first, n, room;
} queue;

typedef struct actor {
    int64_t rank;
    const audit_part *part;
    int64_t item;
    int entry;
    int64_t *queued, *begun; /* [n_lanes]: messages so far */
    queue streams[STREAM_COUNT];
    lane_around *around; /* [n_lanes] */
    under_way *local, *across;
    int n_local; /* under way now */
    bool told;   /* of a fault with its events */
} actor;

typedef struct simulation {
    audit_state *t;
    arena *a;
    colours c;
    actor *actors; /* [c.n] */
    int local_room;
    lane_around *groups[GROUP_COUNT]; /* [n_groups]: the actors of each group, once asked for */
    int64_t *stamp;                   /* [c.n] */
    int64_t mark;
} simulation;

/* The first message of a queue; NULL: it is empty. */
static inline under_way *queue_head(const queue *q)
{
    return q->n ? &q->list[q->first] : NULL;
}

/* Where an actor keeps what is under way with the event of an entry; NULL: there is no such event.
 */
under_way *simulation_slot(const simulation *p, actor *x, const audit_entry *e);

/* Nobody can go on: adds the fault that says why. */
void deadlock_name(simulation *p);

#endif

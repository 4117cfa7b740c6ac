/* streams.c - the messages of a stream, one after another.
 *
 * I1  The first message of a stream's queue has begun, the others have not. It leaves the queue
 *     when it is complete: seen when the next one could begin, or when it is waited for.
 * I2  Every look at any message lets all streams begin what they can: whoever this rank waits for
 *     may wait for what stands in another queue of this rank.
 * I3  The control plane has no queue: a small call may be what a message of a stream waits for.
 *
 * On an emulated link a message begins at the time at which the one before was complete there, not
 * at the time at which somebody looked. */
#include <stdio.h>

#include "base/clock.h"
#include "comm/state.h"

static void check(comm *c, const message *m)
{
    char text[240];
    bool in_group = c->groups[m->group].n > 0;
    bool open = m->stream == STREAM_HOST || c->open.on[m->group][m->channel];
    if (in_group && open) return;
    if (in_group)
        snprintf(text, sizeof text,
                 "%s %s: no communicator of group %s is open for stream %s (comm_streams)", m->what,
                 m->name ? m->name : "", comm_group_name(m->group), op_stream_names[m->stream]);
    else
        snprintf(text, sizeof text, "%s %s: this rank is in no group %s", m->what,
                 m->name ? m->name : "", comm_group_name(m->group));
    comm_abort(c, ERR_MACHINE, text);
}

void stream_put(comm *c, message *m)
{
    op_stream s = m->stream;
    m->channel = op_stream_channel(s);
    m->started = clock_seconds();
    check(c, m);
    comm_count(c, m);
    if (s == STREAM_HOST || !c->first[s]) { /* I3 */
        if (s != STREAM_HOST) c->first[s] = c->last[s] = m;
        comm_begin(c, m);
        return;
    }
    c->last[s] = c->last[s]->behind = m;
    c->queued++;
    stream_move(c);
}

/* The first of the queue is complete. */
static void begin_next(comm *c, op_stream s)
{
    message *m = c->first[s], *next = m->behind;
    m->left = true;
    c->first[s] = next;
    if (!next) return;
    c->queued--;
    double free = c->delay.on ? m->ready : clock_seconds();
    if (next->started < free) next->started = free;
    comm_begin(c, next);
}

void stream_move(comm *c)
{
    for (int s = 0; c->queued && s < STREAM_COUNT; s++) /* I2 */
        while (c->first[s] && c->first[s]->behind && comm_passed(c, c->first[s]))
            begin_next(c, (op_stream)s);
}

void stream_leave(comm *c, message *m)
{
    if (!m->left && m->stream != STREAM_HOST) begin_next(c, m->stream); /* I1 */
}

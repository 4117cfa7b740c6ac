/* streams.c - the messages of a stream, one after another.
 *
 * I1  The first message of a stream's queue has begun unless it waits for other streams (I4), the
 *     others have not. It leaves the queue when it is complete: seen when the next one could begin,
 *     or when it is waited for.
 * I2  Every look at any message lets all streams begin what they can: whoever this rank waits for
 *     may wait for what stands in another queue of this rank.
 * I3  The control plane has no queue: a small call may be what a message of a stream waits for.
 * I4  Messages of a stream have numbers. A stream that waits for another names a number there: as
 *     streams run in order, one for each is enough, and messages that have ended need not be asked.
 *     It was started before, so that no circle of waits arises inside a rank.
 *
 * On an emulated link a message begins at the time at which the one before was complete there, not
 * at the time at which somebody looked. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "backend/comm/state.h"

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

/* Is message `number` of a stream complete? `when`: no sooner than that, on an emulated link. */
static bool is_past(comm *c, int stream, uint64_t number, double *when)
{
    const comm_stream *q = &c->streams[stream];
    double at = q->passed_at;
    if (q->passed < number) {
        message *m = q->first;
        if (!m->begun || m->number != number || !comm_passed(c, m)) return false;
        at = m->ready;
    }
    if (at > *when) *when = at;
    return true;
}

/* Begins the first message of a queue if nothing that it waits for is missing (I4). */
static bool begin_first(comm *c, comm_stream *q)
{
    message *m = q->first;
    double from = q->passed_at;
    for (int s = 0; s < STREAM_COUNT; s++)
        if (m->awaits[s] && !is_past(c, s, m->awaits[s], &from)) return false;
    if (!c->delay.on) from = clock_seconds();
    if (m->started < from) m->started = from;
    c->queued--;
    comm_begin(c, m);
    return true;
}

/* The first message of a queue is complete. */
static void leave(comm_stream *q)
{
    message *m = q->first;
    m->left = true;
    q->first = m->behind;
    q->passed = m->number;
    q->passed_at = m->ready;
}

void stream_move(comm *c)
{
    bool moved = true;
    while (c->queued && moved) { /* I2 */
        moved = false;
        for (int s = 0; s < STREAM_COUNT; s++) {
            comm_stream *q = &c->streams[s];
            bool leaves = q->first && q->first->begun && q->first->behind;
            if (leaves && comm_passed(c, q->first)) leave(q);
            if (q->first && !q->first->begun && begin_first(c, q)) moved = true;
        }
    }
}

void stream_put(comm *c, message *m)
{
    comm_stream *q = &c->streams[m->stream];
    m->channel = op_stream_channel(m->stream);
    m->started = clock_seconds();
    check(c, m);
    if (m->stream == STREAM_HOST) { /* I3 */
        comm_begin(c, m);
        return;
    }
    m->number = ++q->started;
    memcpy(m->awaits, q->awaits, sizeof m->awaits);
    memset(q->awaits, 0, sizeof q->awaits);
    if (q->first)
        q->last->behind = m;
    else
        q->first = m;
    q->last = m;
    c->queued++;
    stream_move(c);
}

void stream_leave(comm *c, message *m)
{
    if (m->left || m->stream == STREAM_HOST) return;
    leave(&c->streams[m->stream]); /* I1 */
    stream_move(c);
}

void comm_stream_wait(comm *c, op_stream stream, int request)
{
    const message *m = &c->messages[request];
    uint64_t *awaited = &c->streams[stream].awaits[m->stream];
    if (m->stream != stream && m->number > *awaited) *awaited = m->number;
}

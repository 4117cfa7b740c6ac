/* queues.c - streams of a CPU as queues.
 *
 * I1  A message may start while earlier messages of its stream, or one that its stream waits for,
 *     are under way: comm begins it when those are complete, and knows at which time that was on an
 *     emulated link. A device that runs ahead starts it only then, as a GPU does.
 * I2  A kernel or copy runs when everything before it in its stream is complete; it is done when it
 *     returns. A wait is complete when its event has passed.
 *     A stamp is complete, and its time is read, when everything before it is; it holds up nothing.
 * I3  Whoever waits for one stream moves all of them: what it waits for may wait for another rank,
 *     and that one for a message in another queue of this rank. */
#include "backend/device/host.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

status queues_open(host_device *h, error *err)
{
    for (int s = 0; s < STREAM_COUNT; s++) {
        h->queues[s].ring = calloc(QUEUE_MAX, sizeof(task));
        if (!h->queues[s].ring)
            return error_set(err, ERR_MACHINE, "cannot open the streams: out of host memory");
    }
    return OK;
}

void queues_close(host_device *h)
{
    for (int s = 0; s < STREAM_COUNT; s++) free(h->queues[s].ring);
    free(h->events);
    free(h->stamps);
}

static task *task_at(const queue *q, int64_t n)
{
    return &q->ring[n % QUEUE_MAX];
}

/* ---- one stream */

static bool pass_stamp(host_device *h, const task *t)
{
    h->stamps[t->stamp].at = clock_seconds();
    h->stamped--;
    return true;
}

static bool is_complete(device *d, task *t)
{
    if (t->done) return true;
    if (t->kind == TASK_WAIT) return t->done = queues_passed(d, t->event);
    if (t->kind == TASK_STAMP) return t->done = pass_stamp(d->state, t);
    if (!comm_test(d->c, t->request)) return false;
    comm_wait(d->c, t->request);
    return t->done = true;
}

/* Asking whether a wait is complete ends tasks of other streams, and that may come back here. */
static void end_tasks(device *d, queue *q)
{
    host_device *h = d->state;
    for (int64_t at = q->complete; at < q->started && is_complete(d, task_at(q, at));) {
        if (q->complete == at && task_at(q, at)->number) log_finish(d, (op_stream)(q - h->queues));
        at = q->complete = q->complete > at ? q->complete : at + 1;
        h->moves++;
    }
}

bool queues_passed(device *d, host_event e)
{
    host_device *h = d->state;
    queue *q = &h->queues[e.stream];
    if (q->complete < e.end) end_tasks(d, q);
    return q->complete >= e.end;
}

/* The event is the end of a message that has started: comm can wait for it. */
static bool leave_to_comm(device *d, op_stream s, host_event e)
{
    const host_device *h = d->state;
    const queue *q = &h->queues[e.stream];
    const task *last = task_at(q, e.end - 1);
    if (h->order || e.end > q->started || last->kind != TASK_MESSAGE) return false;
    comm_stream_wait(d->c, s, last->request);
    return true;
}

static bool start(device *d, op_stream s, task *t)
{
    const host_device *h = d->state;
    const queue *q = &h->queues[s];
    if (t->kind == TASK_WAIT) return queues_passed(d, t->event) || leave_to_comm(d, s, t->event);
    if (t->kind == TASK_STAMP) return true;
    bool behind = q->complete < q->started;
    if (behind && (h->order || t->kind != TASK_MESSAGE)) return false; /* I1, I2 */
    t->done = t->kind != TASK_MESSAGE;
    if (t->kind == TASK_LAUNCH) log_begin(d, s, t->number, NULL);
    if (t->kind == TASK_LAUNCH) t->call.row->launch(&t->call);
    if (t->kind == TASK_MESSAGE) t->request = comm_start(d->c, t->call.o, t->in, t->out);
    if (t->kind == TASK_COPY)
        memmove(host_pointer(d, t->to), host_pointer(d, t->from), (size_t)t->bytes);
    return true;
}

bool queue_step(device *d, op_stream s)
{
    host_device *h = d->state;
    queue *q = &h->queues[s];
    int64_t before = h->moves;
    end_tasks(d, q);
    if (q->started < q->put && start(d, s, task_at(q, q->started))) {
        q->started++;
        h->waiting--;
        h->moves++;
        end_tasks(d, q);
    }
    return h->moves > before;
}

/* ---- all streams */

void queues_move(device *d)
{
    const host_device *h = d->state;
    for (bool moved = true; moved && h->waiting;) {
        moved = false;
        for (int s = 0; s < STREAM_COUNT; s++)
            while (queue_step(d, (op_stream)s)) moved = true;
    }
}

void queues_look(device *d)
{
    host_device *h = d->state;
    for (int s = 0; s < STREAM_COUNT; s++) end_tasks(d, &h->queues[s]);
}

static bool step(device *d)
{
    const host_device *h = d->state;
    if (h->order) return h->order->step(d);
    int64_t before = h->moves;
    for (int s = 0; s < STREAM_COUNT; s++) queue_step(d, (op_stream)s);
    return h->moves > before;
}

/* Nothing can be done here until a message is complete. `first` is the stream that is waited for:
 * the time counts as its own. */
static void rest(device *d, op_stream first)
{
    const host_device *h = d->state;
    int requests[STREAM_COUNT], n = 0;
    for (int i = 0; i < STREAM_COUNT; i++) {
        const queue *q = &h->queues[((int)first + i) % STREAM_COUNT];
        const task *t = task_at(q, q->complete);
        if (q->complete < q->started && t->kind == TASK_MESSAGE) requests[n++] = t->request;
    }
    if (!n) comm_abort(d->c, ERR_MACHINE, "streams of this rank wait for each other: deadlock");
    comm_wait_any(d->c, requests, n);
}

void queues_until(device *d, host_event e)
{
    while (!queues_passed(d, e))
        if (!step(d)) rest(d, e.stream); /* I3 */
}

void queues_begin_all(device *d)
{
    const host_device *h = d->state;
    while (h->waiting)
        if (!step(d)) rest(d, STREAM_COMPUTE);
}

void queues_finish(device *d)
{
    const host_device *h = d->state;
    for (int s = 0; s < STREAM_COUNT; s++)
        queues_until(d, (host_event){(op_stream)s, h->queues[s].put});
}

/* ---- putting */

task *queue_entry(device *d, op_stream s)
{
    host_device *h = d->state;
    queue *q = &h->queues[s];
    if (q->put - q->complete >= QUEUE_MAX) queues_until(d, (host_event){s, q->put - QUEUE_MAX + 1});
    return task_at(q, q->put);
}

void queue_put(device *d, op_stream s)
{
    host_device *h = d->state;
    h->queues[s].put++;
    h->waiting++;
    if (h->order)
        h->order->put(d);
    else
        queues_move(d);
}

/* issue.c - see issue.h. */
#include "device/issue.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "device/log.h"
#include "device/meeting.h"

typedef enum entry_kind {
    ENTRY_WAIT,
    ENTRY_RECORD,
    ENTRY_LAUNCH,
    ENTRY_MESSAGE,
    ENTRY_COPY,
    ENTRY_STAMP
} entry_kind;

/* A record in a stream: issued when so many entries of the stream are. */
typedef struct record_at {
    op_stream stream;
    int64_t end;
} record_at;

typedef struct entry {
    entry_kind kind;
    int event;               /* WAIT, RECORD; of STAMP its number */
    record_at awaited;       /* WAIT */
    kernel_call call;        /* LAUNCH; of MESSAGE the operation */
    uint32_t number;         /* LAUNCH, MESSAGE: in the log */
    device_address to, from; /* COPY */
    int64_t bytes;
    void *in[OP_IN_MAX], *out[OP_OUT_MAX];
} entry;

/* Entries issued .. put-1 are in the queue, the n-th at ring[n % QUEUE]. */
enum { QUEUE = 1024 };
typedef struct stream_queue {
    entry *ring;
    int64_t issued, put;
    meeting meeting;
} stream_queue;

struct issue {
    const issue_hooks *hooks;
    const device_calls *calls;
    stream_queue queues[STREAM_COUNT];
    record_at *events;
    int64_t held; /* entries in all queues */
    int looked;   /* times that nothing could be issued since something was */
};

/* ---- opening */

status issue_open(device *d, const issue_hooks *h, const device_calls *calls, error *err)
{
    issue *q = calloc(1, sizeof *q);
    d->issue = q;
    bool there = q != NULL;
    for (int s = 0; there && s < STREAM_COUNT; s++) {
        q->queues[s].ring = calloc(QUEUE, sizeof(entry));
        q->queues[s].meeting.all = calloc(PEERS_MAX, sizeof(note));
        there = q->queues[s].ring && q->queues[s].meeting.all;
    }
    if (!there) {
        issue_close(d);
        return error_set(err, ERR_MACHINE, "cannot open the streams: out of host memory");
    }
    q->hooks = h;
    q->calls = calls;
    return OK;
}

void issue_close(device *d)
{
    issue *q = d->issue;
    if (!q) return;
    for (int s = 0; s < STREAM_COUNT; s++) {
        free(q->queues[s].ring);
        free(q->queues[s].meeting.all);
    }
    free(q->events);
    free(q);
    d->issue = NULL;
}

status issue_events(device *d, int n, error *err)
{
    issue *q = d->issue;
    free(q->events);
    q->events = calloc((size_t)n + 1, sizeof *q->events);
    return q->events ? OK : error_set(err, ERR_MACHINE, "no host memory for %d events", n);
}

/* ---- moving */

static bool is_issued(const issue *q, record_at r)
{
    return q->queues[r.stream].issued >= r.end;
}

static bool issue_message_entry(device *d, op_stream s, entry *e)
{
    issue *q = d->issue;
    meeting_op x = {e->call.o, e->in, e->out, e->number};
    return meeting_step(d, q->hooks, q->calls, &q->queues[s].meeting, s, &x);
}

/* True: it has been. */
static bool issue_entry(device *d, op_stream s, entry *e)
{
    issue *q = d->issue;
    switch (e->kind) {
    case ENTRY_WAIT:
        if (!is_issued(q, e->awaited)) return false;
        q->hooks->wait(d, s, e->event);
        return true;
    case ENTRY_RECORD:
        q->hooks->record(d, s, e->event);
        return true;
    case ENTRY_LAUNCH:
        q->hooks->launch(d, s, &e->call, e->number);
        return true;
    case ENTRY_MESSAGE:
        return issue_message_entry(d, s, e);
    case ENTRY_COPY:
        q->hooks->copy(d, s, e->to, e->from, e->bytes);
        return true;
    default:
        q->hooks->stamp(d, s, e->event);
        return true;
    }
}

/* Issues what can be; false: nothing could. */
static bool move(device *d)
{
    issue *q = d->issue;
    bool any = false;
    for (bool moved = q->held > 0; moved && q->held;) {
        moved = false;
        for (int s = 0; s < STREAM_COUNT; s++) {
            stream_queue *l = &q->queues[s];
            while (l->issued < l->put &&
                   issue_entry(d, (op_stream)s, &l->ring[l->issued % QUEUE])) {
                l->issued++;
                q->held--;
                any = moved = true;
            }
        }
    }
    if (any) q->looked = 0;
    return any;
}

/* Nothing can be issued before a meeting is over, or the device has come to where one begins. */
static void rest(device *d)
{
    enum { SOON = 2000 };
    issue *q = d->issue;
    int requests[STREAM_COUNT], n = 0, looks = 0;
    for (int s = 0; s < STREAM_COUNT; s++) {
        const stream_queue *l = &q->queues[s];
        if (l->issued == l->put || l->ring[l->issued % QUEUE].kind != ENTRY_MESSAGE) continue;
        if (meeting_looks(&l->meeting))
            looks++;
        else
            requests[n++] = l->meeting.request;
    }
    if (looks && q->looked++ < SOON) /* a sleep takes far longer than counts on their way */
        sched_yield();
    else if (looks)
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    else if (n)
        q->calls->wait_any(d->c, requests, n);
    else
        q->calls->fail(d->c, "streams of this rank wait for one another");
}

static void until(device *d, record_at r)
{
    const issue *q = d->issue;
    while (!is_issued(q, r))
        if (!move(d)) rest(d);
}

bool issue_recorded(device *d, int event)
{
    const issue *q = d->issue;
    move(d);
    return is_issued(q, q->events[event]);
}

void issue_until_recorded(device *d, int event)
{
    const issue *q = d->issue;
    until(d, q->events[event]);
}

void issue_until_stream(device *d, op_stream s)
{
    const issue *q = d->issue;
    until(d, (record_at){s, q->queues[s].put});
}

void issue_all(device *d)
{
    for (int s = 0; s < STREAM_COUNT; s++) issue_until_stream(d, (op_stream)s);
}

/* ---- putting */

static void put(device *d, op_stream s, const entry *e, void *const *in, void *const *out)
{
    issue *q = d->issue;
    stream_queue *l = &q->queues[s];
    if (q->held) move(d);
    if (l->put - l->issued >= QUEUE) until(d, (record_at){s, l->put - QUEUE + 1});
    entry *to = &l->ring[l->put % QUEUE];
    *to = *e;
    if (in) memcpy(to->in, in, sizeof to->in);
    if (out) memcpy(to->out, out, sizeof to->out);
    to->call.in = to->in;
    to->call.out = to->out;
    l->put++;
    q->held++;
    move(d);
}

/* Nothing of the stream is held: what can be issued at once need not be kept. */
static bool is_free(const issue *q, op_stream s)
{
    return q->queues[s].issued == q->queues[s].put;
}

static void passed_by(issue *q, op_stream s)
{
    q->queues[s].issued++;
    q->queues[s].put++;
}

void issue_wait(device *d, op_stream s, int event)
{
    issue *q = d->issue;
    record_at r = q->events[event];
    if (r.stream == s) return; /* a stream is in order */
    if (!is_free(q, s) || !is_issued(q, r)) {
        put(d, s, &(entry){.kind = ENTRY_WAIT, .event = event, .awaited = r}, NULL, NULL);
        return;
    }
    if (r.end) q->hooks->wait(d, s, event);
}

void issue_record(device *d, op_stream s, int event)
{
    issue *q = d->issue;
    q->events[event] = (record_at){s, q->queues[s].put + 1};
    if (!is_free(q, s)) {
        put(d, s, &(entry){.kind = ENTRY_RECORD, .event = event}, NULL, NULL);
        return;
    }
    q->hooks->record(d, s, event);
    passed_by(q, s);
}

void issue_launch(device *d, op_stream s, kernel_call *c)
{
    issue *q = d->issue;
    uint32_t number = log_put(d, s, c->o);
    if (q->held) move(d);
    if (!is_free(q, s)) {
        put(d, s, &(entry){.kind = ENTRY_LAUNCH, .call = *c, .number = number}, c->in, c->out);
        return;
    }
    q->hooks->launch(d, s, c, number);
    passed_by(q, s);
}

void issue_message(device *d, op_stream s, const op *o, void *const *in, void *const *out)
{
    entry e = {.kind = ENTRY_MESSAGE, .call = {.o = o}, .number = log_put(d, s, o)};
    put(d, s, &e, in, out);
}

void issue_copying(device *d, op_stream s, device_address to, device_address from, int64_t bytes)
{
    issue *q = d->issue;
    if (!is_free(q, s)) {
        put(d, s, &(entry){.kind = ENTRY_COPY, .to = to, .from = from, .bytes = bytes}, NULL, NULL);
        return;
    }
    q->hooks->copy(d, s, to, from, bytes);
    passed_by(q, s);
}

void issue_stamp(device *d, op_stream s, int stamp)
{
    issue *q = d->issue;
    if (!is_free(q, s)) {
        put(d, s, &(entry){.kind = ENTRY_STAMP, .event = stamp}, NULL, NULL);
        return;
    }
    q->hooks->stamp(d, s, stamp);
    passed_by(q, s);
}

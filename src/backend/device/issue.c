/* issue.c - see issue.h. */
#include "backend/device/issue.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "backend/device/log.h"
#include "backend/device/rendezvous.h"

typedef enum entry_kind {
    ENTRY_WAIT,
    ENTRY_RECORD,
    ENTRY_LAUNCH,
    ENTRY_REPLAY,
    ENTRY_MESSAGE,
    ENTRY_COPY,
    ENTRY_STAMP
} entry_kind;

/* A record in a stream: issued when so many entries of the stream are. */
typedef struct record_at {
    op_stream stream;
    int64_t end;
    int slot; /* of the device's events, that it is kept in (I2) */
} record_at;

/* One of the device's events. */
typedef struct event_slot {
    int waits;  /* in queues, for the record that it keeps */
    bool given; /* it is an event's last record */
} event_slot;

typedef struct entry {
    entry_kind kind;
    int event;               /* WAIT, RECORD: the slot; of STAMP and REPLAY the number */
    record_at awaited;       /* WAIT */
    kernel_call call;        /* LAUNCH; of MESSAGE and REPLAY the operation */
    uint32_t number;         /* LAUNCH, REPLAY, MESSAGE: in the log */
    device_address to, from; /* COPY */
    int64_t bytes;
    void *in[OP_IN_MAX], *out[OP_OUT_MAX];
} entry;

/* Entries issued .. put-1 are in the queue, the n-th at ring[n % QUEUE]. */
enum { QUEUE = 1024 };
typedef struct stream_queue {
    entry *ring;
    int64_t issued, put;
    rendezvous rendezvous;
} stream_queue;

struct issue {
    const issue_hooks *hooks;
    const device_calls *calls;
    stream_queue queues[STREAM_COUNT];
    record_at *events;
    event_slot *slots; /* [issue_slots(n)] */
    int *free;         /* [n_free]: slots that keep nothing */
    int n_free;
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
        q->queues[s].rendezvous.all = calloc(PEERS_MAX, sizeof(note));
        there = q->queues[s].ring && q->queues[s].rendezvous.all;
    }
    if (!there) {
        issue_close(d);
        return error_set(err, ERR_MACHINE, "cannot open the streams: out of host memory");
    }
    q->hooks = h;
    q->calls = calls;
    prctl(PR_SET_TIMERSLACK, 1000); /* a short sleep of this thread is as short as it says */
    return OK;
}

static void free_events(issue *q)
{
    free(q->events);
    free(q->slots);
    free(q->free);
    q->events = NULL;
    q->slots = NULL;
    q->free = NULL;
    q->n_free = 0;
}

void issue_close(device *d)
{
    issue *q = d->issue;
    if (!q) return;
    for (int s = 0; s < STREAM_COUNT; s++) {
        free(q->queues[s].ring);
        free(q->queues[s].rendezvous.all);
    }
    free_events(q);
    free(q);
    d->issue = NULL;
}

int issue_slots(int n)
{
    enum { SPARE = 2048 };
    return n + SPARE;
}

status issue_events(device *d, int n, error *err)
{
    issue *q = d->issue;
    const int slots = issue_slots(n);
    free_events(q);
    q->events = calloc((size_t)n + 1, sizeof *q->events);
    q->slots = calloc((size_t)slots, sizeof *q->slots);
    q->free = calloc((size_t)slots, sizeof *q->free);
    if (!q->events || !q->slots || !q->free)
        return error_set(err, ERR_MACHINE, "no host memory for %d events", n);
    for (int i = 0; i < n; i++) {
        q->events[i].slot = i;
        q->slots[i].given = true;
    }
    for (int i = slots - 1; i >= n; i--) q->free[q->n_free++] = i;
    return OK;
}

int issue_slot(const device *d, int event)
{
    return d->issue->events[event].slot;
}

/* ---- records (I2) */

static void wait_is_issued(issue *q, int slot)
{
    event_slot *k = &q->slots[slot];
    if (--k->waits == 0 && !k->given) q->free[q->n_free++] = slot;
}

/* Where the next record of an event is kept: not where one is that waits in queues are for. */
static int slot_for(issue *q, int event)
{
    int slot = q->events[event].slot;
    if (!q->slots[slot].waits || !q->n_free) return slot;
    q->slots[slot].given = false;
    slot = q->free[--q->n_free];
    q->slots[slot].given = true;
    return slot;
}

/* ---- moving */

static bool is_issued(const issue *q, record_at r)
{
    return q->queues[r.stream].issued >= r.end;
}

static bool issue_message_entry(device *d, op_stream s, entry *e)
{
    issue *q = d->issue;
    rendezvous_op x = {e->call.o, e->in, e->out, e->number};
    return rendezvous_step(d, q->hooks, q->calls, &q->queues[s].rendezvous, s, &x);
}

/* True: it has been. */
static bool issue_entry(device *d, op_stream s, entry *e)
{
    issue *q = d->issue;
    switch (e->kind) {
    case ENTRY_WAIT:
        if (!is_issued(q, e->awaited)) return false;
        q->hooks->wait(d, s, e->event);
        wait_is_issued(q, e->event);
        return true;
    case ENTRY_RECORD:
        q->hooks->record(d, s, e->event);
        return true;
    case ENTRY_LAUNCH:
        q->hooks->launch(d, s, &e->call, e->number);
        return true;
    case ENTRY_REPLAY:
        q->hooks->replay(d, e->event, e->call.o, e->number);
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

/* Nothing can be issued before a meeting is over, or the device has come to where one begins. On an
 * emulated link messages take long: ranks that looked without a pause would take the cores from one
 * another. */
static void rest(device *d)
{
    const int SOON = d->issue->calls->is_delayed(d->c) ? 20 : 2000;
    issue *q = d->issue;
    int requests[STREAM_COUNT], n = 0, looks = 0;
    for (int s = 0; s < STREAM_COUNT; s++) {
        const stream_queue *l = &q->queues[s];
        if (l->issued == l->put || l->ring[l->issued % QUEUE].kind != ENTRY_MESSAGE) continue;
        if (rendezvous_looks(&l->rendezvous))
            looks++;
        else
            requests[n++] = l->rendezvous.request;
    }
    if (looks && q->looked++ < SOON) /* a sleep takes far longer than counts on their way */
        sched_yield();
    else if (looks)
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    else if (n)
        q->calls->wait_any(d->c, requests, n);
    else
        q->calls->fail(d->c, "streams of this rank wait for each other: deadlock");
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
    until(d, (record_at){.stream = s, .end = q->queues[s].put});
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
    if (l->put - l->issued >= QUEUE) until(d, (record_at){.stream = s, .end = l->put - QUEUE + 1});
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
        q->slots[r.slot].waits++;
        put(d, s, &(entry){.kind = ENTRY_WAIT, .event = r.slot, .awaited = r}, NULL, NULL);
        return;
    }
    if (r.end) q->hooks->wait(d, s, r.slot);
}

void issue_record(device *d, op_stream s, int event)
{
    issue *q = d->issue;
    const int slot = slot_for(q, event);
    q->events[event] = (record_at){s, q->queues[s].put + 1, slot};
    if (!is_free(q, s)) {
        put(d, s, &(entry){.kind = ENTRY_RECORD, .event = slot}, NULL, NULL);
        return;
    }
    q->hooks->record(d, s, slot);
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

void issue_replay(device *d, int graph, const op *o)
{
    issue *q = d->issue;
    uint32_t number = log_put(d, STREAM_COMPUTE, o);
    if (q->held) move(d);
    if (!is_free(q, STREAM_COMPUTE)) {
        entry e = {.kind = ENTRY_REPLAY, .event = graph, .call = {.o = o}, .number = number};
        put(d, STREAM_COMPUTE, &e, NULL, NULL);
        return;
    }
    q->hooks->replay(d, graph, o, number);
    passed_by(q, STREAM_COMPUTE);
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

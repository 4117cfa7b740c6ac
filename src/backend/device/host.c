/* host.c - memory, events and calls of the devices that compute on this machine's CPU. */
#define _GNU_SOURCE
#include "backend/device/host.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/text.h"

/* ---- memory */

static void give(host_device *h, device_space s)
{
    if (h->memory[s]) munmap(h->memory[s], h->bytes[s]);
    h->memory[s] = NULL;
    h->bytes[s] = 0;
}

status host_take(device *d, device_space s, int64_t bytes, error *err)
{
    host_device *h = d->state;
    give(h, s);
    if (bytes <= 0) return OK;
    void *at = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) {
        arena *a = arena_create();
        const char *why = strerror(errno);
        error_set(err, ERR_MACHINE, "cannot allocate %s for the planned arena: %s",
                  text_bytes(a, bytes), why);
        arena_destroy(a);
        return ERR_MACHINE;
    }
    h->memory[s] = at;
    h->bytes[s] = (size_t)bytes;
    return OK;
}

int64_t host_outside_arena(device *d)
{
    (void)d;
    return -1;
}

void *host_pointer(const device *d, device_address at)
{
    const host_device *h = d->state;
    return h->memory[at.space] + at.offset;
}

/* What the host itself touches comes behind the compute stream. */
static void meet_compute(device *d)
{
    host_device *h = d->state;
    queues_until(d, (host_event){STREAM_COMPUTE, h->queues[STREAM_COMPUTE].put});
}

void host_read(device *d, void *to, device_address from, int64_t bytes)
{
    meet_compute(d);
    memcpy(to, host_pointer(d, from), (size_t)bytes);
}

void host_write(device *d, device_address to, const void *from, int64_t bytes)
{
    meet_compute(d);
    memcpy(host_pointer(d, to), from, (size_t)bytes);
}

void host_fill(device *d, device_address to, int byte, int64_t bytes)
{
    meet_compute(d);
    if (bytes) memset(host_pointer(d, to), byte, (size_t)bytes);
}

void host_differ(device *d, device_address at, int byte, int64_t bytes, unsigned char *map)
{
    meet_compute(d);
    const unsigned char *x = host_pointer(d, at);
    for (int64_t i = 0; i < bytes; i++)
        if (x[i] != (unsigned char)byte) map[i / 8] |= (unsigned char)(1u << (i % 8));
}

/* ---- events */

status host_events(device *d, int n, error *err)
{
    host_device *h = d->state;
    free(h->events);
    h->events = calloc((size_t)n + 1, sizeof *h->events);
    return h->events ? OK : error_set(err, ERR_MACHINE, "no host memory for %d events", n);
}

void host_record(device *d, op_stream s, int event)
{
    host_device *h = d->state;
    h->events[event] = (host_event){s, h->queues[s].put};
}

void host_wait(device *d, op_stream s, int event)
{
    host_device *h = d->state;
    host_event e = h->events[event];
    if (e.stream == s) return; /* a stream is in order */
    if (s == STREAM_COMPUTE && !h->order) {
        queues_until(d, e);
        return;
    }
    task *t = queue_entry(d, s);
    *t = (task){.kind = TASK_WAIT, .event = e};
    queue_put(d, s);
}

void host_wait_here(device *d, int event)
{
    const host_device *h = d->state;
    queues_until(d, h->events[event]);
}

bool host_is_complete(device *d, int event)
{
    const host_device *h = d->state;
    queues_move(d);
    return queues_passed(d, h->events[event]);
}

/* ---- calls */

static void keep(task *t, void *const *in, void *const *out)
{
    memcpy(t->in, in, sizeof t->in);
    memcpy(t->out, out, sizeof t->out);
    t->call.in = t->in;
    t->call.out = t->out;
}

void host_launch(device *d, op_stream s, kernel_call *c)
{
    host_device *h = d->state;
    c->stream = NULL;
    if (h->capturing) {
        host_keep(d, s, c);
        return;
    }
    if (s == STREAM_COMPUTE && !h->order) {
        log_put(d, s, c->o);
        c->row->launch(c);
        log_finish(d, s);
        comm_progress(d->c);
        queues_move(d);
        return;
    }
    task *t = queue_entry(d, s);
    *t = (task){.kind = TASK_LAUNCH, .call = *c, .number = log_put(d, s, c->o)};
    keep(t, c->in, c->out);
    queue_put(d, s);
}

void host_message(device *d, op_stream s, const op *o, void *const *in, void *const *out)
{
    task *t = queue_entry(d, s);
    *t = (task){.kind = TASK_MESSAGE, .call = {.o = o}, .number = log_put(d, s, o)};
    keep(t, in, out);
    queue_put(d, s);
    comm_progress(d->c);
}

void host_copy(device *d, op_stream s, device_address to, device_address from, int64_t bytes)
{
    task *t = queue_entry(d, s);
    *t = (task){.kind = TASK_COPY, .to = to, .from = from, .bytes = bytes};
    queue_put(d, s);
}

/* ---- stamps */

status host_stamps(device *d, int n, error *err)
{
    host_device *h = d->state;
    free(h->stamps);
    h->stamps = calloc((size_t)n + 1, sizeof *h->stamps);
    return h->stamps ? OK : error_set(err, ERR_MACHINE, "no host memory for %d stamps", n);
}

double host_stamp_origin(device *d)
{
    host_device *h = d->state;
    return h->origin = clock_seconds();
}

void host_stamp_now(device *d, op_stream s, int stamp)
{
    host_device *h = d->state;
    (void)s;
    h->stamps[stamp] = (host_stamp){.at = clock_seconds()};
}

void host_stamp_put(device *d, op_stream s, int stamp)
{
    host_device *h = d->state;
    if (s == STREAM_COMPUTE && !h->order) {
        host_stamp_now(d, s, stamp);
        return;
    }
    task *t = queue_entry(d, s);
    *t = (task){.kind = TASK_STAMP, .stamp = stamp};
    h->stamps[stamp].is = (host_event){s, h->queues[s].put + 1};
    h->stamped++;
    queue_put(d, s);
}

/* Messages end beside compute. To ask for them after every operation costs steps of small
 * operations some percent. */
static const double look_every = 200e-6;

void host_look(device *d, double now)
{
    host_device *h = d->state;
    if (!h->stamped || now - h->looked < look_every) return;
    h->looked = now;
    queues_look(d);
}

double host_stamp_read(device *d, int stamp)
{
    const host_device *h = d->state;
    queues_until(d, h->stamps[stamp].is);
    return h->stamps[stamp].at - h->origin;
}

bool host_stamp_passed(device *d, int stamp)
{
    const host_device *h = d->state;
    return queues_passed(d, h->stamps[stamp].is);
}

/* ---- opening */

status host_open(device *d, const host_order *order, error *err)
{
    host_device *h = calloc(1, sizeof *h);
    if (!h) return error_set(err, ERR_MACHINE, "cannot open the device: out of host memory");
    h->order = order;
    d->state = h;
    d->runs_ahead = order != NULL;
    status s = queues_open(h, err);
    if (s) host_close(d);
    return s;
}

void host_close(device *d)
{
    host_device *h = d->state;
    for (int s = 0; s < SPACE_COUNT; s++) give(h, (device_space)s);
    host_close_graphs(h);
    queues_close(h);
    free(h);
}

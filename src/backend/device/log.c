/* log.c - rings of names, and reading them. */
#include "backend/device/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- opening */

status log_open(device *d, error *err)
{
    d->log = calloc(1, sizeof *d->log);
    if (!d->log) return error_set(err, ERR_MACHINE, "cannot open the device: out of host memory");
    d->log->finished = d->log->own;
    return OK;
}

void log_close(device *d)
{
    if (d->log) free(d->log->faults);
    free(d->log);
    d->log = NULL;
}

/* ---- writing */

uint32_t log_put(device *d, op_stream s, const op *o)
{
    device_log *l = d->log;
    uint32_t number = atomic_load_explicit(&l->put[s], memory_order_relaxed) + 1;
    log_name *name = &l->names[s][number % LOG_NAMES];
    atomic_store_explicit(&name->o, o, memory_order_relaxed);
    atomic_store_explicit(&name->at, d->place, memory_order_relaxed);
    atomic_store_explicit(&l->put[s], number, memory_order_release); /* L1 */
    if (l->faults) l->faults->put(d, s, number);
    return number;
}

void log_finish(device *d, op_stream s)
{
    atomic_uint *at = &d->log->own[s];
    atomic_store_explicit(at, atomic_load_explicit(at, memory_order_relaxed) + 1,
                          memory_order_release);
}

/* ---- reading */

static uint32_t number_of(const atomic_uint *at)
{
    return atomic_load_explicit(at, memory_order_acquire);
}

uint64_t log_progress(const device *d, bool *busy)
{
    const device_log *l = d->log;
    uint64_t sum = 0;
    *busy = false;
    for (int s = 0; s < STREAM_COUNT; s++) {
        uint32_t done = number_of(&l->finished[s]);
        sum += done;
        if (done != number_of(&l->put[s])) *busy = true;
    }
    return sum;
}

typedef struct text {
    char *out;
    size_t room, n;
} text;

#if defined __GNUC__
__attribute__((format(printf, 2, 3)))
#endif
static void
add(text *t, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(t->out + t->n, t->room - t->n, format, args);
    va_end(args);
    if (n > 0) t->n = t->n + (size_t)n < t->room ? t->n + (size_t)n : t->room - 1;
}

static void add_place(text *t, const op *o, const device_place *at)
{
    static const char *const phases[] = {"forward", "backward", "weight gradient", "recompute"};
    if (!at) return;
    int half = o->phase != PHASE_FORWARD;
    if (at->layer[half] >= 0)
        add(t, " of layer %lld", (long long)at->layer[half] + o->layer_step);
    else
        add(t, " of %s", at->segment);
    if (at->micro[half] < 0) return;
    add(t, ", microbatch %lld, %s", (long long)at->micro[half], phases[o->phase]);
}

void log_text(const device *d, char *out, size_t room)
{
    const device_log *l = d->log;
    text t = {out, room, 0};
    *out = 0;
    for (int s = 0; s < STREAM_COUNT; s++) {
        uint32_t done = number_of(&l->finished[s]);
        if (done == number_of(&l->put[s])) continue;
        const log_name *name = &l->names[s][(done + 1) % LOG_NAMES]; /* L2 */
        const op *o = atomic_load_explicit(&name->o, memory_order_relaxed);
        if (!o) continue;
        add(&t, "%sstream %s: %s (%s)", t.n ? "; " : "", op_stream_names[s],
            o->name ? o->name : "operation", op_infos[o->kind].name);
        add_place(&t, o, atomic_load_explicit(&name->at, memory_order_relaxed));
        add(&t, ", is not finished (operation %lu)", (unsigned long)done + 1);
    }
}

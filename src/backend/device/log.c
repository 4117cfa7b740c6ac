/* log.c - rings of names, and reading them. */
#include "backend/device/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- opening */

static status read_fault(device_log *l, error *err)
{
    static const char *const kinds[] = {"", "trap:", "hang:", "crash:", "leave:"};
    const char *word = getenv("MOEFOLD_FAULT");
    if (!word || !*word) return OK;
    bool of_trainer = strncmp(word, "overflow:", 9) == 0;
    if (of_trainer && word[9] && !word[9 + strspn(word + 9, "0123456789")]) return OK;
    for (int k = FAULT_TRAP; k <= FAULT_LEAVE; k++) {
        size_t n = strlen(kinds[k]);
        if (strncmp(word, kinds[k], n) != 0) continue;
        char *end;
        unsigned long at = strtoul(word + n, &end, 10);
        if (end == word + n || at < 1 || at > UINT32_MAX) break;
        l->fault = (log_fault)k;
        l->fault_at = (uint32_t)at;
        l->fault_rank = *end == ':' ? strtol(end + 1, &end, 10) : -1;
        if (!*end) return OK;
        break;
    }
    return error_set(
        err, ERR_MACHINE,
        "MOEFOLD_FAULT=%s in the environment is not trap:N, hang:N, crash:N or leave:N, with the "
        "number of an operation and perhaps :RANK, or overflow:N, with that of a step; unset it",
        word);
}

status log_open(device *d, error *err)
{
    d->log = calloc(1, sizeof *d->log);
    if (!d->log) return error_set(err, ERR_MACHINE, "cannot open the device: out of host memory");
    d->log->finished = d->log->own;
    status s = read_fault(d->log, err);
    if (s) log_close(d);
    return s;
}

void log_close(device *d)
{
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
    log_fault f = log_fault_of(d, s, number);
    if (f == FAULT_CRASH) *(volatile char *)(uintptr_t)number = 0;
    if (f == FAULT_LEAVE) _exit(OK);
    return number;
}

void log_finish(device *d, op_stream s)
{
    atomic_uint *at = &d->log->own[s];
    atomic_store_explicit(at, atomic_load_explicit(at, memory_order_relaxed) + 1,
                          memory_order_release);
}

log_fault log_fault_of(const device *d, op_stream s, uint32_t number)
{
    const device_log *l = d->log;
    return s == STREAM_COMPUTE && number == l->fault_at ? l->fault : FAULT_NONE;
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

/* device.c - devices by name. */
#include "backend/device/device.h"

#include <stdlib.h>
#include <string.h>

#include "backend/device/cuda.h"
#include "backend/device/log.h"

static status cpu(const device_table **out, error *err)
{
    (void)err;
    *out = &device_cpu;
    return OK;
}

static status deferred(const device_table **out, error *err)
{
    (void)err;
    *out = &device_deferred;
    return OK;
}

static status peers(const device_table **out, error *err)
{
    (void)err;
    *out = &device_peers;
    return OK;
}

static const struct {
    const char *name;
    status (*table)(const device_table **out, error *err);
} devices[] = {{"cpu", cpu}, {"deferred", deferred}, {"peers", peers}, {"cuda", device_cuda_table}};

static status find(const device_table **out, const char *name, size_t n, error *err)
{
    for (size_t i = 0; i < sizeof devices / sizeof devices[0]; i++)
        if (strlen(devices[i].name) == n && strncmp(devices[i].name, name, n) == 0)
            return devices[i].table(out, err);
    return error_set(err, ERR_MACHINE,
                     "device %s: there is no device of that name; repair: MOEFOLD_DEVICE=cpu, "
                     "cuda, peers or deferred:SEED",
                     name);
}

status device_open(device **out, const device_options *o, comm *c, error *err)
{
    const char *name = o->name;
    size_t n = strcspn(name, ":");
    const device_table *table;
    status s = find(&table, name, n, err);
    if (s) return s;
    device *d = calloc(1, sizeof *d);
    if (!d) return error_set(err, ERR_MACHINE, "cannot open device %s: out of host memory", name);
    d->table = table;
    d->c = c;
    s = log_open(d, err);
    if (!s && c && d->log->fault_rank >= 0 && comm_rank(c) != d->log->fault_rank)
        d->log->fault = FAULT_NONE;
    if (!s) s = table->open(d, name[n] ? name + n + 1 : "", o, err);
    if (s) {
        log_close(d);
        free(d);
        return s;
    }
    *out = d;
    return OK;
}

static void settle(void *with)
{
    device *d = with;
    d->table->settle(d);
}

/* The watchdog's, from its thread. */
static uint64_t progress(const void *with, bool *busy)
{
    return log_progress(with, busy);
}

static void text(const void *with, char *out, size_t room)
{
    log_text(with, out, room);
}

void device_attach(device *d, comm *c)
{
    comm_settles(c, settle, d);
    if (d->runs_ahead) comm_watches(c, &(comm_device){progress, text, d});
}

void device_detach(comm *c)
{
    comm_settles(c, NULL, NULL);
    comm_watches(c, NULL);
}

void device_close(device *d)
{
    if (!d) return;
    d->table->close(d);
    log_close(d);
    free(d);
}

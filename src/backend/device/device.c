/* device.c - devices by name. */
#include "backend/device/device.h"

#include <stdlib.h>
#include <string.h>

#include "backend/device/cuda.h"
#include "backend/device/log.h"

/* NULL: there is none of that name, of n bytes; or it is the GPU's, which has to be opened. */
static const device_table *table_of(const char *name, size_t n)
{
    if (n == strlen("cpu") && strncmp(name, "cpu", n) == 0) return &device_cpu;
    return planted_device ? planted_device(name, n) : NULL;
}

static bool is_cuda(const char *name, size_t n)
{
    return n == strlen("cuda") && strncmp(name, "cuda", n) == 0;
}

bool device_is_named(const char *name)
{
    size_t n = strcspn(name, ":");
    return table_of(name, n) || is_cuda(name, n);
}

static status find(const device_table **out, const char *name, size_t n, error *err)
{
    if (is_cuda(name, n)) return device_cuda_table(out, err);
    *out = table_of(name, n);
    return *out ? OK
                : error_set(err, ERR_MACHINE,
                            "device %s: there is no device of that name; repair: "
                            "MOEFOLD_DEVICE=cpu or cuda",
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
    if (!s && planted_faults) s = planted_faults(d, err);
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

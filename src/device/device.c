/* device.c - devices by name. */
#include "device/device.h"

#include <stdlib.h>
#include <string.h>

static const device_table *const tables[] = {&device_cpu, &device_deferred};

static const device_table *find(const char *name, size_t n)
{
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
        if (strlen(tables[i]->name) == n && strncmp(tables[i]->name, name, n) == 0)
            return tables[i];
    return NULL;
}

status device_open(device **out, const char *name, comm *c, error *err)
{
    size_t n = strcspn(name, ":");
    const device_table *table = find(name, n);
    if (!table)
        return error_set(err, ERR_MACHINE, "device %s: there is none of that name in this program",
                         name);
    device *d = calloc(1, sizeof *d);
    if (!d) return error_set(err, ERR_MACHINE, "cannot open device %s: out of host memory", name);
    d->table = table;
    d->c = c;
    status s = table->open(d, name[n] ? name + n + 1 : "", err);
    if (s) {
        free(d);
        return s;
    }
    *out = d;
    return OK;
}

void device_close(device *d)
{
    if (!d) return;
    d->table->close(d);
    free(d);
}

/* counted.c - what Linux counts of this process and of the thread that runs the rank. */
#include <stdio.h>

#include "run/trainer/state.h"

/* "Name: 12 kB" of /proc/self/status, in bytes; 0: it is not there. */
static void read_status(system_count *c)
{
    long long kib;
    char line[256];
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f)) {
        if (sscanf(line, "VmHWM: %lld", &kib) == 1) c->most_resident = kib * 1024;
        if (sscanf(line, "VmRSS: %lld", &kib) == 1) c->resident = kib * 1024;
    }
    if (f) fclose(f);
}

system_count system_count_now(void)
{
    system_count c = {0};
    unsigned long long on_core, waited;
    FILE *f = fopen("/proc/thread-self/schedstat", "r");
    if (f && fscanf(f, "%llu %llu", &on_core, &waited) == 2) {
        c.on_core = 1e-9 * (double)on_core;
        c.waited = 1e-9 * (double)waited;
    }
    if (f) fclose(f);
    read_status(&c);
    return c;
}

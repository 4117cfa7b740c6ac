/* counted.c - what Linux counts of this process and of the thread that runs the rank. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "train/loop/state.h"

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
    int file = system_delay_open();
    c.waited = system_delay(file);
    if (file >= 0) close(file);
    read_status(&c);
    return c;
}

int system_delay_open(void)
{
    return open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
}

double system_delay(int file)
{
    char text[128];
    unsigned long long on_core, waited;
    ssize_t n = file >= 0 ? pread(file, text, sizeof text - 1, 0) : 0;
    text[n > 0 ? n : 0] = 0;
    return sscanf(text, "%llu %llu", &on_core, &waited) == 2 ? 1e-9 * (double)waited : 0;
}

/* paced.c - see paced.h. */
#define _GNU_SOURCE
#include "emulated/paced.h"

#include <stdlib.h>
#include <time.h>

#include "base/clock.h"

status paced_events(paced *p, int n, error *err)
{
    free(p->events);
    p->events = calloc((size_t)n + 1, sizeof *p->events);
    return p->events ? OK : error_set(err, ERR_MACHINE, "no host memory for %d events", n);
}

void paced_close(paced *p)
{
    free(p->events);
}

void paced_launch(paced *p, op_stream s, double from, int n)
{
    if (p->seconds <= 0) return;
    double now = clock_seconds();
    if (p->end[s] < from) p->end[s] = from;
    p->end[s] += n * p->seconds;
    if (p->end[s] < now) p->end[s] = now;
}

void paced_behind(paced *p, op_stream s, double time)
{
    if (p->end[s] < time) p->end[s] = time;
}

bool paced_is_past(double time)
{
    return time <= 0 || clock_seconds() >= time;
}

void paced_until(double time)
{
    for (double left; time > 0 && (left = time - clock_seconds()) > 0;) {
        time_t whole = (time_t)left;
        nanosleep(&(struct timespec){whole, (long)((left - (double)whole) * 1e9)}, NULL);
    }
}

void paced_until_all(const paced *p)
{
    for (int s = 0; s < STREAM_COUNT; s++) paced_until(p->end[s]);
}

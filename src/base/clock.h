/* clock.h - seconds of a clock that does not go back. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <time.h>

static inline double clock_read(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline double clock_seconds(void)
{
    return clock_read(CLOCK_MONOTONIC);
}

/* Of the processor, for this thread: for limits on work that a loaded machine must not move. */
static inline double clock_work(void)
{
    return clock_read(CLOCK_THREAD_CPUTIME_ID);
}

#endif

/* spans.h - sets of times on threads: what lies in them. Internal to src/measure/profile. */
#ifndef MEASURE_PROFILE_SPANS_H
#define MEASURE_PROFILE_SPANS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"

typedef struct span {
    int64_t thread;
    double start, end;
} span;

typedef struct spans {
    arena *a;
    span *list;
    int64_t n, room;
} spans;

void spans_add(spans *s, int64_t thread, double start, double end);

/* Sorted, and what overlaps joined: before the questions. */
void spans_join(spans *s);

/* Seconds of a thread between two times; is there any that touches them? */
double spans_overlap(const spans *s, int64_t thread, double start, double end);
bool spans_touch(const spans *s, int64_t thread, double start, double end);

#endif

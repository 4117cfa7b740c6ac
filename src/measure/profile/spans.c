/* spans.c - sorted lists of times. */
#include "measure/profile/spans.h"

#include <stdlib.h>

void spans_add(spans *s, int64_t thread, double start, double end)
{
    if (!(end >= start)) return;
    ARENA_GROW(s->a, s->list, s->n, s->room);
    s->list[s->n++] = (span){thread, start, end};
}

static int by_time(const void *a, const void *b)
{
    const span *x = a, *y = b;
    if (x->thread != y->thread) return x->thread < y->thread ? -1 : 1;
    return x->start < y->start ? -1 : x->start > y->start;
}

void spans_join(spans *s)
{
    int64_t n = 0;
    if (s->n) qsort(s->list, (size_t)s->n, sizeof *s->list, by_time);
    for (int64_t i = 0; i < s->n; i++) {
        span *last = n ? &s->list[n - 1] : NULL;
        if (last && last->thread == s->list[i].thread && s->list[i].start <= last->end) {
            if (s->list[i].end > last->end) last->end = s->list[i].end;
        } else {
            s->list[n++] = s->list[i];
        }
    }
    s->n = n;
}

/* The first that ends after `start`; joined ones are sorted by their ends, too. */
static int64_t first_after(const spans *s, int64_t thread, double start)
{
    int64_t low = 0, high = s->n;
    while (low < high) {
        int64_t mid = low + (high - low) / 2;
        const span *x = &s->list[mid];
        bool before = x->thread < thread || (x->thread == thread && x->end <= start);
        if (before)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

double spans_overlap(const spans *s, int64_t thread, double start, double end)
{
    double sum = 0;
    for (int64_t i = first_after(s, thread, start); i < s->n; i++) {
        const span *x = &s->list[i];
        if (x->thread != thread || x->start >= end) break;
        sum += (x->end < end ? x->end : end) - (x->start > start ? x->start : start);
    }
    return sum;
}

bool spans_touch(const spans *s, int64_t thread, double start, double end)
{
    int64_t i = first_after(s, thread, start);
    return i < s->n && s->list[i].thread == thread && s->list[i].start < end;
}

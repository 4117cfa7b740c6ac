/* launched.c - correlation ids lead from a kernel to the call that launched it; the time and thread
 * of that call lead to the operations around it. */
#include "measure/profile/launched.h"

#include <stdlib.h>

static int by_correlation(const void *a, const void *b)
{
    const profile_call *x = a, *y = b;
    return x->correlation < y->correlation ? -1 : x->correlation > y->correlation;
}

static int by_place(const void *a, const void *b)
{
    const profile_range *x = a, *y = b;
    if (x->thread != y->thread) return x->thread < y->thread ? -1 : 1;
    if (x->start != y->start) return x->start < y->start ? -1 : 1;
    return x->end > y->end ? -1 : x->end < y->end;
}

void launched_init(launched *l, profile_events *e, arena *a)
{
    *l = (launched){.e = e, .parent = ARENA_ARRAY(a, int64_t, e->n_ranges + 1)};
    if (e->n_calls) qsort(e->calls, (size_t)e->n_calls, sizeof *e->calls, by_correlation);
    if (e->n_ranges) qsort(e->ranges, (size_t)e->n_ranges, sizeof *e->ranges, by_place);
    for (int64_t i = 0; i < e->n_ranges; i++) {
        const profile_range *r = &e->ranges[i];
        int64_t p = i - 1;
        while (p >= 0 && (e->ranges[p].thread != r->thread || e->ranges[p].end <= r->start))
            p = e->ranges[p].thread != r->thread ? -1 : l->parent[p];
        l->parent[i] = p;
    }
}

const profile_call *launched_by(const launched *l, int64_t correlation)
{
    int64_t low = 0, high = l->e->n_calls;
    if (correlation < 0) return NULL;
    while (low < high) {
        int64_t mid = low + (high - low) / 2;
        if (l->e->calls[mid].correlation < correlation)
            low = mid + 1;
        else
            high = mid;
    }
    bool found = low < l->e->n_calls && l->e->calls[low].correlation == correlation;
    return found ? &l->e->calls[low] : NULL;
}

/* The last range that starts before, then outwards until one holds the call. */
static int64_t range_of(const launched *l, const profile_call *c)
{
    const profile_range *r = l->e->ranges;
    int64_t low = 0, high = l->e->n_ranges;
    while (low < high) {
        int64_t mid = low + (high - low) / 2;
        bool before =
            r[mid].thread < c->thread || (r[mid].thread == c->thread && r[mid].start <= c->start);
        if (before)
            low = mid + 1;
        else
            high = mid;
    }
    int64_t i = low - 1;
    if (i < 0 || r[i].thread != c->thread) return -1;
    while (i >= 0 && r[i].end < c->start) i = l->parent[i];
    return i;
}

int launched_ops(const launched *l, const profile_call *c, int out[OPS_MAX])
{
    int n = 0;
    for (int64_t i = range_of(l, c); i >= 0; i = l->parent[i]) {
        if (n == OPS_MAX) n--; /* the outermost is more telling than its neighbours */
        out[n++] = l->e->ranges[i].name;
    }
    for (int i = 0; i < n / 2; i++) {
        int x = out[i];
        out[i] = out[n - 1 - i];
        out[n - 1 - i] = x;
    }
    return n;
}

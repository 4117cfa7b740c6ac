/* pool.c - the living are kept in the order of their places: the lowest gap is the first. */
#include "ir/memory/pool.h"

#include <string.h>

int64_t pool_take(pool *p, living x)
{
    ARENA_GROW(p->a, p->alive, p->n, p->room);
    int64_t k = 0;
    x.at = 0;
    while (k < p->n && p->alive[k].at - x.at < x.bytes) {
        x.at = p->alive[k].at + p->alive[k].bytes;
        k++;
    }
    memmove(&p->alive[k + 1], &p->alive[k], sizeof x * (size_t)(p->n - k));
    p->alive[k] = x;
    p->n++;
    if (x.at + x.bytes > p->end) p->end = x.at + x.bytes;
    return x.at;
}

void pool_leave(pool *p, int64_t chunk_id, int64_t micro, int instance_id)
{
    for (int64_t k = 0; k < p->n; k++) {
        const living *x = &p->alive[k];
        if (x->micro != micro || x->chunk != chunk_id || x->instance != instance_id) continue;
        p->n--;
        memmove(&p->alive[k], &p->alive[k + 1], sizeof *x * (size_t)(p->n - k));
        return;
    }
}

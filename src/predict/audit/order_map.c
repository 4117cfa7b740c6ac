/* order_map.c - addresses become numbers of intervals. */
#include "predict/audit/order_map.h"

#include <stdlib.h>
#include <string.h>

#include "predict/audit/hash.h"

/* ---- places where something begins or ends, each once */

typedef struct bounds {
    int64_t *key;   /* [room] address + 1; 0: free */
    int32_t *place; /* [room] its number in the order of addresses */
    int64_t n, room;
} bounds;

static int64_t find(const bounds *b, int64_t address)
{
    int64_t i = (int64_t)(hash_add(HASH_START, (uint64_t)address) & (uint64_t)(b->room - 1));
    while (b->key[i] && b->key[i] != address + 1) i = (i + 1) & (b->room - 1);
    return i;
}

static void put(bounds *b, int64_t address, arena *a);

static void grow(bounds *b, arena *a)
{
    bounds old = *b;
    *b = (bounds){.room = old.room ? 2 * old.room : 1024};
    b->key = ARENA_ARRAY(a, int64_t, b->room);
    for (int64_t i = 0; i < old.room; i++)
        if (old.key[i]) put(b, old.key[i] - 1, a);
}

static void put(bounds *b, int64_t address, arena *a)
{
    if (2 * b->n >= b->room) grow(b, a);
    int64_t i = find(b, address);
    if (b->key[i]) return;
    b->key[i] = address + 1;
    b->n++;
}

static int compare(const void *x, const void *y)
{
    int64_t a = *(const int64_t *)x, b = *(const int64_t *)y;
    return (a > b) - (a < b);
}

static void number(bounds *b, arena *a)
{
    int64_t *sorted = ARENA_RAW(a, int64_t, b->n + 1), n = 0;
    for (int64_t i = 0; i < b->room; i++)
        if (b->key[i]) sorted[n++] = b->key[i];
    qsort(sorted, (size_t)n, sizeof *sorted, compare);
    b->place = ARENA_RAW(a, int32_t, b->room + 1);
    for (int64_t i = 0; i < n; i++) b->place[find(b, sorted[i] - 1)] = (int32_t)i;
}

/* ---- accesses */

typedef struct span {
    int64_t start, end;
} span;

/* The buffers of a list of them that an item touches. */
static int spans_of(span *out, const program *p, const item *it, const int *ids, int n)
{
    int found = 0;
    for (int i = 0; i < n; i++) {
        if (ids[i] < 0 || it->seg->bufs[ids[i]].bytes <= 0) continue;
        int64_t start = program_place(p, it, ids[i]);
        if (start >= 0) out[found++] = (span){start, start + it->seg->bufs[ids[i]].bytes};
    }
    return found;
}

typedef struct mapping {
    order_map *m;
    bounds places;
    bool counting; /* the first time: places alone */
    int64_t op, access;
    arena *a, *scratch;
} mapping;

static void map_op(mapping *w, const item *it, const op *o)
{
    span list[OP_IN_MAX + OP_OUT_MAX];
    int reads = spans_of(list, w->m->p, it, o->in, OP_IN_MAX);
    int n = reads + spans_of(list + reads, w->m->p, it, o->out, OP_OUT_MAX);
    for (int i = 0; i < n; i++) {
        if (w->counting) {
            put(&w->places, list[i].start, w->scratch);
            put(&w->places, list[i].end, w->scratch);
        } else {
            w->m->accesses[w->access + i] =
                (order_access){w->places.place[find(&w->places, list[i].start)],
                               w->places.place[find(&w->places, list[i].end)]};
        }
    }
    if (!w->counting) w->m->counts[w->op] = (order_counts){(uint8_t)reads, (uint8_t)(n - reads)};
    w->op++;
    w->access += n;
}

static void map_items(mapping *w)
{
    const program *p = w->m->p;
    w->op = w->access = 0;
    for (int part = 0; part < PART_COUNT; part++)
        for (int64_t i = 0; i < p->items[part].n; i++) {
            const item *it = &p->items[part].list[i];
            w->m->first_op[part][i] = w->op;
            w->m->first_access[part][i] = w->access;
            for (int k = 0; k < it->seg->n_ops[it->phase]; k++)
                map_op(w, it, &it->seg->ops[it->phase][k]);
        }
}

int64_t order_ops(const program *p)
{
    int64_t n = 0;
    for (int part = 0; part < PART_COUNT; part++)
        for (int64_t i = 0; i < p->items[part].n; i++)
            n += p->items[part].list[i].seg->n_ops[p->items[part].list[i].phase];
    return n;
}

order_map *order_map_make(const program *p, arena *a)
{
    order_map *m = ARENA_NEW(a, order_map);
    mapping w = {.m = m, .counting = true, .a = a, .scratch = arena_create()};
    m->p = p;
    for (int part = 0; part < PART_COUNT; part++) {
        m->first_op[part] = ARENA_RAW(a, int64_t, p->items[part].n + 1);
        m->first_access[part] = ARENA_RAW(a, int64_t, p->items[part].n + 1);
    }
    grow(&w.places, w.scratch);
    map_items(&w);
    number(&w.places, w.scratch);
    m->n_ops = w.op;
    m->n_intervals = (int32_t)w.places.n;
    m->counts = ARENA_RAW(a, order_counts, m->n_ops + 1);
    m->accesses = ARENA_RAW(a, order_access, w.access + 1);
    w.counting = false;
    map_items(&w);
    arena_destroy(w.scratch);
    return m;
}

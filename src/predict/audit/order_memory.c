/* order_memory.c - runs of intervals, by two levels of bits. */
#include "predict/audit/order_memory.h"

#include <string.h>

enum { WORD = 64 };

static bool has(const uint64_t *bits, int32_t i)
{
    return bits[i / WORD] >> (i % WORD) & 1;
}

static void set(order_memory *m, int32_t i)
{
    m->starts[i / WORD] |= (uint64_t)1 << (i % WORD);
    m->some[i / WORD / WORD] |= (uint64_t)1 << (i / WORD % WORD);
}

/* The last set bit up to i, or the first from i on; there is one. */
static int32_t last_in(const uint64_t *bits, int32_t i)
{
    int32_t w = i / WORD;
    uint64_t x = bits[w] & (~(uint64_t)0 >> (WORD - 1 - i % WORD));
    while (!x && w > 0) x = bits[--w];
    return x ? w * WORD + WORD - 1 - __builtin_clzll(x) : -1;
}

static int32_t first_in(const uint64_t *bits, int32_t i)
{
    int32_t w = i / WORD;
    uint64_t x = bits[w] & (~(uint64_t)0 << (i % WORD));
    while (!x) x = bits[++w];
    return w * WORD + __builtin_ctzll(x);
}

static int32_t run_at(const order_memory *m, int32_t i)
{
    int32_t w = i / WORD;
    uint64_t own = m->starts[w] & (~(uint64_t)0 >> (WORD - 1 - i % WORD));
    if (own) return w * WORD + WORD - 1 - __builtin_clzll(own);
    w = last_in(m->some, w - 1);
    return w * WORD + WORD - 1 - __builtin_clzll(m->starts[w]);
}

int32_t order_memory_next(const order_memory *m, int32_t r)
{
    int32_t i = r + 1, w = i / WORD;
    uint64_t own = m->starts[w] & (~(uint64_t)0 << (i % WORD));
    if (own) return w * WORD + __builtin_ctzll(own);
    w = first_in(m->some, w + 1);
    return w * WORD + __builtin_ctzll(m->starts[w]);
}

void order_memory_init(order_memory *m, int32_t n_intervals, arena *a)
{
    int32_t words = n_intervals / WORD + 2;
    *m = (order_memory){.n = n_intervals};
    m->runs = ARENA_RAW(a, order_run, n_intervals + 1);
    m->starts = ARENA_ARRAY(a, uint64_t, words);
    m->some = ARENA_ARRAY(a, uint64_t, words / WORD + 2);
    m->runs[0] = m->runs[n_intervals] = (order_run){.written = 0};
    set(m, 0);
    set(m, n_intervals); /* behind the last one: every search ends there */
}

static void cut_at(order_memory *m, int32_t i)
{
    if (has(m->starts, i)) return;
    m->runs[i] = m->runs[run_at(m, i)];
    set(m, i);
}

void order_memory_cut(order_memory *m, order_access x)
{
    cut_at(m, x.first);
    cut_at(m, x.end);
}

void order_memory_write(order_memory *m, order_access x, op_stream stream, uint32_t number)
{
    for (int32_t r = order_memory_next(m, x.first); r < x.end; r = order_memory_next(m, r)) {
        uint64_t *word = &m->starts[r / WORD];
        *word &= ~((uint64_t)1 << (r % WORD));
        if (!*word) m->some[r / WORD / WORD] &= ~((uint64_t)1 << (r / WORD % WORD));
    }
    m->runs[x.first] = (order_run){.written = number, .writer = stream};
}

/* search_memo.c - open addressing; at most half of the places are taken. */
#include "plan/search_memo.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { FIRST_ROOM = 256 };

void memo_init(memo *m, size_t key_bytes, arena *a)
{
    *m = (memo){.a = a, .key_bytes = key_bytes};
}

/* Word by word: keys are short, and a call takes longer. */
static bool same_key(const unsigned char *a, const unsigned char *b, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += 8) {
        uint64_t x, y;
        memcpy(&x, a + i, 8);
        memcpy(&y, b + i, 8);
        if (x != y) return false;
    }
    return true;
}

static size_t place_of(const memo *m, const unsigned char *key)
{
    uint64_t h = 1469598103934665603u;
    for (size_t i = 0; i < m->key_bytes; i += 8) {
        uint64_t word;
        memcpy(&word, key + i, 8);
        h = (h ^ word) * 0x9e3779b97f4a7c15u;
        h ^= h >> 32;
    }
    size_t at = h & (m->room - 1);
    while (m->values[at] && !same_key(m->keys + at * m->key_bytes, key, m->key_bytes))
        at = (at + 1) & (m->room - 1);
    return at;
}

void *memo_get(const memo *m, const void *key)
{
    return m->room ? m->values[place_of(m, key)] : NULL;
}

static void grow(memo *m)
{
    memo old = *m;
    m->room = old.room ? old.room * 2 : FIRST_ROOM;
    m->keys = arena_take(m->a, m->room * m->key_bytes);
    m->values = (void **)arena_take(m->a, m->room * sizeof *m->values);
    for (size_t i = 0; i < old.room; i++) {
        if (!old.values[i]) continue;
        size_t at = place_of(m, old.keys + i * old.key_bytes);
        memcpy(m->keys + at * m->key_bytes, old.keys + i * old.key_bytes, m->key_bytes);
        m->values[at] = old.values[i];
    }
}

void memo_put(memo *m, const void *key, void *made)
{
    if (m->n * 2 >= m->room) grow(m);
    size_t at = place_of(m, key);
    if (!m->values[at]) m->n++;
    memcpy(m->keys + at * m->key_bytes, key, m->key_bytes);
    m->values[at] = made;
}

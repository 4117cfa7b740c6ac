/* search_memo.h - a table from keys of fixed size to what was made for them. Keys are compared byte
 * by byte, so padding must be zero. */
#ifndef PLAN_SEARCH_MEMO_H
#define PLAN_SEARCH_MEMO_H

#include <stddef.h>

#include "base/arena.h"

typedef struct memo {
    arena *a;
    size_t key_bytes, n, room;
    unsigned char *keys;
    void **values;
} memo;

void memo_init(memo *m, size_t key_bytes, arena *a); /* key_bytes: a multiple of 8 */
void *memo_get(const memo *m, const void *key);      /* NULL: nothing was put there */
void memo_put(memo *m, const void *key, void *made);

#endif

/* pool.h - places in one range of memory, taken and left again: the lowest that is free serves.
 * The memory plan packs saved buffers with it (slots.c), and a search the sizes of them. */
#ifndef PROGRAM_MEMORY_POOL_H
#define PROGRAM_MEMORY_POOL_H

#include <stdint.h>

#include "base/arena.h"
#include "program/schedule/order.h"

/* Who lives there: an instance of a chunk for a microbatch. */
typedef struct living {
    int64_t at, bytes, chunk, micro;
    int instance;
} living;

typedef struct pool {
    living *alive; /* in the order of their places */
    int64_t n, room, end;
    arena *a;
} pool;

int64_t pool_take(pool *p, living x); /* the place */
void pool_leave(pool *p, int64_t chunk, int64_t micro, int instance);

/* A slot for each chunk of each microbatch, from its forward to its backward; taken `ahead` entries
 * sooner, where its input is received ahead. Fills the places. */
typedef struct chunk_slots {
    const int64_t *bytes;  /* [chunks] */
    int64_t micros, ahead; /* of the order; entries */
    int64_t *at;           /* [chunks][micros], or NULL: nobody asks */
} chunk_slots;
void pool_by_chunk(pool *p, const step_order *o, const chunk_slots *s);

#endif

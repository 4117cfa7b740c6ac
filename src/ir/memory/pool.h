/* pool.h - places in one range of memory, taken and left again: the lowest that is free serves.
 */
#ifndef IR_MEMORY_POOL_H
#define IR_MEMORY_POOL_H

#include <stdint.h>

#include "base/arena.h"

/* Who lives there: a part of an instance of a chunk for a microbatch. */
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

#endif

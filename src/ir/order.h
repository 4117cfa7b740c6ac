/* order.h - the order of (phase, chunk, microbatch) on a pipeline rank, and how many are alive at
 * once. */
#ifndef IR_ORDER_H
#define IR_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"

enum { ORDER_FORWARD = 0 }; /* as segments number their lists */

typedef struct order_entry {
    int phase; /* SEG_FORWARD (ORDER_FORWARD), SEG_BACKWARD */
    int64_t chunk, micro;
} order_entry;

typedef struct order_shape {
    int64_t pp, rank, vpp, micros;
    int64_t group;   /* consecutive microbatches of a chunk (interleaved only) */
    bool ep_overlap; /* one more warm-up forward, so that a step pairs different microbatches */
} order_shape;

typedef struct step_order {
    order_entry *list;
    int64_t n, warmup;
} step_order;

/* 1F1B, or interleaved 1F1B with vpp > 1, in Megatron's order. */
void order_make(step_order *s, const order_shape *shape, arena *a);

int64_t order_warmup(const order_shape *shape); /* forwards before the first backward */

/* With combined 1F1B: does entry i run beside the one behind it? Between warm-up and cool-down each
 * forward does so with the backward that follows it. */
static inline bool order_is_pair(const step_order *o, int64_t i)
{
    return o->list[i].phase == ORDER_FORWARD && i >= o->warmup && i + 1 < o->n - o->warmup;
}

/* Most (chunk, microbatch) pairs whose forward is done and whose backward is not. */
int64_t order_peak(const step_order *s);

#endif

/* order_map.h - the operations of a program with the memory that they touch, as intervals.
 *
 * All places where a buffer of the program begins or ends, in their order, cut memory into
 * intervals. A buffer covers some that follow each other, so that an access is two small numbers,
 * and a program can be replayed often. */
#ifndef PREDICT_AUDIT_ORDER_MAP_H
#define PREDICT_AUDIT_ORDER_MAP_H

#include "ir/program.h"

/* Intervals first .. end-1. */
typedef struct order_access {
    int32_t first, end;
} order_access;

/* How many of an item's accesses an operation has: reads, then writes. */
typedef struct order_counts {
    uint8_t reads, writes;
} order_counts;

typedef struct order_map {
    const program *p;
    int64_t n_ops; /* of a step, WAITs included */
    int32_t n_intervals;
    int64_t *first_access[PART_COUNT]; /* [items] */
    int64_t *first_op[PART_COUNT];     /* [items] */
    order_counts *counts;              /* [n_ops] in the order of parts and items */
    order_access *accesses;
} order_map;

/* Operations of a step. */
int64_t order_ops(const program *p);

/* Memory comes from `a`. */
order_map *order_map_make(const program *p, arena *a);

#endif

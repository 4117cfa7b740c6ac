/* order_memory.h - who last wrote and who last read each interval of memory.
 *
 * Intervals that follow each other and have the same history are one run: a write makes one run of
 * what it covers, an access that ends inside a run cuts it. So the work is by accesses, not by how
 * finely memory is cut.
 *
 * I1  Run r begins at interval r: bit r of `starts` is set, and `runs[r]` is its history. It ends
 *     where the next one begins. `some` has a bit for each word of `starts` that has any. */
#ifndef PREDICT_AUDIT_ORDER_MEMORY_H
#define PREDICT_AUDIT_ORDER_MEMORY_H

#include "predict/audit/order_map.h"

/* Operations are numbered by stream, from 1 on; 0: none. */
typedef struct order_run {
    uint32_t written, read[STREAM_COUNT]; /* read: since it was written */
    op_stream writer;
} order_run;

typedef struct order_memory {
    order_run *runs;         /* [n + 1] */
    uint64_t *starts, *some; /* I1 */
    int32_t n;
} order_memory;

/* Nobody has touched anything. Memory comes from `a`. */
void order_memory_init(order_memory *m, int32_t n_intervals, arena *a);

/* Cuts runs so that an access covers whole ones. */
void order_memory_cut(order_memory *m, order_access x);

/* The run behind run r. */
int32_t order_memory_next(const order_memory *m, int32_t r);

/* One run, written by an operation. After order_memory_cut. */
void order_memory_write(order_memory *m, order_access x, op_stream stream, uint32_t number);

#endif

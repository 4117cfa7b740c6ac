/* order_check.h - are all conflicting accesses of lists of operations in order?
 *
 * Two operations conflict where one writes memory that the other reads or writes. Memory is
 * compared by addresses, so that buffers that share a place, of one list or of two, are seen. How
 * waits were derived (program/schedule/waits.c) is not looked at. */
#ifndef AUDIT_ORDER_CHECK_H
#define AUDIT_ORDER_CHECK_H

#include "program/program.h"

/* One list, and where its buffers lie: [n_bufs], -1 for those that it does not use. */
typedef struct order_list {
    const segment *seg;
    int phase;
    const int64_t *start;
} order_list;

/* Who runs the lists. */
typedef enum order_model {
    /* Every stream is a queue that runs in order and knows nothing of the others but what WAITs
     * tell it, the compute stream included: a message that begins before its input is computed is
     * found as surely as an operation that reads what is still on its way. */
    ORDER_QUEUES,
    /* The host runs the compute stream itself, call by call: what that has computed or waited for
     * is complete when a message starts. But messages of a stream end in any order. */
    ORDER_HOST,
    ORDER_MODELS
} order_model;

typedef struct order_options {
    order_model model;
    const op *left_out; /* a WAIT that is taken out, to see whether it is missed; NULL: none */
} order_options;

typedef struct order_report {
    int64_t pairs;      /* conflicting accesses of two streams, or of two messages */
    int64_t unordered;  /* of those: neither is known to be complete before the other begins */
    int64_t unfinished; /* messages and copies that the compute stream has not waited for at the end
                         * of their list; those with an event of the program may go on */
    const op *first[2]; /* the first that are not ordered; [1] NULL: the first that is not finished;
                         * [0] NULL: none */
} order_report;

/* The lists run one after another, as consecutive items of a program do. Memory comes from
 * `scratch` and is given back. */
void order_check(order_report *out, const order_list *lists, int n, order_options o,
                 arena *scratch);

/* The list of an item with its addresses (program_place). */
order_list order_list_of(const program *p, const item *it, arena *a);

#endif

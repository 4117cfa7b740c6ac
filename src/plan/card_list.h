/* card_list.h - a list of operations with every buffer at a place of its own: what each costs, and
 * what it waits for. Bounds of times are played from it (card_light.c). */
#ifndef PLAN_CARD_LIST_H
#define PLAN_CARD_LIST_H

#include "predict/price.h"
#include "ir/schedule/wait_finder.h"
#include "ir/segment.h"

enum { WAITS_MAX = 8 }; /* what is left out only makes bounds lower */

typedef struct event {
    op_cost cost[2]; /* under parts of graphs or none, and in a graph of the whole iteration */
    int lane;
    bool passed; /* takes no time and nobody waits for it (simulate.c) */
    bool early;  /* needs no operation of the compute stream (card_light.c, I4) */
    touched t;   /* every buffer is a space of its own, views are parts of it */
    int n_waits;
    int waits[WAITS_MAX]; /* events that its stream waits for before it */
    double done;
} event;

typedef struct event_list {
    event *e;
    int n;
    wait_finder finder;
    touch *free;  /* for the touches of the next operation */
    int *found;   /* for the finder's answers */
    double flops; /* of GEMMs */
    bool steps;   /* a whole iteration may be captured */
    int64_t temp; /* most bytes of temporaries that live at once */
} event_list;

/* `costs`: under parts of graphs or none, and in a graph of the whole iteration. */
void event_list_fill(event_list *l, const cost_model costs[2], const segment *seg, int phase,
                     arena *a);

#endif

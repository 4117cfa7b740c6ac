/* card_simulation.h - lists played from below: no card of the same operations goes faster. */
#ifndef PLAN_CARD_SIMULATE_H
#define PLAN_CARD_SIMULATE_H

#include "plan/card_list.h"
#include "plan/cards.h"

/* Who launches, and what messages beside GEMMs take of the chip. */
typedef struct list_host {
    const unsigned *captured; /* [SCOPES] CAPTURED_ bits */
    const double *share;      /* [COST_KINDS] */
    const double *replay;     /* [2] seconds to start a graph of parts of a layer: forward, back */
    bool leads; /* launches ahead of the device, from list to list (simulate.c, I4, I6) */
} list_host;

/* A list without its host. Returns when its last stream is done; `inside`: when compute is, without
 * messages that could have started before (I3). */
double list_simulation(event_list *l, bool step, bool inside);

/* All launches under one scope of graphs, without the starts of graphs: those of a half need not be
 * those of the whole or of a pair. */
double list_launches(const event_list *l, const list_host *h, int g);

/* What the compute stream has to do, and what messages take from it. */
typedef struct list_load {
    double compute, shared, share;
} list_load;
list_load list_load_of(const event_list *l, const double *share, bool step);

/* Seconds of a list that ends at `end` with what messages take from it (I2). */
double list_with_share(const list_load *of, double end, bool clamped);

/* Under every scope of graphs: scopes that hold the same of this list are played once. */
void list_paces(list_least *const out[SCOPES], event_list *l, const list_host *h);

#endif

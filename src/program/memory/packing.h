/* packing.h - places of saved parts in one region.
 *
 * Parts of one size share a shelf: one leaves its place to the next of the same size, so that a
 * shelf is as long as most of its parts at once. Shelves stand one behind another. Where parts of
 * several sizes live most at different times, that ends above what lives at once: if by more than
 * 1 %, the two longest shelves with first fit behind them are tried, and first fit alone; the
 * shortest is taken. Best fit was no shorter on any of 238 layouts of GPU size. */
#ifndef PROGRAM_MEMORY_PACKING_H
#define PROGRAM_MEMORY_PACKING_H

#include "program/memory/lives.h"

/* What a region comes to. */
typedef struct packed {
    int64_t bytes; /* where it ends */
    int64_t live;  /* most bytes that live at once: no packing is shorter */
} packed;

/* `at`: where places are written, [n_chunks][micros][most][SAVED_PARTS] with `most` instances of a
 * chunk; parts without bytes keep what is there. NULL: nobody asks. */
typedef struct packing_places {
    int64_t *at;
    int64_t micros, most;
} packing_places;

static inline int64_t *packing_place(const packing_places *p, int64_t chunk_id, int64_t micro,
                                     int instance_id, saved_part part)
{
    return &p->at[((chunk_id * p->micros + micro) * p->most + instance_id) * SAVED_PARTS + part];
}

packed packing_of(const slot_rows *s, const step_order *o, const packing_places *p, arena *a);

/* Within 3 % or 64 MiB of the bytes that live at once: else the gap is printed. */
static inline bool packing_is_close(int64_t bytes, int64_t live)
{
    int64_t gap = bytes - live;
    return gap <= (int64_t)64 << 20 || 100 * gap <= 3 * live;
}

#endif

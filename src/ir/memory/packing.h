/* packing.h - places saved activations in one memory region.
 *
 * Parts of one size share a shelf: a part that is freed leaves its place to the next one of that
 * size, so a shelf is as long as the largest number of its parts that are live at once. Shelves
 * follow one another. If sizes peak at different times, the region is longer than the bytes that
 * are live at once. If it is longer by more than 1 %, two alternatives are tried (the two longest
 * shelves followed by first fit, and first fit alone), and the shortest region is used. Best fit
 * was no shorter on any of 238 layouts of GPU size. */
#ifndef IR_MEMORY_PACKING_H
#define IR_MEMORY_PACKING_H

#include "ir/memory/lives.h"

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

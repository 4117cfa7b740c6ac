/* live.h - bytes that live at once in a step of Megatron's, from the lists that ours has.
 *
 * Megatron's allocator gives each tensor memory of its own and takes it back when nothing refers to
 * it any longer: a temporary behind its last use, a saved tensor behind the operation of backward
 * that reads it last. So its peak is the largest sum of what lives at one moment, where an arena's
 * is the end of its fullest layout. Levels are relative: a segment says what it adds to what lived
 * before it. */
#ifndef IR_MEMORY_LIVE_H
#define IR_MEMORY_LIVE_H

#include "ir/program.h"

static inline int64_t live_sum(live_level x)
{
    return x.saved + x.logits + x.temp;
}

static inline int64_t live_again(live_level a, live_level b)
{
    return a.again > b.again ? a.again : b.again;
}

static inline live_level live_add(live_level a, live_level b)
{
    return (live_level){a.saved + b.saved, a.logits + b.logits, a.temp + b.temp, live_again(a, b)};
}

static inline live_level live_less(live_level a, live_level b)
{
    return (live_level){a.saved - b.saved, a.logits - b.logits, a.temp - b.temp, a.again};
}

static inline live_level live_most(live_level a, live_level b)
{
    live_level x = live_sum(b) > live_sum(a) ? b : a;
    x.again = live_again(a, b);
    return x;
}

/* An instance of a segment, or several in a row. */
typedef struct live_span {
    live_level kept;    /* forward leaves it, backward takes it away */
    live_level forward; /* highest level in forward, what it keeps included */
    live_level
        backward; /* highest level in backward, over the one before it: what was kept falls */
} live_span;

/* `b` behind `a` in forward. */
live_span live_join(live_span a, live_span b);

/* A segment that runs alone. Its input counts as kept, and so does what Transformer Engine keeps
 * beside our buffers. */
live_span live_of_segment(const segment *seg, const setup *s, arena *scratch);

/* A pair of combined 1F1B: its highest level over the one before it. */
live_level live_of_pair(const segment *pair, const setup *s, arena *scratch);

/* ---- a rank */

/* Instances of a chunk without messages between stages, in the order of forward. */
typedef struct live_row {
    const live_span *spans;
    const segment_kind *kinds;
    int n;
} live_row;

typedef struct live_rank {
    const step_order *order;
    const live_row *rows; /* [chunks] */
    int64_t n_chunks;
    bool pairs; /* combined 1F1B */
    bool whole; /* look at every entry, though the order repeats itself: for tests */
    /* The level of instance f of one chunk beside instance b of another. */
    live_level (*pair)(void *with, int64_t f_chunk, int f, int64_t b_chunk, int b);
    void *with;
} live_rank;

live_level live_peak(const live_rank *r, arena *scratch);

/* Of something that a chunk has so many of: how many are in flight when the first backward
 * begins. */
int64_t live_in_flight(const step_order *o, const int64_t *of_chunk);

#endif

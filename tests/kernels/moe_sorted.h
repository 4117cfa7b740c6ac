/* moe_sorted.h - tokens sorted by expert, in all the ways that there are. */
#ifndef TESTS_KERNELS_MOE_SORTED_H
#define TESTS_KERNELS_MOE_SORTED_H

#include "moe_testing.h"

/* Where each token went. */
typedef struct sorted {
    int64_t T, E, K, room;
    int32_t *ids, *rows, *offsets;
    float *keep; /* [T][K] or NULL */
} sorted;

enum { SPREAD, CROWDED, SPARSE }; /* any experts; the first K; every second one */

static inline sorted sort_tokens(pool *p, sorted s, int how, int64_t pad)
{
    int64_t n = s.T * s.K, usable = how == CROWDED ? s.K : how == SPARSE ? (s.E + 1) / 2 : s.E;
    s.ids = TAKE(p, int32_t, n);
    s.rows = TAKE(p, int32_t, n);
    s.offsets = TAKE(p, int32_t, s.E + 1);
    for (int64_t t = 0; t < s.T; t++) {
        int64_t first = (int64_t)(magnitude(random_next(p)) * (double)usable);
        for (int64_t k = 0; k < s.K; k++) {
            int64_t e = (first + k) % usable;
            s.ids[t * s.K + k] = (int32_t)(how == SPARSE ? 2 * e : e);
        }
    }
    op o = {.kind = OP_SORT, .dim = {s.T, s.E, s.K, s.room, pad}};
    run(plain_moe(), &o, LIST(s.ids, s.keep), LIST(s.rows, s.offsets));
    return s;
}

/* Ways to sort: how tokens spread, whether pairs are dropped, rows of room over T * K, padding. */
typedef struct way {
    int how;
    bool drops;
    int64_t more_room, pad;
} way;

static const way ways[] = {
    {SPREAD, false, 0, 0}, {SPREAD, false, 9, 0},   {CROWDED, false, 0, 0}, {SPARSE, false, 0, 0},
    {SPREAD, true, 0, 0},  {SPREAD, false, -20, 0}, {SPREAD, true, 0, 8},   {SPARSE, false, 0, 40},
};
enum { N_WAYS = sizeof ways / sizeof ways[0] };

static inline sorted sort_in_way(pool *p, const way *w, int64_t T)
{
    sorted s = {.T = T, .E = 7, .K = 3, .room = 3 * T + w->more_room};
    if (w->pad) s.room = s.E * w->pad;
    if (w->drops) s.keep = TAKE(p, float, s.T *s.K);
    for (int64_t i = 0; w->drops && i < s.T * s.K; i++) s.keep[i] = random_next(p) < 0.5;
    return sort_tokens(p, s, w->how, w->pad);
}

#endif

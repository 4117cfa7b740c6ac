/* round_robin.h - forced balance: the way round the experts, and how many rows it makes.
 *
 * Without limits each of a token's experts comes from another part of the list, as those of a real
 * router do: neighbours would all lie on one rank, and messages between ranks would be too few.
 * One group with one visit takes K neighbours, which is even for any sizes. */
#ifndef OP_ROUND_ROBIN_H
#define OP_ROUND_ROBIN_H

#include "base/maths.h"

/* A token visits `visited` of `n_groups` groups, one after another, and takes K / visited experts
 * of each (the first ones one more where that leaves a rest). */
typedef struct round_robin {
    int64_t E, K, n_groups, visited;
} round_robin;

/* Do visits come round to every expert equally often? */
static inline bool round_is_even(const round_robin *r)
{
    return r->K % r->visited == 0 && r->E / r->n_groups % (r->K / r->visited) == 0;
}

/* At most this many groups of `size` hold K neighbours. */
static inline int64_t groups_of_neighbours(int64_t K, int64_t size)
{
    return K < 2 ? 1 : (K - 2) / size + 2;
}

/* `group_topk` 0: no limits. */
static inline round_robin round_robin_of(int64_t E, int64_t K, int64_t groups, int64_t group_topk)
{
    round_robin neighbours = {E, K, 1, 1}, apart = {E, K, K, K},
                limited = {E, K, groups, group_topk};
    if (group_topk == 0) return E % K == 0 ? apart : neighbours;
    bool fit = groups_of_neighbours(K, E / groups) <= group_topk;
    return fit && !round_is_even(&limited) ? neighbours : limited;
}

/* Experts of a group that one visit takes at most. */
static inline int64_t round_most(const round_robin *r)
{
    return ceil_div(r->K, r->visited);
}

/* The most rows that one expert gets of n tokens in a row. */
static inline int64_t round_rows(const round_robin *r, int64_t n)
{
    int64_t visits = ceil_div(mul_sat(n, r->visited), r->n_groups), size = r->E / r->n_groups;
    int64_t rows = ceil_div(mul_sat(visits, round_most(r)), size);
    return rows < n ? rows : n;
}

#endif

/* plain_moe_choice.c - which experts a token takes.
 *
 * C1  Equal values: the lowest index. So results are the same on every machine, which torch.topk
 *     does not promise.
 * C2  Ids are K different experts, whatever the values are (NaN, infinities, all equal): what is
 *     sorted by them later never leaves its buffers.
 * C3  FORCED depends on the number of the token alone. */
#include "backend/cpu/kernels/plain_moe.h"

#include <math.h>

#include "op/round_robin.h"

void best_of(const real *v, int64_t n, int64_t k, int32_t *ids)
{
    for (int64_t e = 0; e < n; e++) {
        int64_t place = e < k ? e : k;
        for (; place > 0 && v[e] > v[ids[place - 1]]; place--) /* C1: not >= */
            if (place < k) ids[place] = ids[place - 1];
        if (place < k) ids[place] = (int32_t)e;
    }
}

/* Sum of the `n` best of a group of `size` experts. */
static real group_score(const real *values /* [size] */, int64_t size, int64_t n)
{
    int32_t best[EXPERTS_MAX];
    best_of(values, size, n, best);
    real sum = 0;
    for (int64_t i = 0; i < n; i++) sum += values[best[i]];
    return sum;
}

/* How many experts count for the score of their group. Megatron takes K / GROUP_TOPK, which is none
 * where a token may use more groups than experts; then all groups would tie, so we take one. */
static int64_t experts_scored(const op *o, int64_t size)
{
    int64_t n = o->flags & BEST_TWO   ? 2
                : o->flags & BEST_ONE ? 1
                                      : o->dim[DIM_ROUTER_K] / o->dim[DIM_ROUTER_GROUP_TOPK];
    if (n < 1) n = 1;
    return n < size ? n : size;
}

/* Only the GROUP_TOPK best groups stay in the choice. */
static void limit_groups(const op *o, real *values /* [E] */)
{
    int64_t n_groups = o->dim[DIM_ROUTER_GROUPS], size = o->dim[DIM_ROUTER_E] / n_groups,
            scored = experts_scored(o, size);
    real scores[EXPERTS_MAX];
    int32_t order[EXPERTS_MAX]; /* [GROUPS] */
    for (int64_t g = 0; g < n_groups; g++) scores[g] = group_score(values + g * size, size, scored);
    best_of(scores, n_groups, n_groups, order);
    for (int64_t i = o->dim[DIM_ROUTER_GROUP_TOPK]; i < n_groups; i++)
        for (int64_t e = 0; e < size; e++) values[order[i] * size + e] = -INFINITY;
}

/* Visits are numbered over all tokens: visit v goes to group v mod n_groups, and takes up there
 * where the visit before has left off. */
static void choose_round_robin(const op *o, int64_t token, int32_t *ids /* [K] */)
{
    round_robin r = round_robin_of(o->dim[DIM_ROUTER_E], o->dim[DIM_ROUTER_K],
                                   o->dim[DIM_ROUTER_GROUPS], o->dim[DIM_ROUTER_GROUP_TOPK]);
    int64_t size = r.E / r.n_groups, most = round_most(&r);
    for (int64_t i = 0; i < r.visited; i++) {
        int64_t visit = token * r.visited + i, group = visit % r.n_groups;
        int64_t first = visit / r.n_groups % size * most; /* of this visit */
        int64_t n = r.K / r.visited + (i < r.K % r.visited);
        for (int64_t j = 0; j < n; j++) *ids++ = (int32_t)(group * size + (first + j) % size);
    }
}

void choose_experts(const op *o, int64_t token, real *values, int32_t *ids)
{
    if (o->flags & FORCED) {
        choose_round_robin(o, token, ids); /* C3 */
        return;
    }
    if (o->dim[DIM_ROUTER_GROUP_TOPK] > 0) limit_groups(o, values);
    best_of(values, o->dim[DIM_ROUTER_E], o->dim[DIM_ROUTER_K], ids);
}

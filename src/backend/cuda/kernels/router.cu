/* router.cu - which experts a token takes, their weights, and the gradient of those.
 *
 * R1  The bias counts for the choice, never for a weight.
 * R2  Softmax over all experts, renormalised over the chosen, is softmax over the chosen logits,
 *     and is computed so: with FORCED all chosen ones may be so small that their sum is 0. */
#include "backend/cuda/kernels/router.cuh"

extern "C" {
#include "op/round_robin.h"
}

static bool experts_fit(const op *o, const op_types *t)
{
    return cuda_types_fit(o, t) && o->dim[DIM_ROUTER_E] <= EXPERTS_MOST;
}

struct choosing : op_router {
    int64_t scored; /* experts of a group that count for its score */
    round_robin round;
    int64_t round_each; /* experts of a group that one visit takes at most */

    /* What the choice goes by: scores, or logits where softmax comes after it. */
    __device__ void values(const float *x, int lane, float *v) const
    {
        softmax all = {0, 1};
        const bool own = own_scores(flags), before = !own && flags & PRE_SOFTMAX;
        if (before) all = softmax_of(E, lane, [&](int64_t i) { return x[i]; });
        for (int64_t e = lane; e < E; e += WARP) {
            const float s = own      ? score_of(flags, x[e])
                            : before ? expf(x[e] - all.top) / all.sum
                                     : x[e];
            v[e] = s + (bias ? bias[e] : 0);
        }
    }

    /* Only the best GROUPS stay in the choice; `list` and `score` have room for E. */
    __device__ void limit_groups(float *v, int32_t *list, float *score) const
    {
        const int64_t size = E / GROUPS;
        for (int64_t g = 0; g < GROUPS; g++) {
            float sum = 0;
            best_of(v + g * size, size, scored, list);
            for (int64_t i = 0; i < scored; i++) sum += v[g * size + list[i]];
            score[g] = sum;
        }
        best_of(score, GROUPS, GROUPS, list);
        for (int64_t i = GROUP_TOPK; i < GROUPS; i++)
            for (int64_t e = 0; e < size; e++) v[list[i] * size + e] = -CUDART_INF_F;
    }

    /* Visits are numbered over all tokens: visit v goes to group v mod GROUPS, and takes up there
     * where the visit before has left off. */
    __device__ void go_round(int64_t token, int32_t *to) const
    {
        const int64_t size = round.E / round.n_groups;
        for (int64_t i = 0; i < round.visited; i++) {
            const int64_t visit = token * round.visited + i, group = visit % round.n_groups;
            const int64_t begin = visit / round.n_groups % size * round_each;
            const int64_t n = round.K / round.visited + (i < round.K % round.visited);
            for (int64_t j = 0; j < n; j++) *to++ = (int32_t)(group * size + (begin + j) % size);
        }
    }

    __device__ void weigh(const float *x, const int32_t *own, int lane, float *p) const
    {
        const bool scores = own_scores(flags);
        const bool keeps = !scores && flags & PRE_SOFTMAX && !(flags & RENORMALISE);
        softmax all = {0, 1};
        float sum = 0;
        if (keeps)
            all = softmax_of(E, lane, [&](int64_t i) { return x[i]; });
        else if (!scores)
            all = softmax_of(K, lane, [&](int64_t i) { return x[own[i]]; }); /* R2 */
        for (int64_t i = lane; scores && i < K; i += WARP) sum += score_of(flags, x[own[i]]);
        sum = scores && flags & RENORMALISE && K > 1 ? sum_warp(sum) + TINY : 1;
        for (int64_t i = lane; i < K; i += WARP) {
            const float l = x[own[i]];
            const float w = scores ? score_of(flags, l) / sum : expf(l - all.top) / all.sum;
            p[i] = w * scaling;
        }
    }

    __device__ void token(int64_t t, int lane, float *scratch) const
    {
        const float *x = logits + t * E;
        int32_t *list = (int32_t *)(scratch + E), *chosen = list + E;
        if (!(flags & FORCED)) values(x, lane, scratch);
        __syncwarp();
        if (lane == 0 && flags & FORCED) go_round(FIRST + t, chosen);
        if (lane == 0 && !(flags & FORCED)) {
            if (GROUP_TOPK > 0) limit_groups(scratch, list, (float *)(chosen + E));
            best_of(scratch, E, K, chosen);
        }
        __syncwarp();
        for (int64_t i = lane; i < K; i += WARP) ids[t * K + i] = chosen[i];
        weigh(x, chosen, lane, probs + t * K);
    }
};

static void router(const kernel_call *c)
{
    const op_router o = op_router_of(c);
    choosing r = {o, experts_scored(o)};
    if (r.flags & FORCED) {
        r.round = round_robin_of(r.E, r.K, r.GROUPS, r.GROUP_TOPK);
        r.round_each = round_most(&r.round);
    }
    for_tokens(c, r.T, r.E, r);
}

/* ---- gradient of the weights by the logits; the choice is a constant */

struct choosing_d : op_router_d {
    __device__ void own(const float *x, const float *g, const int32_t *at, int lane, float *d) const
    {
        const bool divides = flags & RENORMALISE && K > 1;
        float sum = 0, dot = 0;
        for (int64_t i = lane; i < K; i += WARP) {
            const float s = score_of(flags, x[at[i]]);
            sum += s;
            dot += g[i] * scaling * s;
        }
        sum = divides ? sum_warp(sum) + TINY : 1;
        dot = divides ? sum_warp(dot) / sum : 0;
        for (int64_t i = lane; i < K; i += WARP) {
            const float l = x[at[i]];
            d[at[i]] = (g[i] * scaling - dot) / sum * score_slope(flags, l, score_of(flags, l));
        }
    }

    __device__ void all(const float *x, const float *g, const int32_t *at, int lane, float *d) const
    {
        const softmax s = softmax_of(E, lane, [&](int64_t i) { return x[i]; });
        float dot = 0;
        for (int64_t i = lane; i < K; i += WARP)
            dot += g[i] * scaling * (expf(x[at[i]] - s.top) / s.sum);
        dot = sum_warp(dot);
        for (int64_t e = lane; e < E; e += WARP) d[e] = -dot * (expf(x[e] - s.top) / s.sum);
        __syncwarp();
        for (int64_t i = lane; i < K; i += WARP)
            d[at[i]] += g[i] * scaling * (expf(x[at[i]] - s.top) / s.sum);
    }

    __device__ void chosen(const float *x, const float *g, const int32_t *at, int lane,
                           float *d) const
    {
        const softmax s = softmax_of(K, lane, [&](int64_t i) { return x[at[i]]; });
        float dot = 0;
        for (int64_t i = lane; i < K; i += WARP)
            dot += g[i] * scaling * (expf(x[at[i]] - s.top) / s.sum);
        dot = sum_warp(dot);
        for (int64_t i = lane; i < K; i += WARP)
            d[at[i]] = expf(x[at[i]] - s.top) / s.sum * (g[i] * scaling - dot);
    }

    __device__ void token(int64_t t, int lane, float *) const
    {
        const float *x = logits + t * E, *g = dprobs + t * K;
        const int32_t *at = ids + t * K;
        float *d = dlogits + t * E;
        for (int64_t e = lane; e < E; e += WARP) d[e] = 0;
        __syncwarp();
        if (own_scores(flags))
            own(x, g, at, lane, d);
        else if (flags & PRE_SOFTMAX && !(flags & RENORMALISE))
            all(x, g, at, lane, d);
        else
            chosen(x, g, at, lane, d);
    }
};

static void router_d(const kernel_call *c)
{
    const op_router_d o = op_router_d_of(c);
    for_tokens(c, o.T, o.E, choosing_d{o});
}

extern "C" cuda_part cuda_router(void)
{
    static const kernel rows[] = {
        {.kind = OP_ROUTER, .name = "plain", .accepts = experts_fit, .launch = router},
        {.kind = OP_ROUTER_D, .name = "plain", .accepts = experts_fit, .launch = router_d},
    };
    return PART(rows);
}

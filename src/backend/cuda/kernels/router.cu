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

struct choosing {
    const float *logits; /* [T][E] */
    const float *bias;   /* [E], or missing */
    float *probs;        /* [T][K] */
    int32_t *ids;        /* [T][K] */
    int64_t n_experts, k, groups, group_topk, first, scored;
    unsigned flags;
    float scaling;
    round_robin round;
    int64_t round_each; /* experts of a group that one visit takes at most */

    /* What the choice goes by: scores, or logits where softmax comes after it. */
    __device__ void values(const float *x, int lane, float *v) const
    {
        softmax all = {0, 1};
        const bool own = own_scores(flags), before = !own && flags & PRE_SOFTMAX;
        if (before) all = softmax_of(n_experts, lane, [&](int64_t i) { return x[i]; });
        for (int64_t e = lane; e < n_experts; e += WARP) {
            const float s = own      ? score_of(flags, x[e])
                            : before ? expf(x[e] - all.top) / all.sum
                                     : x[e];
            v[e] = s + (bias ? bias[e] : 0);
        }
    }

    /* Only the best groups stay in the choice; `list` and `score` have room for E. */
    __device__ void limit_groups(float *v, int32_t *list, float *score) const
    {
        const int64_t size = n_experts / groups;
        for (int64_t g = 0; g < groups; g++) {
            float sum = 0;
            best_of(v + g * size, size, scored, list);
            for (int64_t i = 0; i < scored; i++) sum += v[g * size + list[i]];
            score[g] = sum;
        }
        best_of(score, groups, groups, list);
        for (int64_t i = group_topk; i < groups; i++)
            for (int64_t e = 0; e < size; e++) v[list[i] * size + e] = -CUDART_INF_F;
    }

    /* Visits are numbered over all tokens: visit v goes to group v mod groups, and takes up there
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
            all = softmax_of(n_experts, lane, [&](int64_t i) { return x[i]; });
        else if (!scores)
            all = softmax_of(k, lane, [&](int64_t i) { return x[own[i]]; }); /* R2 */
        for (int64_t i = lane; scores && i < k; i += WARP) sum += score_of(flags, x[own[i]]);
        sum = scores && flags & RENORMALISE && k > 1 ? sum_warp(sum) + TINY : 1;
        for (int64_t i = lane; i < k; i += WARP) {
            const float l = x[own[i]];
            const float w = scores ? score_of(flags, l) / sum : expf(l - all.top) / all.sum;
            p[i] = w * scaling;
        }
    }

    __device__ void token(int64_t t, int lane, float *scratch) const
    {
        const float *x = logits + t * n_experts;
        int32_t *list = (int32_t *)(scratch + n_experts), *chosen = list + n_experts;
        if (!(flags & FORCED)) values(x, lane, scratch);
        __syncwarp();
        if (lane == 0 && flags & FORCED) go_round(first + t, chosen);
        if (lane == 0 && !(flags & FORCED)) {
            if (group_topk > 0) limit_groups(scratch, list, (float *)(chosen + n_experts));
            best_of(scratch, n_experts, k, chosen);
        }
        __syncwarp();
        for (int64_t i = lane; i < k; i += WARP) ids[t * k + i] = chosen[i];
        weigh(x, chosen, lane, probs + t * k);
    }
};

static void router(const kernel_call *c)
{
    const op *o = c->o;
    const int64_t *d = o->dim;
    choosing r = {floats_in(c, IN_ROUTER_logits),
                  floats_in(c, IN_ROUTER_bias),
                  floats_out(c, OUT_ROUTER_probs),
                  ints_out(c, OUT_ROUTER_ids),
                  d[DIM_ROUTER_E],
                  d[DIM_ROUTER_K],
                  d[DIM_ROUTER_GROUPS],
                  d[DIM_ROUTER_GROUP_TOPK],
                  d[DIM_ROUTER_FIRST],
                  experts_scored(o),
                  o->flags,
                  (float)o->real[REAL_ROUTER_scaling],
                  {},
                  0};
    if (o->flags & FORCED) {
        r.round = round_robin_of(d[DIM_ROUTER_E], d[DIM_ROUTER_K], d[DIM_ROUTER_GROUPS],
                                 d[DIM_ROUTER_GROUP_TOPK]);
        r.round_each = round_most(&r.round);
    }
    for_tokens(c, d[DIM_ROUTER_T], d[DIM_ROUTER_E], r);
}

/* ---- gradient of the weights by the logits; the choice is a constant */

struct choosing_d {
    const float *dprobs; /* [T][K] */
    const float *logits; /* [T][E] */
    const int32_t *ids;  /* [T][K] */
    float *dlogits;      /* [T][E] */
    int64_t n_experts, k;
    unsigned flags;
    float scaling;

    __device__ void own(const float *x, const float *g, const int32_t *at, int lane, float *d) const
    {
        const bool divides = flags & RENORMALISE && k > 1;
        float sum = 0, dot = 0;
        for (int64_t i = lane; i < k; i += WARP) {
            const float s = score_of(flags, x[at[i]]);
            sum += s;
            dot += g[i] * scaling * s;
        }
        sum = divides ? sum_warp(sum) + TINY : 1;
        dot = divides ? sum_warp(dot) / sum : 0;
        for (int64_t i = lane; i < k; i += WARP) {
            const float l = x[at[i]];
            d[at[i]] = (g[i] * scaling - dot) / sum * score_slope(flags, l, score_of(flags, l));
        }
    }

    __device__ void all(const float *x, const float *g, const int32_t *at, int lane, float *d) const
    {
        const softmax s = softmax_of(n_experts, lane, [&](int64_t i) { return x[i]; });
        float dot = 0;
        for (int64_t i = lane; i < k; i += WARP)
            dot += g[i] * scaling * (expf(x[at[i]] - s.top) / s.sum);
        dot = sum_warp(dot);
        for (int64_t e = lane; e < n_experts; e += WARP) d[e] = -dot * (expf(x[e] - s.top) / s.sum);
        __syncwarp();
        for (int64_t i = lane; i < k; i += WARP)
            d[at[i]] += g[i] * scaling * (expf(x[at[i]] - s.top) / s.sum);
    }

    __device__ void chosen(const float *x, const float *g, const int32_t *at, int lane,
                           float *d) const
    {
        const softmax s = softmax_of(k, lane, [&](int64_t i) { return x[at[i]]; });
        float dot = 0;
        for (int64_t i = lane; i < k; i += WARP)
            dot += g[i] * scaling * (expf(x[at[i]] - s.top) / s.sum);
        dot = sum_warp(dot);
        for (int64_t i = lane; i < k; i += WARP)
            d[at[i]] = expf(x[at[i]] - s.top) / s.sum * (g[i] * scaling - dot);
    }

    __device__ void token(int64_t t, int lane, float *) const
    {
        const float *x = logits + t * n_experts, *g = dprobs + t * k;
        const int32_t *at = ids + t * k;
        float *d = dlogits + t * n_experts;
        for (int64_t e = lane; e < n_experts; e += WARP) d[e] = 0;
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
    const op *o = c->o;
    for_tokens(c, o->dim[DIM_ROUTER_D_T], o->dim[DIM_ROUTER_D_E],
               choosing_d{floats_in(c, IN_ROUTER_D_dprobs), floats_in(c, IN_ROUTER_D_logits),
                          ints_in(c, IN_ROUTER_D_ids), floats_out(c, OUT_ROUTER_D_dlogits),
                          o->dim[DIM_ROUTER_D_E], o->dim[DIM_ROUTER_D_K], o->flags,
                          (float)o->real[REAL_ROUTER_D_scaling]});
}

extern "C" cuda_part cuda_router(void)
{
    static const kernel rows[] = {
        {OP_ROUTER, "plain", experts_fit, NULL, NULL, NULL, router},
        {OP_ROUTER_D, "plain", experts_fit, NULL, NULL, NULL, router_d},
    };
    return PART(rows);
}

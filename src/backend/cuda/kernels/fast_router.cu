/* fast_router.cu - the choice of experts, a warp a token, all scores in registers.
 *
 * The best are found one after another (choice.cuh). What is no number has no place in their
 * order: such a token is chosen by one lane, as the plain row does. */
#include "backend/cuda/kernels/choice.cuh"

extern "C" {
#include "op/round_robin.h"
}

template <int EACH> struct chooser {
    const float *logits; /* [T][E] */
    const float *bias;   /* [E], or missing */
    float *probs;        /* [T][K] */
    int32_t *ids;        /* [T][K] */
    int n_experts, k, groups, group_topk, scored;
    unsigned flags;
    float scaling;
    int64_t first; /* of FORCED: the first token's number, and the way round */
    round_robin round;
    int64_t round_each;

    /* What the choice goes by. */
    __device__ void values(const float (&x)[EACH], int lane, float (&v)[EACH]) const
    {
        const bool own = own_scores(flags), before = !own && flags & PRE_SOFTMAX;
        softmax all = {0, 1};
        if (before) all = softmax_here(x, lane);
#pragma unroll
        for (int j = 0; j < EACH; j++) {
            const float s = own      ? score_of(flags, x[j])
                            : before ? expf(x[j] - all.top) / all.sum
                                     : x[j];
            v[j] = s + (bias && j * WARP + lane < n_experts ? bias[j * WARP + lane] : 0);
        }
    }

    __device__ softmax softmax_here(const float (&x)[EACH], int lane) const
    {
        float top = -CUDART_INF_F, sum = 0;
#pragma unroll
        for (int j = 0; j < EACH; j++)
            if (j * WARP + lane < n_experts) top = fmaxf(top, x[j]);
        top = warp_max(top);
#pragma unroll
        for (int j = 0; j < EACH; j++)
            if (j * WARP + lane < n_experts) sum += expf(x[j] - top);
        return {top, sum_warp(sum)};
    }

    /* Groups of 32 experts: a group's are one of each lane. Keys of groups that are not among the
     * best become those of minus infinity. */
    __device__ void limit_groups(const float (&v)[EACH], unsigned (&key)[EACH], int lane) const
    {
        float score = 0; /* of group `lane` */
#pragma unroll
        for (int g = 0; g < EACH; g++) {
            unsigned left = key[g];
            float sum = 0;
            for (int i = 0; i < scored; i++) {
                const unsigned most = __reduce_max_sync(ALL_LANES, left);
                const int owner = __ffs((int)__ballot_sync(ALL_LANES, left == most)) - 1;
                sum += __shfl_sync(ALL_LANES, v[g], owner);
                if (lane == owner) left = 0;
            }
            if (lane == g) score = sum;
        }
        unsigned group = lane < groups ? order_of(score) : 0, kept = 0;
        for (int i = 0; i < group_topk; i++) {
            const unsigned most = __reduce_max_sync(ALL_LANES, group);
            const int owner = __ffs((int)__ballot_sync(ALL_LANES, group == most)) - 1;
            kept |= 1u << owner;
            if (lane == owner) group = 0;
        }
#pragma unroll
        for (int g = 0; g < EACH; g++)
            if (key[g] && !(kept >> g & 1)) key[g] = order_of(-CUDART_INF_F);
    }

    /* As the plain row: `v` and the list in shared memory, one lane. */
    __device__ int choose_alone(const float (&v)[EACH], int lane, float *scratch) const
    {
        int32_t *list = (int32_t *)(scratch + n_experts), *chosen = list + n_experts;
#pragma unroll
        for (int j = 0; j < EACH; j++)
            if (j * WARP + lane < n_experts) scratch[j * WARP + lane] = v[j];
        __syncwarp();
        if (lane == 0) {
            float *score = (float *)(chosen + n_experts);
            const int size = groups > 0 ? n_experts / groups : n_experts;
            for (int g = 0; group_topk > 0 && g < groups; g++) {
                float sum = 0;
                best_of(scratch + g * size, size, scored, list);
                for (int i = 0; i < scored; i++) sum += scratch[g * size + list[i]];
                score[g] = sum;
            }
            if (group_topk > 0) best_of(score, groups, groups, list);
            for (int i = group_topk; group_topk > 0 && i < groups; i++)
                for (int e = 0; e < size; e++) scratch[list[i] * size + e] = -CUDART_INF_F;
            best_of(scratch, n_experts, k, chosen);
        }
        __syncwarp();
        return lane < k ? chosen[lane] : 0;
    }

    /* FORCED: this lane's expert of a token, as the plain row lists them. */
    __device__ int go_round(int64_t token, int lane) const
    {
        const int n = (int)(round.K / round.visited), more = (int)(round.K % round.visited);
        const int wide = more * (n + 1);
        const int i = lane < wide ? lane / (n + 1) : more + (lane - wide) / (n > 0 ? n : 1);
        const int j = lane < wide ? lane % (n + 1) : (lane - wide) % (n > 0 ? n : 1);
        const int64_t size = round.E / round.n_groups, visit = token * round.visited + i;
        const int64_t begin = visit / round.n_groups % size * round_each;
        return lane < k ? (int)(visit % round.n_groups * size + (begin + j) % size) : 0;
    }

    __device__ int choose(const float (&v)[EACH], int lane, float *scratch) const
    {
        unsigned key[EACH];
        bool odd = false;
        int own = 0;
#pragma unroll
        for (int j = 0; j < EACH; j++) {
            const bool there = j * WARP + lane < n_experts;
            key[j] = there ? order_of(v[j]) : 0;
            odd |= there && v[j] != v[j];
        }
        if (__any_sync(ALL_LANES, odd)) return choose_alone(v, lane, scratch);
        if (group_topk > 0) limit_groups(v, key, lane);
        for (int i = 0; i < k; i++) {
            const int best = take_best(key, lane);
            if (lane == i) own = best;
        }
        return own;
    }

    /* The weight of this lane's choice. */
    __device__ float weigh(const float (&x)[EACH], float l, int lane) const
    {
        const bool scores = own_scores(flags), mine = lane < k;
        if (scores) {
            const float s = mine ? score_of(flags, l) : 0;
            const float sum = flags & RENORMALISE && k > 1 ? sum_warp(s) + TINY : 1;
            return s / sum;
        }
        if (flags & PRE_SOFTMAX && !(flags & RENORMALISE)) {
            const softmax all = softmax_here(x, lane);
            return expf(l - all.top) / all.sum;
        }
        const float top = warp_max(mine ? l : -CUDART_INF_F);
        return expf(l - top) / sum_warp(mine ? expf(l - top) : 0);
    }

    __device__ void token(int64_t t, int lane, float *scratch) const
    {
        float x[EACH], v[EACH];
#pragma unroll
        for (int j = 0; j < EACH; j++)
            x[j] = j * WARP + lane < n_experts ? logits[t * n_experts + j * WARP + lane] : 0;
        const bool forced = flags & FORCED;
        if (!forced) values(x, lane, v);
        const int own = forced ? go_round(first + t, lane) : choose(v, lane, scratch);
        const float w = weigh(x, logits[t * n_experts + own], lane) * scaling;
        if (lane >= k) return;
        ids[t * k + lane] = own;
        probs[t * k + lane] = w;
    }
};

static bool takes(const op *o, const op_types *t)
{
    const op_router z = op_router_of(o);
    return cuda_types_fit(o, t) && z.T > 0 && z.E > 0 && z.E <= 512 && z.K > 0 && z.K <= z.E &&
           z.K <= CHOSEN_MOST &&
           (z.GROUP_TOPK <= 0 || z.flags & FORCED || (z.GROUPS > 0 && z.E == WARP * z.GROUPS));
}

template <int EACH> static void run(const kernel_call *c)
{
    const op_router o = op_router_of(c);
    chooser<EACH> r = {o.logits,
                       o.bias,
                       o.probs,
                       o.ids,
                       (int)o.E,
                       (int)o.K,
                       (int)o.GROUPS,
                       (int)o.GROUP_TOPK,
                       (int)experts_scored(o),
                       o.flags,
                       o.scaling,
                       o.FIRST,
                       {1, 1, 1, 1},
                       1};
    if (o.flags & FORCED) {
        r.round = round_robin_of(o.E, o.K, o.GROUPS, o.GROUP_TOPK);
        r.round_each = round_most(&r.round);
    }
    for_tokens(c, o.T, o.E, r);
}

static void launch(const kernel_call *c)
{
    const int64_t e = c->o->dim[DIM_ROUTER_E];
    if (e <= 2 * WARP)
        run<2>(c);
    else if (e <= 4 * WARP)
        run<4>(c);
    else if (e <= 8 * WARP)
        run<8>(c);
    else
        run<16>(c);
}

extern "C" cuda_part cuda_fast_router(void)
{
    static const kernel rows[] = {
        {.kind = OP_ROUTER, .name = "registers", .accepts = takes, .launch = launch},
    };
    return PART(rows);
}

/* fast_router_loss.cu - the load-balancing loss, a warp a token, scores in registers.
 *
 * A1  Counts are found as the router chooses (choice.cuh); a block adds up its own in shared memory
 *     where all tokens are one sample. They are whole numbers: their order does not matter.
 * A2  A block takes the same tokens whatever the GPU, adds its part of the loss in their order, and
 *     one block adds those of the blocks. Parts and differences of counts are double, as in the
 *     plain row. */
#include "backend/cuda/kernels/choice.cuh"
#include "backend/cuda/kernels/router_loss.cuh"

enum { FAST_EXPERTS = 512, FAST_BLOCKS = 1056 }; /* blocks: eight for each of 132 SMs */

/* Of one token: P[e] = value / sum; value(x) is exp(x - top) or the score. */
template <int EACH> struct token_scores {
    float x[EACH], p[EACH];
    float sum;
};

template <int EACH>
static __device__ __forceinline__ token_scores<EACH> scores_of(unsigned flags, const float *x,
                                                               int n, int lane)
{
    token_scores<EACH> s;
    const bool own = own_scores(flags);
    float top = x[0];
#pragma unroll
    for (int j = 0; j < EACH; j++) {
        const bool there = j * WARP + lane < n;
        s.x[j] = there ? x[j * WARP + lane] : 0;
        if (there && s.x[j] > top) top = s.x[j];
    }
    if (!own) top = warp_max(top);
    float sum = 0;
#pragma unroll
    for (int j = 0; j < EACH; j++) {
        s.p[j] = own ? score_of(flags, s.x[j]) : expf(s.x[j] - top);
        if (j * WARP + lane < n) sum += s.p[j];
    }
    s.sum = sum_warp(sum) + (own ? TINY : 0);
#pragma unroll
    for (int j = 0; j < EACH; j++) s.p[j] /= s.sum;
    return s;
}

/* ---- counts */

struct fast_counting {
    const float *logits; /* [T][E] */
    int32_t *counts;     /* [samples here][E] */
    samples s;
    int n_experts, k;
    unsigned flags;
    bool together; /* one sample */
};

/* As the plain row: one lane, in shared memory. */
template <int EACH>
static __device__ void count_alone(const fast_counting &a, const float (&p)[EACH], int lane,
                                   int32_t *own)
{
    __shared__ float scratch[WARPS][FAST_EXPERTS + CHOSEN_MOST];
    float *values = scratch[threadIdx.x / WARP];
    int32_t *ids = (int32_t *)(values + FAST_EXPERTS);
#pragma unroll
    for (int j = 0; j < EACH; j++)
        if (j * WARP + lane < a.n_experts) values[j * WARP + lane] = p[j];
    __syncwarp();
    if (lane == 0) best_of(values, a.n_experts, a.k, ids);
    __syncwarp();
    if (lane < a.k) atomicAdd(own + ids[lane], 1);
}

template <int EACH>
static __device__ __forceinline__ void count_token(const fast_counting &a, int64_t t, int lane,
                                                   int32_t *own)
{
    const token_scores<EACH> s =
        scores_of<EACH>(a.flags, a.logits + t * a.n_experts, a.n_experts, lane);
    unsigned key[EACH];
    bool odd = false;
#pragma unroll
    for (int j = 0; j < EACH; j++) {
        const bool there = j * WARP + lane < a.n_experts;
        key[j] = there ? order_of(s.p[j]) : 0;
        odd |= there && s.p[j] != s.p[j];
    }
    if (__any_sync(ALL_LANES, odd)) {
        count_alone(a, s.p, lane, own);
        return;
    }
    int mine = 0;
    for (int i = 0; i < a.k; i++) {
        const int best = take_best(key, lane);
        if (lane == i) mine = best;
    }
    if (lane < a.k) atomicAdd(own + mine, 1);
}

template <int EACH> static __global__ void __launch_bounds__(BLOCK) count_kernel(fast_counting a)
{
    __shared__ int32_t here[FAST_EXPERTS];
    const int lane = (int)threadIdx.x % WARP;
    for (int e = (int)threadIdx.x; e < a.n_experts; e += BLOCK) here[e] = 0;
    __syncthreads();
    for (int64_t t = blockIdx.x * (int64_t)WARPS + threadIdx.x / WARP; t < a.s.n_t;
         t += (int64_t)gridDim.x * WARPS)
        count_token<EACH>(a, t, lane,
                          a.together ? here : a.counts + (a.s.of(t) - a.s.of(0)) * a.n_experts);
    __syncthreads();
    for (int e = (int)threadIdx.x; e < a.n_experts; e += BLOCK)
        if (here[e]) atomicAdd(a.counts + e, here[e]);
}

static unsigned fast_blocks(int64_t n_t)
{
    const int64_t n = ceil_of(n_t, WARPS);
    return (unsigned)(n < FAST_BLOCKS ? n : FAST_BLOCKS);
}

/* Calls `run` with as many numbers a lane as n experts need. */
template <class F> static void by_experts(int64_t n, const F &run)
{
    if (n <= 2 * WARP)
        run(std::integral_constant<int, 2>());
    else if (n <= 4 * WARP)
        run(std::integral_constant<int, 4>());
    else if (n <= 8 * WARP)
        run(std::integral_constant<int, 8>());
    else
        run(std::integral_constant<int, 16>());
}

static void count(const kernel_call *c, const float *logits, int32_t *counts, int64_t n_experts,
                  int64_t k)
{
    const samples s = samples_of(c->o);
    const fast_counting a = {logits, counts, s, (int)n_experts, (int)k, c->o->flags, s.n() == 1};
    cudaMemsetAsync(counts, 0, (size_t)(s.n() * n_experts) * sizeof *counts, stream_of(c));
    by_experts(n_experts, [&](auto each) {
        count_kernel<each.value><<<fast_blocks(s.n_t), BLOCK, 0, stream_of(c)>>>(a);
    });
}

/* ---- the loss and its gradient */

struct fast_pushing {
    const float *logits;  /* [T][E] */
    const float *counts;  /* [samples][E] from the first token's on; or NULL, */
    const int32_t *found; /* and these */
    float *dlogits;       /* [T][E], += */
    double *parts;        /* [blocks] */
    samples s;
    int n_experts;
    unsigned flags;
    double gradient; /* times the scale */
};

template <int EACH>
static __device__ __forceinline__ double push_token(const fast_pushing &a, int64_t t, int lane)
{
    const int64_t at = t * a.n_experts, row = (a.s.of(t) - a.s.of(0)) * a.n_experts;
    const token_scores<EACH> s = scores_of<EACH>(a.flags, a.logits + at, a.n_experts, lane);
    double dot = 0, own[EACH];
    float before[EACH];
#pragma unroll
    for (int j = 0; j < EACH; j++) {
        const int e = j * WARP + lane;
        const bool there = e < a.n_experts;
        own[j] = !there ? 0 : a.counts ? (double)a.counts[row + e] : (double)a.found[row + e];
        before[j] = there ? a.dlogits[at + e] : 0;
        if (there) dot += (double)s.p[j] * own[j];
    }
    dot = sum_warp(dot);
#pragma unroll
    for (int j = 0; j < EACH; j++) {
        const float g = (float)(a.gradient * (own[j] - dot)), v = s.p[j];
        const float slope =
            own_scores(a.flags) ? score_slope(a.flags, s.x[j], v * s.sum) / s.sum : v;
        if (j * WARP + lane < a.n_experts) a.dlogits[at + j * WARP + lane] = before[j] + g * slope;
    }
    return dot;
}

template <int EACH> static __global__ void __launch_bounds__(BLOCK) push_kernel(fast_pushing a)
{
    const int lane = (int)threadIdx.x % WARP;
    double sum = 0;
    for (int64_t t = blockIdx.x * (int64_t)WARPS + threadIdx.x / WARP; t < a.s.n_t;
         t += (int64_t)gridDim.x * WARPS)
        sum += push_token<EACH>(a, t, lane);
    sum = sum_over<BLOCK>(lane == 0 ? sum : 0);
    if (threadIdx.x == 0) a.parts[blockIdx.x] = sum;
}

static __global__ void __launch_bounds__(BLOCK)
    add_blocks_kernel(const double *parts, int n, double scale, float *loss)
{
    double sum = 0;
    for (int i = (int)threadIdx.x; i < n; i += BLOCK) sum += parts[i];
    sum = sum_over<BLOCK>(sum);
    if (threadIdx.x == 0) loss[0] += (float)(scale * sum);
}

/* Workspace: parts of blocks, counts. */
static int64_t parts_bytes(const op *o)
{
    return room_of(fast_blocks(o->dim[DIM_AUX_LOSS_T]) * (int64_t)sizeof(double));
}

static void aux_loss(const kernel_call *c)
{
    const op_aux_loss o = op_aux_loss_of(c);
    const samples s = samples_of(c->o);
    double *parts = (double *)c->workspace;
    int32_t *found = (int32_t *)((char *)c->workspace + parts_bytes(c->o));
    const double scale = aux_scale(c->o, o);
    if (!o.counts) count(c, o.logits, found, o.E, o.K);
    const fast_pushing a = {
        o.logits, o.counts ? o.counts + s.of(0) * o.E : NULL, found, o.dlogits, parts, s, (int)o.E,
        o.flags,  scale * c->o->real[REAL_AUX_LOSS_gradient]};
    const unsigned blocks = fast_blocks(s.n_t);
    by_experts(o.E,
               [&](auto each) { push_kernel<each.value><<<blocks, BLOCK, 0, stream_of(c)>>>(a); });
    if (!(o.flags & REPLAY))
        add_blocks_kernel<<<1, BLOCK, 0, stream_of(c)>>>(parts, (int)blocks, scale, o.loss);
}

static int64_t aux_loss_bytes(const op *o, const op_types *)
{
    return parts_bytes(o) + room_of(samples_of(o).n() * o->dim[DIM_AUX_LOSS_E] * 4);
}

static void aux_count(const kernel_call *c)
{
    add_counts(c, count);
}

/* ---- rows */

static bool sizes_fit(int64_t n_t, int64_t n_experts, int64_t k)
{
    return n_t > 0 && n_experts > 0 && n_experts <= FAST_EXPERTS && k > 0 && k <= n_experts &&
           k <= CHOSEN_MOST;
}

static bool takes(const op *o, const op_types *t)
{
    const int64_t *d = o->dim;
    return cuda_types_fit(o, t) &&
           sizes_fit(d[DIM_AUX_LOSS_T], d[DIM_AUX_LOSS_E], d[DIM_AUX_LOSS_K]);
}

static bool takes_count(const op *o, const op_types *t)
{
    const int64_t *d = o->dim;
    return cuda_types_fit(o, t) &&
           sizes_fit(d[DIM_AUX_COUNT_T], d[DIM_AUX_COUNT_E], d[DIM_AUX_COUNT_K]);
}

extern "C" cuda_part cuda_fast_router_loss(void)
{
    static const kernel rows[] = {
        {.kind = OP_AUX_COUNT,
         .name = "registers",
         .accepts = takes_count,
         .workspace = aux_count_bytes,
         .launch = aux_count},
        {.kind = OP_AUX_LOSS,
         .name = "registers",
         .accepts = takes,
         .workspace = aux_loss_bytes,
         .launch = aux_loss},
    };
    return PART(rows);
}

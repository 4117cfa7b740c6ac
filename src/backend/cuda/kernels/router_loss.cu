/* router_loss.cu - load-balancing losses and the z loss.
 *
 *     loss = scale * sum over tokens and experts of P[t][e] * counts[e]
 *
 * P are scores over all experts that sum to 1; counts, constants for the gradient, say how often an
 * expert is among the K best of them. A warp takes a token; its part of the loss goes to the
 * workspace in double, and one block adds the parts in order. Counts are added up as integers,
 * whose order does not matter. */
#include "backend/cuda/kernels/router_loss.cuh"

/* P of one token is value(e) / sum. */
struct spread {
    softmax all;
    float sum; /* own scores: what they are divided by */
    unsigned flags;
    __device__ float at(float logit) const
    {
        return own_scores(flags) ? score_of(flags, logit) / sum : expf(logit - all.top) / all.sum;
    }
};

static __device__ spread spread_of(unsigned flags, const float *x, int64_t n, int lane)
{
    spread s = {{0, 1}, 1, flags};
    if (!own_scores(flags)) {
        s.all = softmax_of(n, lane, [&](int64_t i) { return x[i]; });
        return s;
    }
    float sum = 0;
    for (int64_t e = lane; e < n; e += WARP) sum += score_of(flags, x[e]);
    s.sum = sum_warp(sum) + TINY;
    return s;
}

/* ---- counts */

struct counting {
    const float *logits; /* [T][E] */
    int32_t *counts;     /* [samples here][E] */
    samples s;
    int64_t n_experts, k;
    unsigned flags;
    __device__ void token(int64_t t, int lane, float *scratch) const
    {
        const float *x = logits + t * n_experts;
        const spread p = spread_of(flags, x, n_experts, lane);
        int32_t *ids = (int32_t *)(scratch + n_experts);
        for (int64_t e = lane; e < n_experts; e += WARP) scratch[e] = p.at(x[e]);
        __syncwarp();
        if (lane == 0) best_of(scratch, n_experts, k, ids);
        __syncwarp();
        int32_t *own = counts + (s.of(t) - s.of(0)) * n_experts;
        for (int64_t i = lane; i < k; i += WARP) atomicAdd(own + ids[i], 1);
    }
};

static void count(const kernel_call *c, const float *logits, int32_t *counts, int64_t n_experts,
                  int64_t k)
{
    const samples s = samples_of(c->o);
    for_each(c, s.n() * n_experts, [=] __device__(int64_t i) { counts[i] = 0; });
    for_tokens(c, s.n_t, n_experts, counting{logits, counts, s, n_experts, k, c->o->flags});
}

static void aux_count(const kernel_call *c)
{
    add_counts(c, count);
}

/* ---- the loss and its gradient */

struct pushing {
    const float *logits; /* [T][E] */
    const float *counts; /* [samples][E]; the first is that of token 0 */
    float *dlogits;      /* [T][E], += */
    double *parts;       /* [T] */
    const double *scale;
    samples s;
    int64_t n_experts;
    unsigned flags;
    double gradient;
    __device__ void token(int64_t t, int lane, float *) const
    {
        const float *x = logits + t * n_experts;
        const float *own = counts + (s.of(t) - s.of(0)) * n_experts;
        const spread p = spread_of(flags, x, n_experts, lane);
        double dot = 0;
        for (int64_t e = lane; e < n_experts; e += WARP) dot += (double)p.at(x[e]) * (double)own[e];
        dot = sum_warp(dot);
        if (lane == 0) parts[t] = dot;
        for (int64_t e = lane; e < n_experts; e += WARP) {
            const float g = (float)(*scale * gradient * ((double)own[e] - dot)), v = p.at(x[e]);
            const float slope = own_scores(flags) ? score_slope(flags, x[e], v * p.sum) / p.sum : v;
            dlogits[t * n_experts + e] += g * slope;
        }
    }
};

static __global__ void put_scale_kernel(double *scale, double value)
{
    *scale = value;
}

/* Of a global loss: STEPS 0 means that the counts know how many microbatches there were. */
static __global__ void global_scale_kernel(double *scale, const float *counts, int64_t n,
                                           double coefficient, double k, double steps,
                                           double tokens)
{
    double sum = 0;
    for (int64_t e = 0; e < n; e++) sum += (double)counts[e];
    if (steps == 0) steps = sum / (k * tokens);
    *scale = sum > 0 ? coefficient * (double)n / (k * tokens * tokens * steps) : 0;
}

static __global__ void add_parts_kernel(const double *parts, int64_t n, const double *scale,
                                        float *loss)
{
    double sum = 0;
    for (int64_t i = threadIdx.x; i < n; i += BLOCK) sum += parts[i];
    sum = sum_over<BLOCK>(sum);
    if (threadIdx.x == 0) loss[0] += (float)(*scale * sum);
}

/* Workspace: the scale, parts of tokens, counts. */
struct loss_memory {
    double *scale, *parts; /* [1], [T] */
    float *counts;         /* [samples][E] */
};

static loss_memory memory_of(const kernel_call *c)
{
    char *p = (char *)c->workspace;
    const int64_t parts = room_of(c->o->dim[DIM_AUX_LOSS_T] * (int64_t)sizeof(double));
    return {(double *)p, (double *)(p + 256), (float *)(p + 256 + parts)};
}

template <class O>
static void push(const kernel_call *c, const O &o, const loss_memory &m, const float *counts)
{
    const samples s = samples_of(c->o);
    for_tokens(c, s.n_t, o.E,
               pushing{o.logits, counts, o.dlogits, m.parts, m.scale, s, o.E, o.flags,
                       c->o->real[REAL_AUX_LOSS_gradient]});
    if (s.n_t > 0 && !(o.flags & REPLAY))
        add_parts_kernel<<<1, BLOCK, 0, stream_of(c)>>>(m.parts, s.n_t, m.scale, o.loss);
}

static int64_t aux_loss_bytes(const op *o, const op_types *)
{
    return 256 + room_of(o->dim[DIM_AUX_LOSS_T] * (int64_t)sizeof(double)) +
           room_of(samples_of(o).n() * o->dim[DIM_AUX_LOSS_E] * (int64_t)sizeof(float));
}

static void aux_loss(const kernel_call *c)
{
    const op_aux_loss o = op_aux_loss_of(c);
    const samples s = samples_of(c->o);
    const loss_memory m = memory_of(c);
    const float *counts = o.counts ? o.counts + s.of(0) * o.E : m.counts;
    if (s.n_t <= 0) return;
    put_scale_kernel<<<1, 1, 0, stream_of(c)>>>(m.scale, aux_scale(c->o, o));
    if (!o.counts) {
        int32_t *found = (int32_t *)m.counts;
        count(c, o.logits, found, o.E, o.K);
        for_each(c, s.n() * o.E, [=] __device__(int64_t i) { m.counts[i] = (float)found[i]; });
    }
    push(c, o, m, counts);
}

static int64_t token_bytes(const op *o, const op_types *)
{
    return 256 + room_of(o->dim[DIM_Z_LOSS_T] * (int64_t)sizeof(double));
}

static void aux_global(const kernel_call *c)
{
    const op_aux_global o = op_aux_global_of(c);
    const loss_memory m = memory_of(c);
    global_scale_kernel<<<1, 1, 0, stream_of(c)>>>(m.scale, o.counts, o.E,
                                                   c->o->real[REAL_AUX_GLOBAL_coefficient],
                                                   (double)o.K, (double)o.STEPS, (double)o.TOKENS);
    push(c, o, m, o.counts);
}

/* ---- z loss: the mean of logsumexp^2 */

struct z_pushing {
    const float *logits; /* [T][E] */
    float *dlogits;      /* [T][E], += */
    double *parts;       /* [T] */
    int64_t n_experts;
    double scale;
    __device__ void token(int64_t t, int lane, float *) const
    {
        const float *x = logits + t * n_experts;
        const softmax s = softmax_of(n_experts, lane, [&](int64_t i) { return x[i]; });
        const double lse = (double)(s.top + logf(s.sum));
        const float g = (float)(scale * lse) / s.sum;
        if (lane == 0) parts[t] = lse * lse;
        for (int64_t e = lane; e < n_experts; e += WARP)
            dlogits[t * n_experts + e] += g * expf(x[e] - s.top);
    }
};

static void z_loss(const kernel_call *c)
{
    const op_z_loss o = op_z_loss_of(c);
    const loss_memory m = memory_of(c);
    const double *real = c->o->real, coefficient = real[REAL_Z_LOSS_coefficient];
    if (o.T <= 0) return;
    put_scale_kernel<<<1, 1, 0, stream_of(c)>>>(m.scale, coefficient / (double)o.T);
    for_tokens(c, o.T, o.E,
               z_pushing{o.logits, o.dlogits, m.parts, o.E,
                         2 * coefficient * real[REAL_Z_LOSS_gradient] / (double)o.T});
    if (!(o.flags & REPLAY))
        add_parts_kernel<<<1, BLOCK, 0, stream_of(c)>>>(m.parts, o.T, m.scale, o.loss);
}

static bool second_fits(const op *o, const op_types *t)
{
    return cuda_types_fit(o, t) && o->dim[DIM_Z_LOSS_E] <= EXPERTS_MOST;
}

static bool third_fits(const op *o, const op_types *t)
{
    return cuda_types_fit(o, t) && o->dim[DIM_AUX_LOSS_E] <= EXPERTS_MOST;
}

extern "C" cuda_part cuda_router_loss(void)
{
    static const kernel rows[] = {
        {.kind = OP_AUX_COUNT,
         .name = "plain",
         .accepts = second_fits,
         .workspace = aux_count_bytes,
         .launch = aux_count},
        {.kind = OP_AUX_LOSS,
         .name = "plain",
         .accepts = third_fits,
         .workspace = aux_loss_bytes,
         .launch = aux_loss},
        {.kind = OP_AUX_GLOBAL,
         .name = "plain",
         .accepts = second_fits,
         .workspace = token_bytes,
         .launch = aux_global},
        {.kind = OP_Z_LOSS,
         .name = "plain",
         .accepts = second_fits,
         .workspace = token_bytes,
         .launch = z_loss},
    };
    return PART(rows);
}

/* attention.cu - attention forward, whole or a block of it.
 *
 * As the keys go by, a query keeps the largest score so far, the sum of its weights relative to
 * that and the sum of weighted values, which are scaled down whenever the largest grows. A sink
 * is a score without value, and what earlier blocks gave is one more key with score lse and
 * value o; both are what the sums start with. */
#include "backend/cuda/kernels/attention.cuh"

struct forward_memory {
    float *q, *k, *v, *o, *w; /* [SPAN] rows of D, D, DV, DV, SPAN */
    float *top, *sum, *fade;  /* [SPAN] */
};

static int64_t forward_floats(const attention &a)
{
    return SPAN * (2 * stride_of(a.d) + 2 * stride_of(a.dv) + stride_of(SPAN) + 3);
}

static __device__ forward_memory forward_memory_at(float *p, const attention &a)
{
    forward_memory s;
    const int64_t d = SPAN * stride_of(a.d), dv = SPAN * stride_of(a.dv);
    s.q = p;
    s.k = s.q + d;
    s.v = s.k + d;
    s.o = s.v + dv;
    s.w = s.o + dv;
    s.top = s.w + SPAN * stride_of(SPAN);
    s.sum = s.top + SPAN;
    s.fade = s.sum + SPAN;
    return s;
}

/* What the sums start with. */
static __device__ void start(const attention &a, const forward_memory &s, const span &at,
                             int64_t first, int64_t h)
{
    const bool merges = a.add;
    if (merges)
        load_rows(s.o, a.o, first * a.dv, a.n * a.dv, at.n, a.dv);
    else
        for (int64_t i = threadIdx.x; i < SPAN * stride_of(a.dv); i += BLOCK) s.o[i] = 0;
    if (threadIdx.x >= SPAN) return;
    float top = -CUDART_INF_F;
    if (a.sinks.p) top = get(a.sinks, h);
    if (merges && threadIdx.x < at.n) top = a.lse[first + threadIdx.x * a.n];
    s.top[threadIdx.x] = top;
    s.sum[threadIdx.x] = top == -CUDART_INF_F ? 0 : 1;
}

/* Scores of the span's queries with the loaded keys; what is not seen is minus infinity. */
static __device__ void scores(const attention &a, const forward_memory &s, const span &at,
                              int64_t key_position, int64_t n_keys)
{
    const place p = place_of_thread();
    float x[2][2];
    dots(s.q, s.k, a.d, p, x);
#pragma unroll
    for (int r = 0; r < 2; r++)
#pragma unroll
        for (int q = 0; q < 2; q++) {
            const int i = p.y + 16 * r, j = p.x + 16 * q;
            const bool seen = i < at.n && j < n_keys && sees(a, at.position + i, key_position + j);
            s.w[i * stride_of(SPAN) + j] = seen ? a.scale * x[r][q] : -CUDART_INF_F;
        }
}

/* Scores become weights; eight threads a query. */
static __device__ void weigh(const forward_memory &s)
{
    const int i = (int)threadIdx.x / 8, part = (int)threadIdx.x % 8;
    float *w = s.w + i * stride_of(SPAN);
    const float old = s.top[i];
    float top = old, sum = 0;
    for (int j = part; j < SPAN; j += 8) top = fmaxf(top, w[j]);
    for (int step = 4; step > 0; step /= 2) top = fmaxf(top, __shfl_xor_sync(ALL_LANES, top, step));
    for (int j = part; j < SPAN; j += 8) {
        const float e = top == -CUDART_INF_F ? 0 : expf(w[j] - top);
        w[j] = e;
        sum += e;
    }
    for (int step = 4; step > 0; step /= 2) sum += __shfl_xor_sync(ALL_LANES, sum, step);
    __syncwarp(); /* all eight have read the old ones */
    if (part) return;
    const float fade = old == top ? 1 : expf(old - top);
    s.fade[i] = fade;
    s.sum[i] = s.sum[i] * fade + sum;
    s.top[i] = top;
}

static __device__ void finish(const attention &a, const forward_memory &s, const span &at,
                              int64_t first)
{
    for (int64_t e = threadIdx.x; e < at.n * a.dv; e += BLOCK) {
        const int64_t i = e / a.dv, j = e % a.dv;
        const float sum = s.sum[i], o = s.o[i * stride_of(a.dv) + j];
        put(a.o, (first + i * a.n) * a.dv + j, sum > 0 ? o / sum : 0);
    }
    if (threadIdx.x >= at.n) return;
    const float sum = s.sum[threadIdx.x];
    a.lse[first + threadIdx.x * a.n] = sum > 0 ? s.top[threadIdx.x] + logf(sum) : -CUDART_INF_F;
}

static __global__ void forward_kernel(attention a)
{
    extern __shared__ float memory[];
    const forward_memory s = forward_memory_at(memory, a);
    const int64_t h = blockIdx.y, b = blockIdx.z, group = h / (a.n / a.g);
    /* the last queries see most: they begin */
    const span at = span_at(a.queries, a.n_stretches, gridDim.x - 1 - blockIdx.x);
    const int64_t first = (b * a.sq + at.row) * a.n + h; /* row of the first query */
    load_rows(s.q, a.q, first * a.d, a.n * a.d, at.n, a.d);
    start(a, s, at, first, h);
    for (int p = 0; p < a.n_stretches; p++) {
        const int64_t low = a.window > 0 ? at.position - a.window + 1 : 0;
        const seen keys = rows_between(a.keys[p], low, at.position + at.n);
        for (int64_t j = keys.row; j < keys.past; j += SPAN) {
            const int64_t n = keys.past - j < SPAN ? keys.past - j : SPAN;
            const int64_t row = (b * a.sk + j) * a.g + group;
            __syncthreads();
            load_rows(s.k, a.k, row * a.d, a.g * a.d, n, a.d);
            load_rows(s.v, a.v, row * a.dv, a.g * a.dv, n, a.dv);
            __syncthreads();
            scores(a, s, at, keys.position + j - keys.row, n);
            __syncthreads();
            weigh(s);
            __syncthreads();
            gather(s.o, s.w, false, s.v, a.dv, s.fade, 1);
        }
    }
    __syncthreads();
    finish(a, s, at, first);
}

static void forward(const kernel_call *c)
{
    attention a = attention_of(c->o);
    const op_attn o = op_attn_of(c); /* an ATTN_BLOCK's operands stand alike */
    a.q = o.q, a.k = o.k, a.v = o.v, a.o = o.o, a.lse = o.lse;
    if (!attention_is_block(c->o)) a.sinks = o.sinks;
    const int64_t spans = spans_of(a.queries, a.n_stretches), bytes = 4 * forward_floats(a);
    if (spans == 0 || a.n == 0 || a.b == 0) return;
    cudaFuncSetAttribute(forward_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED_MOST);
    const dim3 grid((unsigned)spans, (unsigned)a.n, (unsigned)a.b);
    forward_kernel<<<grid, BLOCK, (size_t)bytes, stream_of(c)>>>(a);
}

static bool forward_fits(const op *o, const op_types *t)
{
    return cuda_types_fit(o, t) && 4 * forward_floats(attention_of(o)) <= SHARED_MOST;
}

extern "C" cuda_part cuda_attention(void)
{
    static const kernel plain = {.name = "plain", .accepts = forward_fits, .launch = forward};
    static const kernel rows[] = {row_of(OP_ATTN, plain), row_of(OP_ATTN_BLOCK, plain)};
    return PART(rows);
}

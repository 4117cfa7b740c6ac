/* attention_back.cu - the gradient of attention, in two passes over the scores.
 *
 * By spans of queries for dq, by spans of keys for dk and dv: each sum then has one owner and one
 * order, which costs the scores a second time. A weight is exp(score - lse); the gradient by its
 * score is weight * (do . v - delta) with delta = do . o of the query, which is made first. A sink
 * has no value: its gradient is the sum over tokens of -weight * delta. */
#include "backend/cuda/kernels/attention.cuh"
#include "backend/cuda/kernels/columns.cuh"

struct back {
    attention a;
    const float *delta; /* [B*SQ][N] */
    numbers dq, dk, dv; /* as q, k, v */
};

struct back_memory {
    float *q, *d_o, *k, *v; /* [SPAN] rows of D, DV, D, DV */
    float *weight, *slope;  /* [SPAN][SPAN], query by key */
    float *to, *to_v;       /* sums: rows of D; of DV, for keys alone */
    float *lse, *delta;     /* [SPAN] of queries */
};

static __host__ __device__ int64_t back_floats(const attention &a, bool keys)
{
    const int64_t d = stride_of(a.d), dv = stride_of(a.dv);
    return SPAN * (3 * d + (keys ? 3 : 2) * dv + 2 * stride_of(SPAN) + 2);
}

static __device__ back_memory back_memory_at(float *p, const attention &a)
{
    back_memory s;
    const int64_t d = SPAN * stride_of(a.d), dv = SPAN * stride_of(a.dv);
    s.q = p;
    s.k = s.q + d;
    s.to = s.k + d;
    s.d_o = s.to + d;
    s.v = s.d_o + dv;
    s.weight = s.v + dv;
    s.slope = s.weight + SPAN * stride_of(SPAN);
    s.lse = s.slope + SPAN * stride_of(SPAN);
    s.delta = s.lse + SPAN;
    s.to_v = s.delta + SPAN;
    return s;
}

/* Queries row .. of head h with what belongs to them. */
static __device__ void load_queries(const back &t, const back_memory &s, int64_t first, int64_t n)
{
    const attention &a = t.a;
    load_rows(s.q, a.q, first * a.d, a.n * a.d, n, a.d);
    load_rows(s.d_o, a.d_o, first * a.dv, a.n * a.dv, n, a.dv);
    if (threadIdx.x >= SPAN) return;
    const bool there = threadIdx.x < n;
    s.lse[threadIdx.x] = there ? a.lse[first + threadIdx.x * a.n] : 0;
    s.delta[threadIdx.x] = there ? t.delta[first + threadIdx.x * a.n] : 0;
}

static __device__ void load_keys(const attention &a, const back_memory &s, int64_t first, int64_t n)
{
    load_rows(s.k, a.k, first * a.d, a.g * a.d, n, a.d);
    load_rows(s.v, a.v, first * a.dv, a.g * a.dv, n, a.dv);
}

/* Weights and gradients by scores of the loaded queries and keys. */
static __device__ void slopes(const attention &a, const back_memory &s, const span &queries,
                              const span &keys)
{
    const place p = place_of_thread();
    float x[2][2], by[2][2];
    dots(s.q, s.k, a.d, p, x);
    dots(s.d_o, s.v, a.dv, p, by);
#pragma unroll
    for (int r = 0; r < 2; r++)
#pragma unroll
        for (int q = 0; q < 2; q++) {
            const int i = p.y + 16 * r, j = p.x + 16 * q;
            const bool seen =
                i < queries.n && j < keys.n && sees(a, queries.position + i, keys.position + j);
            const float w = seen ? expf(a.scale * x[r][q] - s.lse[i]) : 0;
            s.weight[i * stride_of(SPAN) + j] = w;
            s.slope[i * stride_of(SPAN) + j] = w * (by[r][q] - s.delta[i]);
        }
}

static __device__ void clear_rows(float *x, int64_t width)
{
    for (int64_t i = threadIdx.x; i < SPAN * stride_of(width); i += BLOCK) x[i] = 0;
}

/* Rows first, first + step, ... of `width` from shared memory. */
static __device__ void store_rows(numbers to, int64_t first, int64_t step, int64_t n, int64_t width,
                                  const float *x, bool add)
{
    for (int64_t e = threadIdx.x; e < n * width; e += BLOCK) {
        const int64_t i = e / width, j = e % width;
        put_or_add(to, (first + i * step) * width + j, x[i * stride_of(width) + j], add);
    }
}

static __global__ void queries_kernel(back t)
{
    extern __shared__ float memory[];
    const attention &a = t.a;
    const back_memory s = back_memory_at(memory, a);
    const int64_t h = blockIdx.y, b = blockIdx.z, group = h / (a.n / a.g);
    const span at = span_at(a.queries, a.n_stretches, gridDim.x - 1 - blockIdx.x);
    const int64_t first = (b * a.sq + at.row) * a.n + h;
    load_queries(t, s, first, at.n);
    clear_rows(s.to, a.d);
    for (int p = 0; p < a.n_stretches; p++) {
        const int64_t low = a.window > 0 ? at.position - a.window + 1 : 0;
        const seen keys = rows_between(a.keys[p], low, at.position + at.n);
        for (int64_t j = keys.row; j < keys.past; j += SPAN) {
            const span there = {j, keys.past - j < SPAN ? keys.past - j : SPAN,
                                keys.position + j - keys.row};
            __syncthreads();
            load_keys(a, s, (b * a.sk + j) * a.g + group, there.n);
            __syncthreads();
            slopes(a, s, at, there);
            __syncthreads();
            gather(s.to, s.slope, false, s.k, a.d, NULL, a.scale);
        }
    }
    __syncthreads();
    store_rows(t.dq, first, a.n, at.n, a.d, s.to, a.add);
}

static __global__ void keys_kernel(back t)
{
    extern __shared__ float memory[];
    const attention &a = t.a;
    const back_memory s = back_memory_at(memory, a);
    const int64_t group = blockIdx.y, b = blockIdx.z, heads = a.n / a.g;
    const span at = span_at(a.keys, a.n_stretches, blockIdx.x);
    const int64_t first = (b * a.sk + at.row) * a.g + group;
    load_keys(a, s, first, at.n);
    clear_rows(s.to, a.d);
    clear_rows(s.to_v, a.dv);
    for (int64_t h = group * heads; h < (group + 1) * heads; h++)
        for (int p = 0; p < a.n_stretches; p++) {
            const int64_t past = a.window > 0 ? at.position + at.n - 1 + a.window : INT64_MAX;
            const seen queries = rows_between(a.queries[p], at.position, past);
            for (int64_t i = queries.row; i < queries.past; i += SPAN) {
                const span there = {i, queries.past - i < SPAN ? queries.past - i : SPAN,
                                    queries.position + i - queries.row};
                __syncthreads();
                load_queries(t, s, (b * a.sq + i) * a.n + h, there.n);
                __syncthreads();
                slopes(a, s, there, at);
                __syncthreads();
                gather(s.to, s.slope, true, s.q, a.d, NULL, a.scale);
                gather(s.to_v, s.weight, true, s.d_o, a.dv, NULL, 1);
            }
        }
    __syncthreads();
    store_rows(t.dk, first, a.g, at.n, a.d, s.to, a.add_kv);
    store_rows(t.dv, first, a.g, at.n, a.dv, s.to_v, a.add_kv);
}

/* ---- delta and sinks */

struct delta_rows {
    numbers d_o, o; /* [rows][DV] */
    float *delta;   /* [rows] */
    int64_t dv;
    template <int THREADS, int W> __device__ void row(int64_t i, int thread) const
    {
        float sum = 0;
        for (int64_t j = thread; j < dv; j += THREADS)
            sum += get(d_o, i * dv + j) * get(o, i * dv + j);
        sum = sum_over<THREADS>(sum);
        if (thread == 0) delta[i] = sum;
    }
};

static int64_t delta_bytes(const attention &a)
{
    return room_of(a.b * a.sq * a.n * (int64_t)sizeof(float));
}

static int64_t backward_bytes(const op *o, const op_types *)
{
    const attention a = attention_of(o);
    const bool sinks = o->kind == OP_ATTN_D && o->in[6] >= 0;
    return delta_bytes(a) + (sinks ? columns_workspace(a.b * a.sq, a.n) : 0);
}

static void add_sinks(const kernel_call *c, const attention &a, numbers sinks, const float *delta,
                      float *dsinks)
{
    const float *lse = a.lse;
    const int64_t n = a.n;
    if (!sinks.p || !dsinks) return;
    add_columns(c, a.b * a.sq, n, (char *)c->workspace + delta_bytes(a), dsinks,
                [=] __device__(int64_t t, int64_t h) {
                    return -expf(get(sinks, h) - lse[t * n + h]) * delta[t * n + h];
                });
}

static void backward(const kernel_call *c)
{
    attention a = attention_of(c->o);
    float *delta = (float *)c->workspace;
    const op_attn_d o = op_attn_d_of(c); /* an ATTN_BLOCK_D's operands stand alike */
    a.q = o.q, a.k = o.k, a.v = o.v, a.o = o.o, a.d_o = o.do_, a.lse = (float *)o.lse;
    const back t = {a, delta, o.dq, o.dk, o.dv};
    const int64_t queries = spans_of(a.queries, a.n_stretches);
    const int64_t keys = spans_of(a.keys, a.n_stretches);
    for_narrow_rows(c, a.b * a.sq * a.n, a.dv, delta_rows{a.d_o, a.o, delta, a.dv});
    const dim3 by_query((unsigned)queries, (unsigned)a.n, (unsigned)a.b);
    const dim3 by_key((unsigned)keys, (unsigned)a.g, (unsigned)a.b);
    cudaFuncSetAttribute(queries_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED_MOST);
    cudaFuncSetAttribute(keys_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED_MOST);
    if (queries > 0 && a.b > 0)
        queries_kernel<<<by_query, BLOCK, 4 * (size_t)back_floats(a, false), stream_of(c)>>>(t);
    if (keys > 0 && a.b > 0)
        keys_kernel<<<by_key, BLOCK, 4 * (size_t)back_floats(a, true), stream_of(c)>>>(t);
    if (!attention_is_block(c->o)) add_sinks(c, a, o.sinks, delta, o.dsinks.floats());
}

static bool backward_fits(const op *o, const op_types *t)
{
    const bool block = attention_is_block(o);
    return cuda_types_fit(o, t) && (block || is_wide(o, t, OUT_ATTN_D_dsinks)) &&
           4 * back_floats(attention_of(o), true) <= SHARED_MOST;
}

extern "C" cuda_part cuda_attention_back(void)
{
    static const kernel plain = {
        .name = "plain", .accepts = backward_fits, .workspace = backward_bytes, .launch = backward};
    static const kernel rows[] = {row_of(OP_ATTN_D, plain), row_of(OP_ATTN_BLOCK_D, plain)};
    return PART(rows);
}

/* gdn_rule_back.cu - the gradient of the gated delta rule.
 *
 * B1  The recurrence runs backwards from the states that the forward saved before each chunk.
 *     States in between are made again, TOKENS at a time, and kept in the workspace: to go back
 *     from a state to the one before would be to divide by e^g, which may be zero.
 * B2  Gradients by q and k are sums over columns, and over the value heads that share a key
 *     head. A block adds up its own columns; what blocks and heads give goes to the workspace,
 *     and is added in order and taken through the norms of q and k at the end. So do those by
 *     beta and g. */
#include "backend/cuda/kernels/gdn_rule.cuh"

enum { TOKENS = 16, COLUMNS_LEAST = 16, COLUMNS_MOST = 128, ROOM_MOST = 200 << 10 };

struct rule_back {
    rule r;
    numbers d_o;    /* [B*S][Nv][Dv] */
    numbers dqkv;   /* as qkv */
    float *before;  /* [blocks][TOKENS][columns][Dk] */
    float *vectors; /* [B*S][Nv][groups][2][Dk]: by q, by k */
    float *scalars; /* [B*S][Nv][groups][2]: by beta, by g */
    int64_t columns, groups;
};

/* Columns of a block: as many as shared memory holds, and there are. */
static int64_t columns_of(const rule &r)
{
    int64_t n = COLUMNS_MOST;
    while (n > COLUMNS_LEAST && (2 * n * column_stride(r.dk) * 4 > ROOM_MOST || n / 2 >= r.dv))
        n /= 2;
    return n;
}

static int64_t back_floats(const rule &r, int64_t columns)
{
    return 2 * columns * column_stride(r.dk) + 2 * r.dk + 5 * columns;
}

struct back_memory {
    float *s, *ds;         /* [columns][Dk]: state, and the gradient by it */
    float *q, *k;          /* [Dk] */
    float *d_o, *delta;    /* [columns] */
    float *d_missing;      /* [columns] */
    float *by_beta, *by_g; /* [columns] */
};

static __device__ back_memory memory_at(float *p, const rule_back &t)
{
    const int64_t square = t.columns * column_stride(t.r.dk);
    back_memory m;
    m.s = p;
    m.ds = m.s + square;
    m.q = m.ds + square;
    m.k = m.q + t.r.dk;
    m.d_o = m.k + t.r.dk;
    m.delta = m.d_o + t.columns;
    m.d_missing = m.delta + t.columns;
    m.by_beta = m.d_missing + t.columns;
    m.by_g = m.by_beta + t.columns;
    return m;
}

/* B1: the states before tokens first .. past-1, all of one chunk; each thread keeps its own. */
static __device__ void make_states(const rule_back &t, const rule_place &at, const back_memory &m,
                                   int64_t first, int64_t past, float *before)
{
    const rule &r = t.r;
    const int part = (int)threadIdx.x % PARTS;
    const int64_t column = threadIdx.x / PARTS, c = at.first + column, chunk = first / r.chunk;
    float *s = m.s + column * column_stride(r.dk);
    for (int64_t i = part; i < r.dk; i += PARTS)
        s[i] = c < r.dv ? r.states[state_at(r, at, chunk) + i * r.dv + c] : 0;
    for (int64_t u = chunk * r.chunk; u < past; u++) {
        if (u >= first)
            for (int64_t i = part; i < r.dk; i += PARTS)
                before[((u - first) * t.columns + column) * r.dk + i] = s[i];
        __syncthreads();
        load_token(r, at, u, NULL, m.k);
        __syncthreads();
        const int64_t head = (at.b * r.s + u) * r.nv + at.h;
        advance(s, m.k, r.dk, part, expf(get(r.g, head)), get(r.beta, head), value_at(r, at, u, c));
    }
}

/* A column's part of going back over token u: m.s becomes the faded state, m.ds the gradient by the
 * state after the token. */
static __device__ void back_column(const rule_back &t, const rule_place &at, const back_memory &m,
                                   int64_t u, const float *before, float decay, float beta)
{
    const rule &r = t.r;
    const int part = (int)threadIdx.x % PARTS;
    const int64_t column = threadIdx.x / PARTS, c = at.first + column;
    const int64_t head = (at.b * r.s + u) * r.nv + at.h;
    const float d_o = c < r.dv ? get(t.d_o, head * r.dv + c) : 0;
    float *s = m.s + column * column_stride(r.dk), *ds = m.ds + column * column_stride(r.dk);
    float dot = 0, d_delta = 0;
    for (int64_t i = part; i < r.dk; i += PARTS) {
        s[i] = decay * before[column * r.dk + i];
        ds[i] += d_o * m.q[i];
        dot += s[i] * m.k[i];
        d_delta += ds[i] * m.k[i];
    }
    const float missing = value_at(r, at, u, c) - sum_parts(dot);
    d_delta = sum_parts(d_delta);
    if (part) return;
    m.d_o[column] = d_o;
    m.delta[column] = beta * missing;
    m.d_missing[column] = beta * d_delta;
    m.by_beta[column] = d_delta * missing;
    if (c < r.dv)
        put(t.dqkv, (at.b * r.s + u) * r.row + 2 * r.nk * r.dk + at.h * r.dv + c, beta * d_delta);
}

/* B2: sums over columns, PARTS threads for each of the Dk numbers. */
static __device__ void add_vectors(const rule_back &t, const back_memory &m, float *out)
{
    const int64_t dk = t.r.dk, stride = column_stride(dk), each = blockDim.x / PARTS;
    const int part = (int)threadIdx.x % PARTS;
    for (int64_t i0 = 0; i0 < dk; i0 += each) { /* together: the sum is over threads of a warp */
        const int64_t i = i0 + threadIdx.x / PARTS;
        float by_q = 0, by_k = 0;
        for (int64_t c = part; i < dk && c < t.columns; c += PARTS) {
            const float faded = m.s[c * stride + i];
            by_q += m.d_o[c] * (faded + m.k[i] * m.delta[c]);
            by_k += m.ds[c * stride + i] * m.delta[c] - m.d_missing[c] * faded;
        }
        by_q = sum_parts(by_q);
        by_k = sum_parts(by_k);
        if (part || i >= dk) continue;
        out[i] = by_q;
        out[dk + i] = by_k;
    }
}

/* Gradient by the state before the token, and the column's part of that by g. */
static __device__ void back_state(const rule_back &t, const back_memory &m, float decay)
{
    const int part = (int)threadIdx.x % PARTS;
    const int64_t column = threadIdx.x / PARTS, stride = column_stride(t.r.dk);
    const float d_missing = m.d_missing[column];
    float *ds = m.ds + column * stride, by_g = 0;
    const float *s = m.s + column * stride;
    for (int64_t i = part; i < t.r.dk; i += PARTS) {
        const float d = ds[i] - d_missing * m.k[i];
        by_g += d * s[i];
        ds[i] = d * decay;
    }
    by_g = sum_parts(by_g);
    if (part == 0) m.by_g[column] = by_g;
}

static __device__ void back_token(const rule_back &t, const rule_place &at, const back_memory &m,
                                  int64_t u, const float *before)
{
    const rule &r = t.r;
    const int64_t head = (at.b * r.s + u) * r.nv + at.h, part = head * t.groups + blockIdx.x;
    const float decay = expf(get(r.g, head)), beta = get(r.beta, head);
    __syncthreads();
    load_token(r, at, u, m.q, m.k);
    __syncthreads();
    back_column(t, at, m, u, before, decay, beta);
    __syncthreads();
    add_vectors(t, m, t.vectors + part * 2 * r.dk);
    __syncthreads();
    back_state(t, m, decay);
    __syncthreads();
    if (threadIdx.x) return;
    float by_beta = 0, by_g = 0;
    for (int64_t c = 0; c < t.columns; c++) {
        by_beta += m.by_beta[c];
        by_g += m.by_g[c];
    }
    t.scalars[2 * part] = by_beta;
    t.scalars[2 * part + 1] = by_g;
}

static __global__ void __launch_bounds__(COLUMNS_MOST *PARTS) back_kernel(rule_back t)
{
    extern __shared__ float memory[];
    const rule &r = t.r;
    const back_memory m = memory_at(memory, t);
    const rule_place at = {(int64_t)blockIdx.z, (int64_t)blockIdx.y,
                           (int64_t)blockIdx.y / (r.nv / r.nk), (int64_t)blockIdx.x * t.columns};
    const int64_t block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    float *before = t.before + block * TOKENS * t.columns * r.dk;
    for (int64_t i = threadIdx.x; i < t.columns * column_stride(r.dk); i += blockDim.x) m.ds[i] = 0;
    for (int64_t past = r.s; past > 0;) {
        const int64_t in_chunk = (past - 1) % r.chunk, first = past - 1 - in_chunk % TOKENS;
        make_states(t, at, m, first, past, before);
        for (int64_t u = past - 1; u >= first; u--)
            back_token(t, at, m, u, before + (u - first) * t.columns * r.dk);
        past = first;
    }
}

/* From gradients by normalised q and k of all value heads to those by q and k. */
struct norm_back_rows {
    rule_back t;
    template <int THREADS, int W> __device__ void row(int64_t at, int thread) const
    {
        const rule &r = t.r;
        const int64_t token = at / (2 * r.nk), head = at % (2 * r.nk), key_head = head % r.nk;
        const bool is_q = head < r.nk;
        const int64_t shared = r.nv / r.nk * t.groups, first = token * r.row + head * r.dk;
        /* factor is that of the length alone; q is divided by sqrt(Dk) besides */
        const float by = is_q ? 1 / sqrtf((float)r.dk) : 1, factor = r.factors[at] / by;
        const float *parts = t.vectors + (token * r.nv * t.groups + key_head * shared) * 2 * r.dk +
                             (is_q ? 0 : r.dk);
        float along = 0;
        for (int64_t i = thread; i < r.dk; i += THREADS)
            along += by * sum(parts, shared, i) * factor * get(r.qkv, first + i);
        along = sum_over<THREADS>(along);
        for (int64_t i = thread; i < r.dk; i += THREADS) {
            const float y = factor * get(r.qkv, first + i);
            put(t.dqkv, first + i, factor * (by * sum(parts, shared, i) - y * along));
        }
    }
    __device__ float sum(const float *parts, int64_t n, int64_t i) const
    {
        float all = 0;
        for (int64_t p = 0; p < n; p++) all += parts[p * 2 * t.r.dk + i];
        return all;
    }
};

static void finish(const kernel_call *c, const rule_back &t, float *dbeta, float *dg)
{
    const rule &r = t.r;
    const float *scalars = t.scalars;
    const int64_t groups = t.groups;
    for_narrow_rows(c, r.b * r.s * 2 * r.nk, r.dk, norm_back_rows{t});
    for_each(c, r.b * r.s * r.nv, [=] __device__(int64_t i) {
        float by_beta = 0, by_g = 0;
        for (int64_t p = i * groups; p < (i + 1) * groups; p++) {
            by_beta += scalars[2 * p];
            by_g += scalars[2 * p + 1];
        }
        dbeta[i] = by_beta;
        dg[i] = by_g;
    });
}

/* Workspace: factors, states, vectors, scalars. */
struct back_sizes {
    int64_t columns, groups, factors, before, vectors, scalars;
};

static back_sizes sizes_of(const rule &r)
{
    back_sizes z = {};
    z.columns = columns_of(r);
    z.groups = ceil_of(r.dv, z.columns);
    z.factors = factors_bytes(r);
    z.before = room_of(r.b * r.nv * z.groups * TOKENS * z.columns * r.dk * 4);
    z.vectors = room_of(r.b * r.s * r.nv * z.groups * 2 * r.dk * 4);
    z.scalars = room_of(r.b * r.s * r.nv * z.groups * 2 * 4);
    return z;
}

static int64_t backward_bytes(const op *o, const op_types *)
{
    const back_sizes z = sizes_of(rule_of(op_gdn_rule_d_of(o)));
    return z.factors + z.before + z.vectors + z.scalars;
}

static void backward(const kernel_call *c)
{
    rule_back t = {};
    const op_gdn_rule_d o = op_gdn_rule_d_of(c);
    t.r = rule_of(o);
    rule &r = t.r;
    const back_sizes z = sizes_of(r);
    char *p = (char *)c->workspace;
    t.d_o = o.do_, r.factors = (float *)p, t.dqkv = o.dqkv;
    t.columns = z.columns, t.groups = z.groups;
    t.before = (float *)(p + z.factors);
    t.vectors = (float *)(p + z.factors + z.before);
    t.scalars = (float *)(p + z.factors + z.before + z.vectors);
    if (r.b * r.s * r.nv * r.dv == 0) return;
    make_factors(c, r, (float *)p);
    const size_t bytes = sizeof(float) * (size_t)back_floats(r, z.columns);
    cudaFuncSetAttribute(back_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    const dim3 grid((unsigned)z.groups, (unsigned)r.nv, (unsigned)r.b);
    back_kernel<<<grid, (unsigned)(z.columns * PARTS), bytes, stream_of(c)>>>(t);
    finish(c, t, o.dbeta, o.dg);
}

static bool backward_fits(const op *o, const op_types *t)
{
    return cuda_types_fit(o, t) && o->dim[DIM_GDN_RULE_D_Dk] <= KEY_MOST;
}

extern "C" cuda_part cuda_gdn_rule_back(void)
{
    static const kernel rows[] = {
        {.kind = OP_GDN_RULE_D,
         .name = "plain",
         .accepts = backward_fits,
         .workspace = backward_bytes,
         .launch = backward},
    };
    return PART(rows);
}

/* maps.cu - what works element by element: sums, copies, zeros, gates. */
#include "backend/cuda/kernels/device.cuh"

/* y = a + b, y = a, or y = 0: as what is missing is. A row is a run of RUN numbers. */
enum { RUN = 2048 };

struct sums {
    numbers a, b, y; /* [N] */
    int64_t n;
    template <int THREADS, int W> __device__ void row(int64_t i, int thread) const
    {
        const int64_t past = (i + 1) * RUN < n ? (i + 1) * RUN : n;
        for (int64_t j = i * RUN + thread * W; j < past; j += THREADS * W) {
            lanes<W> v = {}, w = {};
            if (a.p) v = load<W>(a, j);
            if (b.p) w = load<W>(b, j);
#pragma unroll
            for (int k = 0; k < W; k++) v.v[k] += w.v[k];
            store(y, j, v);
        }
    }
};

static void run_sums(const kernel_call *c, numbers a, numbers b, numbers y, int64_t n)
{
    const int64_t rows = ceil_of(n, RUN);
    if (n > 0 && n % 8 == 0 && all_aligned(c))
        for_rows_by<8>(c, rows, RUN, sums{a, b, y, n});
    else if (n > 0)
        for_rows_by<1>(c, rows, RUN, sums{a, b, y, n});
}

static void add(const kernel_call *c)
{
    const op_add o = op_add_of(c);
    run_sums(c, o.a, o.b, o.y, o.N);
}

static void copy(const kernel_call *c)
{
    const op_copy o = op_copy_of(c);
    run_sums(c, o.a, {}, o.y, o.N);
}

/* A copy to another format. */
static void cast(const kernel_call *c)
{
    const op_cast o = op_cast_of(c);
    run_sums(c, o.x, {}, o.y, o.N);
}

/* ---- bytes, of any format */

static int64_t bytes_of(dtype t, int64_t n)
{
    switch (t) {
    case DTYPE_F64:
        return 8 * n;
    case DTYPE_F32:
    case DTYPE_I32:
        return 4 * n;
    case DTYPE_BF16:
    case DTYPE_F16:
    case DTYPE_I16:
        return 2 * n;
    case DTYPE_FP4:
        return (n + 1) / 2;
    default:
        return n;
    }
}

/* Zero is all bits zero in every format. */
static void zero(const kernel_call *c)
{
    const op_zero o = op_zero_of(c);
    char *y = (char *)o.y.p;
    const int64_t bytes = bytes_of(c->types->out[OUT_ZERO_y], o.N);
    const int64_t whole = all_aligned(c) ? bytes / 16 : 0;
    for_each(c, whole, [=] __device__(int64_t i) { ((uint4 *)y)[i] = make_uint4(0, 0, 0, 0); });
    for_each(c, bytes - 16 * whole, [=] __device__(int64_t i) { y[16 * whole + i] = 0; });
}

/* To and from pinned memory of the host. */
static void copy_bytes(const kernel_call *c)
{
    const op_copy_out o = op_copy_out_of(c); /* a COPY_IN's operands stand alike */
    const size_t bytes = (size_t)bytes_of(c->types->in[IN_COPY_OUT_x], o.N);
    if (bytes) cudaMemcpyAsync(o.host.p, o.x.p, bytes, cudaMemcpyDefault, stream_of(c));
}

/* ---- gates: G is N, or 1 for a whole row */

/* sigmoid(g) of W neighbours, or of their row. */
template <int W>
static __device__ __forceinline__ lanes<W> opened(numbers g, int64_t n_g, int64_t i, int64_t at)
{
    lanes<W> s;
    if (n_g == 1) {
        const float one = sigmoid(get(g, i));
#pragma unroll
        for (int k = 0; k < W; k++) s.v[k] = one;
        return s;
    }
    s = load<W>(g, at);
#pragma unroll
    for (int k = 0; k < W; k++) s.v[k] = sigmoid(s.v[k]);
    return s;
}

struct gate_rows : op_gate {
    template <int THREADS, int W> __device__ void row(int64_t i, int thread) const
    {
        for (int64_t j = thread * W; j < N; j += THREADS * W) {
            lanes<W> v = load<W>(x, i * N + j);
            const lanes<W> s = opened<W>(g, G, i, i * N + j);
#pragma unroll
            for (int k = 0; k < W; k++) v.v[k] *= s.v[k];
            store(y, i * N + j, v);
        }
    }
};

static void gate(const kernel_call *c)
{
    const op_gate o = op_gate_of(c);
    for_rows(c, o.M, o.N, gate_rows{o});
}

struct gate_d_rows : op_gate_d {
    template <int THREADS, int W> __device__ void row(int64_t i, int thread) const
    {
        float sum = 0;
        for (int64_t j = thread * W; j < N; j += THREADS * W) {
            const lanes<W> s = opened<W>(g, G, i, i * N + j), v = load<W>(x, i * N + j);
            lanes<W> d = load<W>(dy, i * N + j), by_g;
#pragma unroll
            for (int k = 0; k < W; k++) {
                by_g.v[k] = d.v[k] * v.v[k] * s.v[k] * (1 - s.v[k]);
                d.v[k] *= s.v[k];
                sum += by_g.v[k];
            }
            if (dx.p) store(dx, i * N + j, d);
            if (dg.p && G == N) store(dg, i * N + j, by_g);
        }
        if (!dg.p || G != 1 || N == 1) return;
        sum = sum_over<THREADS>(sum);
        if (thread == 0) put(dg, i, sum);
    }
};

static void gate_d(const kernel_call *c)
{
    const op_gate_d o = op_gate_d_of(c);
    for_rows(c, o.M, o.N, gate_d_rows{o});
}

extern "C" cuda_part cuda_maps(void)
{
    static const kernel rows[] = {
        {.kind = OP_ADD, .name = "plain", .launch = add},
        {.kind = OP_COPY, .name = "plain", .launch = copy},
        {.kind = OP_CAST, .name = "plain", .launch = cast},
        {.kind = OP_ZERO, .name = "plain", .launch = zero},
        {.kind = OP_COPY_OUT, .name = "copy", .launch = copy_bytes},
        {.kind = OP_COPY_IN, .name = "copy", .launch = copy_bytes},
        {.kind = OP_GATE, .name = "plain", .launch = gate},
        {.kind = OP_GATE_D, .name = "plain", .launch = gate_d},
    };
    return PART(rows);
}

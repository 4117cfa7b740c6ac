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
    run_sums(c, in_of(c, IN_ADD_a), in_of(c, IN_ADD_b), out_of(c, OUT_ADD_y), c->o->dim[DIM_ADD_N]);
}

/* Where formats differ, a change of format: that is all of CAST, whose operands stand alike. */
static_assert((int)IN_CAST_x == IN_COPY_a && (int)OUT_CAST_y == OUT_COPY_y &&
              (int)DIM_CAST_N == DIM_COPY_N);

static void copy(const kernel_call *c)
{
    run_sums(c, in_of(c, IN_COPY_a), {}, out_of(c, OUT_COPY_y), c->o->dim[DIM_COPY_N]);
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
    char *y = (char *)c->out[OUT_ZERO_y];
    const int64_t bytes = bytes_of(c->types->out[OUT_ZERO_y], c->o->dim[DIM_ZERO_N]);
    const int64_t whole = all_aligned(c) ? bytes / 16 : 0;
    for_each(c, whole, [=] __device__(int64_t i) { ((uint4 *)y)[i] = make_uint4(0, 0, 0, 0); });
    for_each(c, bytes - 16 * whole, [=] __device__(int64_t i) { y[16 * whole + i] = 0; });
}

/* To and from pinned memory of the host. */
static void copy_bytes(const kernel_call *c)
{
    const size_t bytes = (size_t)bytes_of(c->types->in[0], c->o->dim[DIM_COPY_OUT_N]);
    if (bytes)
        cudaMemcpyAsync(c->out[OUT_COPY_OUT_host], c->in[IN_COPY_OUT_x], bytes, cudaMemcpyDefault,
                        stream_of(c));
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

struct gate_rows {
    numbers x, g, y; /* [M][N], [M][G], [M][N] */
    int64_t n, n_g;
    template <int THREADS, int W> __device__ void row(int64_t i, int thread) const
    {
        for (int64_t j = thread * W; j < n; j += THREADS * W) {
            lanes<W> v = load<W>(x, i * n + j);
            const lanes<W> s = opened<W>(g, n_g, i, i * n + j);
#pragma unroll
            for (int k = 0; k < W; k++) v.v[k] *= s.v[k];
            store(y, i * n + j, v);
        }
    }
};

static void gate(const kernel_call *c)
{
    const int64_t n = c->o->dim[DIM_GATE_N];
    for_rows(c, c->o->dim[DIM_GATE_M], n,
             gate_rows{in_of(c, IN_GATE_x), in_of(c, IN_GATE_g), out_of(c, OUT_GATE_y), n,
                       c->o->dim[DIM_GATE_G]});
}

struct gate_d_rows {
    numbers dy, x, g; /* [M][N], [M][N], [M][G] */
    numbers dx;       /* [M][N], may be missing, may be dy */
    numbers dg;       /* [M][G], may be missing */
    int64_t n, n_g;
    template <int THREADS, int W> __device__ void row(int64_t i, int thread) const
    {
        float sum = 0;
        for (int64_t j = thread * W; j < n; j += THREADS * W) {
            const lanes<W> s = opened<W>(g, n_g, i, i * n + j), v = load<W>(x, i * n + j);
            lanes<W> d = load<W>(dy, i * n + j), by_g;
#pragma unroll
            for (int k = 0; k < W; k++) {
                by_g.v[k] = d.v[k] * v.v[k] * s.v[k] * (1 - s.v[k]);
                d.v[k] *= s.v[k];
                sum += by_g.v[k];
            }
            if (dx.p) store(dx, i * n + j, d);
            if (dg.p && n_g == n) store(dg, i * n + j, by_g);
        }
        if (!dg.p || n_g != 1 || n == 1) return;
        sum = sum_over<THREADS>(sum);
        if (thread == 0) put(dg, i, sum);
    }
};

static void gate_d(const kernel_call *c)
{
    const int64_t m = c->o->dim[DIM_GATE_D_M], n = c->o->dim[DIM_GATE_D_N];
    for_rows(c, m, n,
             gate_d_rows{in_of(c, IN_GATE_D_dy), in_of(c, IN_GATE_D_x), in_of(c, IN_GATE_D_g),
                         out_of(c, OUT_GATE_D_dx), out_of(c, OUT_GATE_D_dg), n,
                         c->o->dim[DIM_GATE_D_G]});
}

extern "C" cuda_part cuda_maps(void)
{
    static const kernel rows[] = {
        {OP_ADD, "plain", NULL, NULL, NULL, NULL, add},
        {OP_COPY, "plain", NULL, NULL, NULL, NULL, copy},
        {OP_CAST, "plain", NULL, NULL, NULL, NULL, copy},
        {OP_ZERO, "plain", NULL, NULL, NULL, NULL, zero},
        {OP_COPY_OUT, "copy", NULL, NULL, NULL, NULL, copy_bytes},
        {OP_COPY_IN, "copy", NULL, NULL, NULL, NULL, copy_bytes},
        {OP_GATE, "plain", NULL, NULL, NULL, NULL, gate},
        {OP_GATE_D, "plain", NULL, NULL, NULL, NULL, gate_d},
    };
    return PART(rows);
}

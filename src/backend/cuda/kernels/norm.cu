/* norm.cu - RMSNorm, whole rows and rows that are cut over ranks, and the gated norm.
 *
 * A warp takes a short row, a block a long one. With g = dy * w and r = rstd the gradient is
 * dx = r g - x r^3 mean(g x), since r depends on each x too. */
#include "backend/cuda/kernels/columns.cuh"

/* Weights of W columns: 1 + w where they are kept about zero; missing: all ones. */
template <int W> static __device__ lanes<W> weights(numbers w, unsigned flags, int64_t j)
{
    lanes<W> a;
    if (w.p) a = load<W>(w, j);
#pragma unroll
    for (int k = 0; k < W; k++) a.v[k] = w.p ? a.v[k] + (flags & ZERO_CENTRED ? 1.f : 0.f) : 1.f;
    return a;
}

/* ---- whole rows */

struct norm_rows : op_norm {
    template <int THREADS, int W> __device__ void row(int64_t i, int thread) const
    {
        float sum = 0;
        for (int64_t j = thread * W; j < H; j += THREADS * W) {
            const lanes<W> v = load<W>(x, i * H + j);
#pragma unroll
            for (int k = 0; k < W; k++) sum += v.v[k] * v.v[k];
        }
        const float r = rsqrtf(sum_over<THREADS>(sum) / (float)H + eps);
        for (int64_t j = thread * W; j < H; j += THREADS * W) {
            lanes<W> v = load<W>(x, i * H + j);
            const lanes<W> by = weights<W>(w, flags, j);
#pragma unroll
            for (int k = 0; k < W; k++) v.v[k] *= r * by.v[k];
            store(y, i * H + j, v);
        }
        if (rstd && thread == 0) rstd[i] = r;
    }
};

static void norm(const kernel_call *c)
{
    const op_norm o = op_norm_of(c);
    for_rows(c, o.M, o.H, norm_rows{o});
}

struct norm_d_rows : op_norm_d {
    template <int THREADS, int W> __device__ void row(int64_t i, int thread) const
    {
        const float r = rstd[i];
        float sum = 0;
        for (int64_t j = thread * W; j < H; j += THREADS * W) {
            const lanes<W> d = load<W>(dy, i * H + j), v = load<W>(x, i * H + j),
                           by = weights<W>(w, flags, j);
#pragma unroll
            for (int k = 0; k < W; k++) sum += d.v[k] * by.v[k] * v.v[k];
        }
        const float along = r * r * r * sum_over<THREADS>(sum) / (float)H;
        for (int64_t j = thread * W; j < H; j += THREADS * W) {
            lanes<W> d = load<W>(dy, i * H + j);
            const lanes<W> v = load<W>(x, i * H + j), by = weights<W>(w, flags, j);
#pragma unroll
            for (int k = 0; k < W; k++) d.v[k] = r * d.v[k] * by.v[k] - v.v[k] * along;
            store_or_add(dx, i * H + j, d, flags & ACCUMULATE);
        }
    }
};

static void norm_d(const kernel_call *c)
{
    const op_norm_d o = op_norm_d_of(c);
    for_rows(c, o.M, o.H, norm_d_rows{o});
}

static int64_t column_bytes(const op *o, const op_types *)
{
    return columns_workspace(o->dim[DIM_NORM_W_M], o->dim[DIM_NORM_W_H]);
}

static void norm_w(const kernel_call *c)
{
    const op_norm_w o = op_norm_w_of(c);
    add_columns(c, o.M, o.H, c->workspace, o.dw.floats(), [=] __device__(int64_t i, int64_t j) {
        return get(o.dy, i * o.H + j) * get(o.x, i * o.H + j) * o.rstd[i];
    });
}

/* ---- rows that are cut over ranks: sums[PARTS][M] come from all of them */

struct dot_rows : op_row_dots {
    template <int THREADS, int W> __device__ void row(int64_t i, int thread) const
    {
        float sum = 0;
        for (int64_t j = thread * W; j < H; j += THREADS * W) {
            const lanes<W> u = load<W>(a, i * H + j), v = load<W>(b, i * H + j),
                           by = weights<W>(w, flags, j);
#pragma unroll
            for (int k = 0; k < W; k++) sum += u.v[k] * v.v[k] * by.v[k];
        }
        sum = sum_over<THREADS>(sum);
        if (thread == 0) sums[i] = sum;
    }
};

static void row_dots(const kernel_call *c)
{
    const op_row_dots o = op_row_dots_of(c);
    for_rows(c, o.M, o.H, dot_rows{o});
}

/* The mean over the whole row: PARTS sums of H elements each. */
template <class O> static __device__ float part_mean(const O &o, int64_t i)
{
    float sum = 0;
    for (int64_t p = 0; p < o.PARTS; p++) sum += o.sums[p * o.M + i];
    return sum / (float)(o.H * o.PARTS);
}

struct norm_part_rows : op_norm_part {
    template <int THREADS, int W> __device__ void row(int64_t i, int thread) const
    {
        const float r = rsqrtf(part_mean(*this, i) + eps);
        for (int64_t j = thread * W; j < H; j += THREADS * W) {
            lanes<W> v = load<W>(x, i * H + j);
            const lanes<W> by = weights<W>(w, flags, j);
#pragma unroll
            for (int k = 0; k < W; k++) v.v[k] *= r * by.v[k];
            store(y, i * H + j, v);
        }
        if (thread == 0) rstd[i] = r;
    }
};

static void norm_part(const kernel_call *c)
{
    const op_norm_part o = op_norm_part_of(c);
    for_rows(c, o.M, o.H, norm_part_rows{o});
}

struct norm_part_d_rows : op_norm_part_d {
    template <int THREADS, int W> __device__ void row(int64_t i, int thread) const
    {
        const float r = rstd[i], along = part_mean(*this, i) * r * r * r;
        for (int64_t j = thread * W; j < H; j += THREADS * W) {
            lanes<W> d = load<W>(dy, i * H + j);
            const lanes<W> v = load<W>(x, i * H + j), by = weights<W>(w, flags, j);
#pragma unroll
            for (int k = 0; k < W; k++) d.v[k] = r * d.v[k] * by.v[k] - v.v[k] * along;
            store_or_add(dx, i * H + j, d, flags & ACCUMULATE);
        }
    }
};

static void norm_part_d(const kernel_call *c)
{
    const op_norm_part_d o = op_norm_part_d_of(c);
    for_rows(c, o.M, o.H, norm_part_d_rows{o});
}

/* ---- gated: y = norm(x) * w * silu(z) */

struct gated_rows : op_gated_norm {
    template <int THREADS, int W> __device__ void row(int64_t i, int thread) const
    {
        float sum = 0;
        for (int64_t j = thread * W; j < H; j += THREADS * W) {
            const lanes<W> v = load<W>(x, i * H + j);
#pragma unroll
            for (int k = 0; k < W; k++) sum += v.v[k] * v.v[k];
        }
        const float r = rsqrtf(sum_over<THREADS>(sum) / (float)H + eps);
        for (int64_t j = thread * W; j < H; j += THREADS * W) {
            lanes<W> v = load<W>(x, i * H + j);
            const lanes<W> by = weights<W>(w, flags, j), g = load<W>(z, i * H + j);
#pragma unroll
            for (int k = 0; k < W; k++) v.v[k] *= r * by.v[k] * silu(g.v[k]);
            store(y, i * H + j, v);
        }
        if (thread == 0) rstd[i] = r;
    }
};

static void gated_norm(const kernel_call *c)
{
    const op_gated_norm o = op_gated_norm_of(c);
    for_rows(c, o.M, o.H, gated_rows{o});
}

struct gated_d_rows : op_gated_norm_d {
    template <int THREADS, int W> __device__ void row(int64_t i, int thread) const
    {
        const float r = rstd[i];
        float along = 0;
        for (int64_t j = thread * W; j < H; j += THREADS * W) {
            const lanes<W> d = load<W>(dy, i * H + j), v = load<W>(x, i * H + j),
                           g = load<W>(z, i * H + j), by = weights<W>(w, flags, j);
#pragma unroll
            for (int k = 0; k < W; k++) along += d.v[k] * by.v[k] * silu(g.v[k]) * v.v[k] * r;
        }
        along = sum_over<THREADS>(along) / (float)H;
        for (int64_t j = thread * W; j < H; j += THREADS * W) {
            const lanes<W> d = load<W>(dy, i * H + j), v = load<W>(x, i * H + j),
                           g = load<W>(z, i * H + j), by = weights<W>(w, flags, j);
            lanes<W> to_x, to_z;
#pragma unroll
            for (int k = 0; k < W; k++) {
                const float weighed = d.v[k] * by.v[k], n = r * v.v[k];
                to_x.v[k] = r * (weighed * silu(g.v[k]) - n * along);
                to_z.v[k] = weighed * n * silu_slope(g.v[k]);
            }
            store(dx, i * H + j, to_x);
            store(dz, i * H + j, to_z);
        }
    }
};

static void gated_norm_d(const kernel_call *c)
{
    const op_gated_norm_d o = op_gated_norm_d_of(c);
    for_rows(c, o.M, o.H, gated_d_rows{o});
}

static void gated_norm_w(const kernel_call *c)
{
    const op_gated_norm_w o = op_gated_norm_w_of(c);
    add_columns(c, o.M, o.H, c->workspace, o.dw.floats(), [=] __device__(int64_t i, int64_t j) {
        const int64_t at = i * o.H + j;
        return get(o.dy, at) * get(o.x, at) * o.rstd[i] * silu(get(o.z, at));
    });
}

extern "C" cuda_part cuda_norm(void)
{
    static const kernel rows[] = {
        {.kind = OP_NORM, .name = "plain", .launch = norm},
        {.kind = OP_NORM_D, .name = "plain", .launch = norm_d},
        {.kind = OP_NORM_W,
         .name = "plain",
         .accepts = sums_wide,
         .workspace = column_bytes,
         .launch = norm_w},
        {.kind = OP_ROW_DOTS, .name = "plain", .launch = row_dots},
        {.kind = OP_NORM_PART, .name = "plain", .launch = norm_part},
        {.kind = OP_NORM_PART_D, .name = "plain", .launch = norm_part_d},
        {.kind = OP_GATED_NORM, .name = "plain", .launch = gated_norm},
        {.kind = OP_GATED_NORM_D, .name = "plain", .launch = gated_norm_d},
        {.kind = OP_GATED_NORM_W,
         .name = "plain",
         .accepts = sums_wide,
         .workspace = column_bytes,
         .launch = gated_norm_w},
    };
    return PART(rows);
}

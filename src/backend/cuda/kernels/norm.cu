/* norm.cu - RMSNorm, whole rows and rows that are cut over ranks, and the gated norm.
 *
 * A warp takes a short row, a block a long one. With g = dy * w and r = rstd the gradient is
 * dx = r g - x r^3 mean(g x), since r depends on each x too. */
#include "backend/cuda/kernels/columns.cuh"

/* 1 + w where weights are kept about zero. */
struct weights {
    numbers w; /* [H]; missing: all ones */
    bool centred;
    template <int W> __device__ lanes<W> at(int64_t j) const
    {
        lanes<W> a;
        if (w.p) a = load<W>(w, j);
#pragma unroll
        for (int k = 0; k < W; k++) a.v[k] = w.p ? a.v[k] + (centred ? 1.f : 0.f) : 1.f;
        return a;
    }
};

static weights weights_of(const kernel_call *c, int i)
{
    return {in_of(c, i), (c->o->flags & ZERO_CENTRED) != 0};
}

/* ---- whole rows */

struct norm_rows {
    numbers x, y; /* [M][H] */
    weights w;
    float *rstd; /* [M], may be missing */
    int64_t h;
    float eps;
    template <int THREADS, int W> __device__ void row(int64_t i, int thread) const
    {
        float sum = 0;
        for (int64_t j = thread * W; j < h; j += THREADS * W) {
            const lanes<W> v = load<W>(x, i * h + j);
#pragma unroll
            for (int k = 0; k < W; k++) sum += v.v[k] * v.v[k];
        }
        const float r = rsqrtf(sum_over<THREADS>(sum) / (float)h + eps);
        for (int64_t j = thread * W; j < h; j += THREADS * W) {
            lanes<W> v = load<W>(x, i * h + j);
            const lanes<W> by = w.at<W>(j);
#pragma unroll
            for (int k = 0; k < W; k++) v.v[k] *= r * by.v[k];
            store(y, i * h + j, v);
        }
        if (rstd && thread == 0) rstd[i] = r;
    }
};

static void norm(const kernel_call *c)
{
    const int64_t m = c->o->dim[DIM_NORM_M], h = c->o->dim[DIM_NORM_H];
    for_rows(c, m, h,
             norm_rows{in_of(c, IN_NORM_x), out_of(c, OUT_NORM_y), weights_of(c, IN_NORM_w),
                       floats_out(c, OUT_NORM_rstd), h, (float)c->o->real[REAL_NORM_eps]});
}

struct norm_d_rows {
    numbers dy, x; /* [M][H] */
    weights w;
    const float *rstd; /* [M] */
    numbers dx;        /* [M][H] */
    int64_t h;
    bool add;
    template <int THREADS, int W> __device__ void row(int64_t i, int thread) const
    {
        const float r = rstd[i];
        float sum = 0;
        for (int64_t j = thread * W; j < h; j += THREADS * W) {
            const lanes<W> d = load<W>(dy, i * h + j), v = load<W>(x, i * h + j), by = w.at<W>(j);
#pragma unroll
            for (int k = 0; k < W; k++) sum += d.v[k] * by.v[k] * v.v[k];
        }
        const float along = r * r * r * sum_over<THREADS>(sum) / (float)h;
        for (int64_t j = thread * W; j < h; j += THREADS * W) {
            lanes<W> d = load<W>(dy, i * h + j);
            const lanes<W> v = load<W>(x, i * h + j), by = w.at<W>(j);
#pragma unroll
            for (int k = 0; k < W; k++) d.v[k] = r * d.v[k] * by.v[k] - v.v[k] * along;
            store_or_add(dx, i * h + j, d, add);
        }
    }
};

static void norm_d(const kernel_call *c)
{
    const int64_t m = c->o->dim[DIM_NORM_D_M], h = c->o->dim[DIM_NORM_D_H];
    for_rows(c, m, h,
             norm_d_rows{in_of(c, IN_NORM_D_dy), in_of(c, IN_NORM_D_x), weights_of(c, IN_NORM_D_w),
                         floats_in(c, IN_NORM_D_rstd), out_of(c, OUT_NORM_D_dx), h,
                         (c->o->flags & ACCUMULATE) != 0});
}

static int64_t column_bytes(const op *o, const op_types *)
{
    return columns_workspace(o->dim[DIM_NORM_W_M], o->dim[DIM_NORM_W_H]);
}

static void norm_w(const kernel_call *c)
{
    const int64_t m = c->o->dim[DIM_NORM_W_M], h = c->o->dim[DIM_NORM_W_H];
    const numbers dy = in_of(c, IN_NORM_W_dy), x = in_of(c, IN_NORM_W_x);
    const float *rstd = floats_in(c, IN_NORM_W_rstd);
    add_columns(c, m, h, c->workspace, floats_out(c, OUT_NORM_W_dw),
                [=] __device__(int64_t i, int64_t j) {
                    return get(dy, i * h + j) * get(x, i * h + j) * rstd[i];
                });
}

/* ---- rows that are cut over ranks: sums[PARTS][M] come from all of them */

struct dot_rows {
    numbers a, b; /* [M][H] */
    weights w;
    float *sums; /* [M] */
    int64_t h;
    template <int THREADS, int W> __device__ void row(int64_t i, int thread) const
    {
        float sum = 0;
        for (int64_t j = thread * W; j < h; j += THREADS * W) {
            const lanes<W> u = load<W>(a, i * h + j), v = load<W>(b, i * h + j), by = w.at<W>(j);
#pragma unroll
            for (int k = 0; k < W; k++) sum += u.v[k] * v.v[k] * by.v[k];
        }
        sum = sum_over<THREADS>(sum);
        if (thread == 0) sums[i] = sum;
    }
};

static void row_dots(const kernel_call *c)
{
    const int64_t m = c->o->dim[DIM_ROW_DOTS_M], h = c->o->dim[DIM_ROW_DOTS_H];
    for_rows(c, m, h,
             dot_rows{in_of(c, IN_ROW_DOTS_a), in_of(c, IN_ROW_DOTS_b),
                      weights_of(c, IN_ROW_DOTS_w), floats_out(c, OUT_ROW_DOTS_sums), h});
}

/* The mean over the whole row: PARTS sums of H elements each. */
struct part_means {
    const float *sums; /* [PARTS][M] */
    int64_t m, h, parts;
    __device__ float at(int64_t i) const
    {
        float sum = 0;
        for (int64_t p = 0; p < parts; p++) sum += sums[p * m + i];
        return sum / (float)(h * parts);
    }
};

static part_means means_of(const kernel_call *c, int i)
{
    return {floats_in(c, i), c->o->dim[DIM_NORM_PART_M], c->o->dim[DIM_NORM_PART_H],
            c->o->dim[DIM_NORM_PART_PARTS]};
}

struct norm_part_rows {
    numbers x, y; /* [M][H] */
    weights w;
    part_means means;
    float *rstd; /* [M] */
    float eps;
    template <int THREADS, int W> __device__ void row(int64_t i, int thread) const
    {
        const int64_t h = means.h;
        const float r = rsqrtf(means.at(i) + eps);
        for (int64_t j = thread * W; j < h; j += THREADS * W) {
            lanes<W> v = load<W>(x, i * h + j);
            const lanes<W> by = w.at<W>(j);
#pragma unroll
            for (int k = 0; k < W; k++) v.v[k] *= r * by.v[k];
            store(y, i * h + j, v);
        }
        if (thread == 0) rstd[i] = r;
    }
};

static void norm_part(const kernel_call *c)
{
    for_rows(c, c->o->dim[DIM_NORM_PART_M], c->o->dim[DIM_NORM_PART_H],
             norm_part_rows{in_of(c, IN_NORM_PART_x), out_of(c, OUT_NORM_PART_y),
                            weights_of(c, IN_NORM_PART_w), means_of(c, IN_NORM_PART_sums),
                            floats_out(c, OUT_NORM_PART_rstd),
                            (float)c->o->real[REAL_NORM_PART_eps]});
}

struct norm_part_d_rows {
    numbers dy, x; /* [M][H] */
    weights w;
    const float *rstd; /* [M] */
    part_means means;
    numbers dx; /* [M][H] */
    bool add;
    template <int THREADS, int W> __device__ void row(int64_t i, int thread) const
    {
        const int64_t h = means.h;
        const float r = rstd[i], along = means.at(i) * r * r * r;
        for (int64_t j = thread * W; j < h; j += THREADS * W) {
            lanes<W> d = load<W>(dy, i * h + j);
            const lanes<W> v = load<W>(x, i * h + j), by = w.at<W>(j);
#pragma unroll
            for (int k = 0; k < W; k++) d.v[k] = r * d.v[k] * by.v[k] - v.v[k] * along;
            store_or_add(dx, i * h + j, d, add);
        }
    }
};

static void norm_part_d(const kernel_call *c)
{
    for_rows(c, c->o->dim[DIM_NORM_PART_D_M], c->o->dim[DIM_NORM_PART_D_H],
             norm_part_d_rows{in_of(c, IN_NORM_PART_D_dy), in_of(c, IN_NORM_PART_D_x),
                              weights_of(c, IN_NORM_PART_D_w), floats_in(c, IN_NORM_PART_D_rstd),
                              means_of(c, IN_NORM_PART_D_sums), out_of(c, OUT_NORM_PART_D_dx),
                              (c->o->flags & ACCUMULATE) != 0});
}

/* ---- gated: y = norm(x) * w * silu(z) */

struct gated_rows {
    numbers x, z, y; /* [M][H] */
    weights w;
    float *rstd; /* [M] */
    int64_t h;
    float eps;
    template <int THREADS, int W> __device__ void row(int64_t i, int thread) const
    {
        float sum = 0;
        for (int64_t j = thread * W; j < h; j += THREADS * W) {
            const lanes<W> v = load<W>(x, i * h + j);
#pragma unroll
            for (int k = 0; k < W; k++) sum += v.v[k] * v.v[k];
        }
        const float r = rsqrtf(sum_over<THREADS>(sum) / (float)h + eps);
        for (int64_t j = thread * W; j < h; j += THREADS * W) {
            lanes<W> v = load<W>(x, i * h + j);
            const lanes<W> by = w.at<W>(j), g = load<W>(z, i * h + j);
#pragma unroll
            for (int k = 0; k < W; k++) v.v[k] *= r * by.v[k] * silu(g.v[k]);
            store(y, i * h + j, v);
        }
        if (thread == 0) rstd[i] = r;
    }
};

static void gated_norm(const kernel_call *c)
{
    const int64_t m = c->o->dim[DIM_GATED_NORM_M], h = c->o->dim[DIM_GATED_NORM_H];
    for_rows(c, m, h,
             gated_rows{in_of(c, IN_GATED_NORM_x), in_of(c, IN_GATED_NORM_z),
                        out_of(c, OUT_GATED_NORM_y), weights_of(c, IN_GATED_NORM_w),
                        floats_out(c, OUT_GATED_NORM_rstd), h,
                        (float)c->o->real[REAL_GATED_NORM_eps]});
}

struct gated_d_rows {
    numbers dy, x, z; /* [M][H] */
    weights w;
    const float *rstd; /* [M] */
    numbers dx, dz;    /* [M][H] */
    int64_t h;
    template <int THREADS, int W> __device__ void row(int64_t i, int thread) const
    {
        const float r = rstd[i];
        float along = 0;
        for (int64_t j = thread * W; j < h; j += THREADS * W) {
            const lanes<W> d = load<W>(dy, i * h + j), v = load<W>(x, i * h + j),
                           g = load<W>(z, i * h + j), by = w.at<W>(j);
#pragma unroll
            for (int k = 0; k < W; k++) along += d.v[k] * by.v[k] * silu(g.v[k]) * v.v[k] * r;
        }
        along = sum_over<THREADS>(along) / (float)h;
        for (int64_t j = thread * W; j < h; j += THREADS * W) {
            const lanes<W> d = load<W>(dy, i * h + j), v = load<W>(x, i * h + j),
                           g = load<W>(z, i * h + j), by = w.at<W>(j);
            lanes<W> to_x, to_z;
#pragma unroll
            for (int k = 0; k < W; k++) {
                const float weighed = d.v[k] * by.v[k], n = r * v.v[k];
                to_x.v[k] = r * (weighed * silu(g.v[k]) - n * along);
                to_z.v[k] = weighed * n * silu_slope(g.v[k]);
            }
            store(dx, i * h + j, to_x);
            store(dz, i * h + j, to_z);
        }
    }
};

static void gated_norm_d(const kernel_call *c)
{
    const int64_t m = c->o->dim[DIM_GATED_NORM_D_M], h = c->o->dim[DIM_GATED_NORM_D_H];
    for_rows(c, m, h,
             gated_d_rows{in_of(c, IN_GATED_NORM_D_dy), in_of(c, IN_GATED_NORM_D_x),
                          in_of(c, IN_GATED_NORM_D_z), weights_of(c, IN_GATED_NORM_D_w),
                          floats_in(c, IN_GATED_NORM_D_rstd), out_of(c, OUT_GATED_NORM_D_dx),
                          out_of(c, OUT_GATED_NORM_D_dz), h});
}

static void gated_norm_w(const kernel_call *c)
{
    const int64_t m = c->o->dim[DIM_GATED_NORM_W_M], h = c->o->dim[DIM_GATED_NORM_W_H];
    const numbers dy = in_of(c, IN_GATED_NORM_W_dy), x = in_of(c, IN_GATED_NORM_W_x),
                  z = in_of(c, IN_GATED_NORM_W_z);
    const float *rstd = floats_in(c, IN_GATED_NORM_W_rstd);
    add_columns(c, m, h, c->workspace, floats_out(c, OUT_GATED_NORM_W_dw),
                [=] __device__(int64_t i, int64_t j) {
                    return get(dy, i * h + j) * get(x, i * h + j) * rstd[i] *
                           silu(get(z, i * h + j));
                });
}

extern "C" cuda_part cuda_norm(void)
{
    static const kernel rows[] = {
        {OP_NORM, "plain", NULL, NULL, NULL, NULL, norm},
        {OP_NORM_D, "plain", NULL, NULL, NULL, NULL, norm_d},
        {OP_NORM_W, "plain", sums_wide, NULL, NULL, column_bytes, norm_w},
        {OP_ROW_DOTS, "plain", NULL, NULL, NULL, NULL, row_dots},
        {OP_NORM_PART, "plain", NULL, NULL, NULL, NULL, norm_part},
        {OP_NORM_PART_D, "plain", NULL, NULL, NULL, NULL, norm_part_d},
        {OP_GATED_NORM, "plain", NULL, NULL, NULL, NULL, gated_norm},
        {OP_GATED_NORM_D, "plain", NULL, NULL, NULL, NULL, gated_norm_d},
        {OP_GATED_NORM_W, "plain", sums_wide, NULL, NULL, column_bytes, gated_norm_w},
    };
    return PART(rows);
}

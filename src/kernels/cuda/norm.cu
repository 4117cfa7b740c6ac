/* norm.cu - RMSNorm, whole rows and rows that are cut over ranks, and the gated norm.
 *
 * A warp takes a short row, a block a long one. With g = dy * w and r = rstd the gradient is
 * dx = r g - x r^3 mean(g x), since r depends on each x too. */
#include "kernels/cuda/columns.cuh"

/* 1 + w where weights are kept about zero. */
struct weights {
    numbers w; /* [H]; missing: all ones */
    bool centred;
    __device__ float at(int64_t j) const
    {
        return w.p ? get(w, j) + (centred ? 1.f : 0.f) : 1.f;
    }
};

static weights weights_of(const cuda_call *c, int i)
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
    template <int THREADS> __device__ void row(int64_t i, int thread) const
    {
        float sum = 0;
        for (int64_t j = thread; j < h; j += THREADS) {
            const float v = get(x, i * h + j);
            sum += v * v;
        }
        const float r = rsqrtf(sum_over<THREADS>(sum) / (float)h + eps);
        for (int64_t j = thread; j < h; j += THREADS)
            put(y, i * h + j, get(x, i * h + j) * r * w.at(j));
        if (rstd && thread == 0) rstd[i] = r;
    }
};

static void norm(const cuda_call *c)
{
    const int64_t m = c->o->dim[0], h = c->o->dim[1];
    for_rows(c, m, h,
             norm_rows{in_of(c, 0), out_of(c, 0), weights_of(c, 1), floats_out(c, 1), h,
                       (float)c->o->real[0]});
}

struct norm_d_rows {
    numbers dy, x; /* [M][H] */
    weights w;
    const float *rstd; /* [M] */
    numbers dx;        /* [M][H] */
    int64_t h;
    bool add;
    template <int THREADS> __device__ void row(int64_t i, int thread) const
    {
        const float r = rstd[i];
        float sum = 0;
        for (int64_t j = thread; j < h; j += THREADS)
            sum += get(dy, i * h + j) * w.at(j) * get(x, i * h + j);
        const float along = r * r * r * sum_over<THREADS>(sum) / (float)h;
        for (int64_t j = thread; j < h; j += THREADS) {
            const float d = r * get(dy, i * h + j) * w.at(j) - get(x, i * h + j) * along;
            put_or_add(dx, i * h + j, d, add);
        }
    }
};

static void norm_d(const cuda_call *c)
{
    const int64_t m = c->o->dim[0], h = c->o->dim[1];
    for_rows(c, m, h,
             norm_d_rows{in_of(c, 0), in_of(c, 1), weights_of(c, 2), floats_in(c, 3), out_of(c, 0),
                         h, (c->o->flags & ADD_TO) != 0});
}

static int64_t column_bytes(const op *o)
{
    return columns_workspace(o->dim[0], o->dim[1]);
}

static void norm_w(const cuda_call *c)
{
    const int64_t m = c->o->dim[0], h = c->o->dim[1];
    const numbers dy = in_of(c, 0), x = in_of(c, 1);
    const float *rstd = floats_in(c, 2);
    add_columns(c, m, h, c->workspace, floats_out(c, 0), [=] __device__(int64_t i, int64_t j) {
        return get(dy, i * h + j) * get(x, i * h + j) * rstd[i];
    });
}

/* ---- rows that are cut over ranks: sums[PARTS][M] come from all of them */

struct dot_rows {
    numbers a, b; /* [M][H] */
    weights w;
    float *sums; /* [M] */
    int64_t h;
    template <int THREADS> __device__ void row(int64_t i, int thread) const
    {
        float sum = 0;
        for (int64_t j = thread; j < h; j += THREADS)
            sum += get(a, i * h + j) * get(b, i * h + j) * w.at(j);
        sum = sum_over<THREADS>(sum);
        if (thread == 0) sums[i] = sum;
    }
};

static void row_dots(const cuda_call *c)
{
    const int64_t m = c->o->dim[0], h = c->o->dim[1];
    for_rows(c, m, h, dot_rows{in_of(c, 0), in_of(c, 1), weights_of(c, 2), floats_out(c, 0), h});
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

static part_means means_of(const cuda_call *c, int i)
{
    return {floats_in(c, i), c->o->dim[0], c->o->dim[1], c->o->dim[2]};
}

struct norm_part_rows {
    numbers x, y; /* [M][H] */
    weights w;
    part_means means;
    float *rstd; /* [M] */
    float eps;
    template <int THREADS> __device__ void row(int64_t i, int thread) const
    {
        const int64_t h = means.h;
        const float r = rsqrtf(means.at(i) + eps);
        for (int64_t j = thread; j < h; j += THREADS)
            put(y, i * h + j, get(x, i * h + j) * r * w.at(j));
        if (thread == 0) rstd[i] = r;
    }
};

static void norm_part(const cuda_call *c)
{
    for_rows(c, c->o->dim[0], c->o->dim[1],
             norm_part_rows{in_of(c, 0), out_of(c, 0), weights_of(c, 1), means_of(c, 2),
                            floats_out(c, 1), (float)c->o->real[0]});
}

struct norm_part_d_rows {
    numbers dy, x; /* [M][H] */
    weights w;
    const float *rstd; /* [M] */
    part_means means;
    numbers dx; /* [M][H] */
    bool add;
    template <int THREADS> __device__ void row(int64_t i, int thread) const
    {
        const int64_t h = means.h;
        const float r = rstd[i], along = means.at(i) * r * r * r;
        for (int64_t j = thread; j < h; j += THREADS) {
            const float d = r * get(dy, i * h + j) * w.at(j) - get(x, i * h + j) * along;
            put_or_add(dx, i * h + j, d, add);
        }
    }
};

static void norm_part_d(const cuda_call *c)
{
    for_rows(c, c->o->dim[0], c->o->dim[1],
             norm_part_d_rows{in_of(c, 0), in_of(c, 1), weights_of(c, 2), floats_in(c, 3),
                              means_of(c, 4), out_of(c, 0), (c->o->flags & ADD_TO) != 0});
}

/* ---- gated: y = norm(x) * w * silu(z) */

struct gated_rows {
    numbers x, z, y; /* [M][H] */
    weights w;
    float *rstd; /* [M] */
    int64_t h;
    float eps;
    template <int THREADS> __device__ void row(int64_t i, int thread) const
    {
        float sum = 0;
        for (int64_t j = thread; j < h; j += THREADS) {
            const float v = get(x, i * h + j);
            sum += v * v;
        }
        const float r = rsqrtf(sum_over<THREADS>(sum) / (float)h + eps);
        for (int64_t j = thread; j < h; j += THREADS)
            put(y, i * h + j, r * get(x, i * h + j) * w.at(j) * silu(get(z, i * h + j)));
        if (thread == 0) rstd[i] = r;
    }
};

static void gated_norm(const cuda_call *c)
{
    const int64_t m = c->o->dim[0], h = c->o->dim[1];
    for_rows(c, m, h,
             gated_rows{in_of(c, 0), in_of(c, 1), out_of(c, 0), weights_of(c, 2), floats_out(c, 1),
                        h, (float)c->o->real[0]});
}

struct gated_d_rows {
    numbers dy, x, z; /* [M][H] */
    weights w;
    const float *rstd; /* [M] */
    numbers dx, dz;    /* [M][H] */
    int64_t h;
    template <int THREADS> __device__ void row(int64_t i, int thread) const
    {
        const float r = rstd[i];
        float along = 0;
        for (int64_t j = thread; j < h; j += THREADS) {
            const int64_t e = i * h + j;
            along += get(dy, e) * w.at(j) * silu(get(z, e)) * get(x, e) * r;
        }
        along = sum_over<THREADS>(along) / (float)h;
        for (int64_t j = thread; j < h; j += THREADS) {
            const int64_t e = i * h + j;
            const float weighed = get(dy, e) * w.at(j), n = r * get(x, e), at = get(z, e);
            put(dx, e, r * (weighed * silu(at) - n * along));
            put(dz, e, weighed * n * silu_slope(at));
        }
    }
};

static void gated_norm_d(const cuda_call *c)
{
    const int64_t m = c->o->dim[0], h = c->o->dim[1];
    for_rows(c, m, h,
             gated_d_rows{in_of(c, 0), in_of(c, 1), in_of(c, 2), weights_of(c, 3), floats_in(c, 4),
                          out_of(c, 0), out_of(c, 1), h});
}

static void gated_norm_w(const cuda_call *c)
{
    const int64_t m = c->o->dim[0], h = c->o->dim[1];
    const numbers dy = in_of(c, 0), x = in_of(c, 1), z = in_of(c, 2);
    const float *rstd = floats_in(c, 3);
    add_columns(c, m, h, c->workspace, floats_out(c, 0), [=] __device__(int64_t i, int64_t j) {
        return get(dy, i * h + j) * get(x, i * h + j) * rstd[i] * silu(get(z, i * h + j));
    });
}

extern "C" cuda_part cuda_norm(void)
{
    static const cuda_row rows[] = {
        {OP_NORM, "plain", "nn", "nf", norm, NULL, NULL},
        {OP_NORM_D, "plain", "nnnf", "n", norm_d, NULL, NULL},
        {OP_NORM_W, "plain", "nnf", "f", norm_w, column_bytes, NULL},
        {OP_ROW_DOTS, "plain", "nnn", "f", row_dots, NULL, NULL},
        {OP_NORM_PART, "plain", "nnf", "nf", norm_part, NULL, NULL},
        {OP_NORM_PART_D, "plain", "nnnff", "n", norm_part_d, NULL, NULL},
        {OP_GATED_NORM, "plain", "nnn", "nf", gated_norm, NULL, NULL},
        {OP_GATED_NORM_D, "plain", "nnnnf", "nn", gated_norm_d, NULL, NULL},
        {OP_GATED_NORM_W, "plain", "nnnf", "f", gated_norm_w, column_bytes, NULL},
    };
    return PART(rows);
}

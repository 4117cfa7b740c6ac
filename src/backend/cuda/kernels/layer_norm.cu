/* layer_norm.cu - LayerNorm: a row's mean first, then the squares about it.
 *
 * With g = dy * w and n = (x - mean) rstd the gradient is dx = rstd (g - mean(g) - n mean(g n)). */
#include "backend/cuda/kernels/columns.cuh"

struct layer_rows {
    numbers x, w, b, y; /* [M][H], [H], [H] or missing, [M][H] */
    float *stats;       /* [M][2]: mean, rstd; may be missing */
    int64_t h;
    float eps, plus; /* plus: 1 where weights are kept about zero */
    template <int THREADS, int W> __device__ void row(int64_t i, int thread) const
    {
        float sum = 0, squares = 0;
        for (int64_t j = thread * W; j < h; j += THREADS * W) {
            const lanes<W> v = load<W>(x, i * h + j);
#pragma unroll
            for (int k = 0; k < W; k++) sum += v.v[k];
        }
        const float mean = sum_over<THREADS>(sum) / (float)h;
        for (int64_t j = thread * W; j < h; j += THREADS * W) {
            const lanes<W> v = load<W>(x, i * h + j);
#pragma unroll
            for (int k = 0; k < W; k++) squares += (v.v[k] - mean) * (v.v[k] - mean);
        }
        const float r = rsqrtf(sum_over<THREADS>(squares) / (float)h + eps);
        for (int64_t j = thread * W; j < h; j += THREADS * W) {
            lanes<W> v = load<W>(x, i * h + j), on = {};
            const lanes<W> by = load<W>(w, j);
            if (b.p) on = load<W>(b, j);
#pragma unroll
            for (int k = 0; k < W; k++) v.v[k] = (v.v[k] - mean) * r * (by.v[k] + plus) + on.v[k];
            store(y, i * h + j, v);
        }
        if (!stats || thread) return;
        stats[2 * i] = mean;
        stats[2 * i + 1] = r;
    }
};

static float plus_of(const op *o)
{
    return o->flags & ZERO_CENTRED ? 1.f : 0.f;
}

static void layer_norm(const kernel_call *c)
{
    const int64_t m = c->o->dim[DIM_LAYER_NORM_M], h = c->o->dim[DIM_LAYER_NORM_H];
    for_rows(c, m, h,
             layer_rows{in_of(c, IN_LAYER_NORM_x), in_of(c, IN_LAYER_NORM_w),
                        in_of(c, IN_LAYER_NORM_b), out_of(c, OUT_LAYER_NORM_y),
                        floats_out(c, OUT_LAYER_NORM_stats), h,
                        (float)c->o->real[REAL_LAYER_NORM_eps], plus_of(c->o)});
}

struct layer_d_rows {
    numbers dy, x, w;   /* [M][H], [M][H], [H] */
    const float *stats; /* [M][2] */
    numbers dx;         /* [M][H] */
    int64_t h;
    float plus;
    bool add;
    template <int THREADS, int W> __device__ void row(int64_t i, int thread) const
    {
        const float mean = stats[2 * i], r = stats[2 * i + 1];
        float by_one = 0, by_n = 0;
        for (int64_t j = thread * W; j < h; j += THREADS * W) {
            const lanes<W> d = load<W>(dy, i * h + j), v = load<W>(x, i * h + j),
                           by = load<W>(w, j);
#pragma unroll
            for (int k = 0; k < W; k++) {
                const float g = d.v[k] * (by.v[k] + plus);
                by_one += g;
                by_n += g * (v.v[k] - mean) * r;
            }
        }
        by_one = sum_over<THREADS>(by_one) / (float)h;
        by_n = sum_over<THREADS>(by_n) / (float)h;
        for (int64_t j = thread * W; j < h; j += THREADS * W) {
            lanes<W> d = load<W>(dy, i * h + j);
            const lanes<W> v = load<W>(x, i * h + j), by = load<W>(w, j);
#pragma unroll
            for (int k = 0; k < W; k++)
                d.v[k] = r * (d.v[k] * (by.v[k] + plus) - by_one - (v.v[k] - mean) * r * by_n);
            store_or_add(dx, i * h + j, d, add);
        }
    }
};

static void layer_norm_d(const kernel_call *c)
{
    const int64_t m = c->o->dim[DIM_LAYER_NORM_D_M], h = c->o->dim[DIM_LAYER_NORM_D_H];
    for_rows(c, m, h,
             layer_d_rows{in_of(c, IN_LAYER_NORM_D_dy), in_of(c, IN_LAYER_NORM_D_x),
                          in_of(c, IN_LAYER_NORM_D_w), floats_in(c, IN_LAYER_NORM_D_stats),
                          out_of(c, OUT_LAYER_NORM_D_dx), h, plus_of(c->o),
                          (c->o->flags & ACCUMULATE) != 0});
}

static int64_t column_bytes(const op *o, const op_types *)
{
    return columns_workspace(o->dim[DIM_NORM_W_M], o->dim[DIM_NORM_W_H]);
}

static void layer_norm_w(const kernel_call *c)
{
    const int64_t m = c->o->dim[DIM_LAYER_NORM_W_M], h = c->o->dim[DIM_LAYER_NORM_W_H];
    const numbers dy = in_of(c, IN_LAYER_NORM_W_dy), x = in_of(c, IN_LAYER_NORM_W_x);
    const float *stats = floats_in(c, IN_LAYER_NORM_W_stats);
    add_columns(c, m, h, c->workspace, floats_out(c, OUT_LAYER_NORM_W_dw),
                [=] __device__(int64_t i, int64_t j) {
                    return get(dy, i * h + j) * (get(x, i * h + j) - stats[2 * i]) *
                           stats[2 * i + 1];
                });
    if (!c->out[OUT_LAYER_NORM_W_db]) return;
    add_columns(c, m, h, c->workspace, floats_out(c, OUT_LAYER_NORM_W_db),
                [=] __device__(int64_t i, int64_t j) { return get(dy, i * h + j); });
}

extern "C" cuda_part cuda_layer_norm(void)
{
    static const kernel rows[] = {
        {OP_LAYER_NORM, "plain", NULL, NULL, NULL, NULL, layer_norm},
        {OP_LAYER_NORM_D, "plain", NULL, NULL, NULL, NULL, layer_norm_d},
        {OP_LAYER_NORM_W, "plain", sums_wide, NULL, NULL, column_bytes, layer_norm_w},
    };
    return PART(rows);
}

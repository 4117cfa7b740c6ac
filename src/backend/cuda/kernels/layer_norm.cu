/* layer_norm.cu - LayerNorm: a row's mean first, then the squares about it.
 *
 * With g = dy * w and n = (x - mean) rstd the gradient is dx = rstd (g - mean(g) - n mean(g n)). */
#include "backend/cuda/kernels/columns.cuh"

/* What weights that are kept about zero lack. */
static __device__ float plus_of(unsigned flags)
{
    return flags & ZERO_CENTRED ? 1.f : 0.f;
}

struct layer_rows : op_layer_norm {
    template <int THREADS, int W> __device__ void row(int64_t i, int thread) const
    {
        float sum = 0, squares = 0;
        for (int64_t j = thread * W; j < H; j += THREADS * W) {
            const lanes<W> v = load<W>(x, i * H + j);
#pragma unroll
            for (int k = 0; k < W; k++) sum += v.v[k];
        }
        const float mean = sum_over<THREADS>(sum) / (float)H;
        for (int64_t j = thread * W; j < H; j += THREADS * W) {
            const lanes<W> v = load<W>(x, i * H + j);
#pragma unroll
            for (int k = 0; k < W; k++) squares += (v.v[k] - mean) * (v.v[k] - mean);
        }
        const float r = rsqrtf(sum_over<THREADS>(squares) / (float)H + eps);
        for (int64_t j = thread * W; j < H; j += THREADS * W) {
            lanes<W> v = load<W>(x, i * H + j), on = {};
            const lanes<W> by = load<W>(w, j);
            if (b.p) on = load<W>(b, j);
#pragma unroll
            for (int k = 0; k < W; k++)
                v.v[k] = (v.v[k] - mean) * r * (by.v[k] + plus_of(flags)) + on.v[k];
            store(y, i * H + j, v);
        }
        if (!stats || thread) return;
        stats[2 * i] = mean;
        stats[2 * i + 1] = r;
    }
};

static void layer_norm(const kernel_call *c)
{
    const op_layer_norm o = op_layer_norm_of(c);
    for_rows(c, o.M, o.H, layer_rows{o});
}

struct layer_d_rows : op_layer_norm_d {
    template <int THREADS, int W> __device__ void row(int64_t i, int thread) const
    {
        const float mean = stats[2 * i], r = stats[2 * i + 1];
        float by_one = 0, by_n = 0;
        for (int64_t j = thread * W; j < H; j += THREADS * W) {
            const lanes<W> d = load<W>(dy, i * H + j), v = load<W>(x, i * H + j),
                           by = load<W>(w, j);
#pragma unroll
            for (int k = 0; k < W; k++) {
                const float g = d.v[k] * (by.v[k] + plus_of(flags));
                by_one += g;
                by_n += g * (v.v[k] - mean) * r;
            }
        }
        by_one = sum_over<THREADS>(by_one) / (float)H;
        by_n = sum_over<THREADS>(by_n) / (float)H;
        for (int64_t j = thread * W; j < H; j += THREADS * W) {
            lanes<W> d = load<W>(dy, i * H + j);
            const lanes<W> v = load<W>(x, i * H + j), by = load<W>(w, j);
#pragma unroll
            for (int k = 0; k < W; k++)
                d.v[k] =
                    r * (d.v[k] * (by.v[k] + plus_of(flags)) - by_one - (v.v[k] - mean) * r * by_n);
            store_or_add(dx, i * H + j, d, flags & ACCUMULATE);
        }
    }
};

static void layer_norm_d(const kernel_call *c)
{
    const op_layer_norm_d o = op_layer_norm_d_of(c);
    for_rows(c, o.M, o.H, layer_d_rows{o});
}

static int64_t column_bytes(const op *o, const op_types *)
{
    return columns_workspace(o->dim[DIM_LAYER_NORM_W_M], o->dim[DIM_LAYER_NORM_W_H]);
}

static void layer_norm_w(const kernel_call *c)
{
    const op_layer_norm_w o = op_layer_norm_w_of(c);
    add_columns(c, o.M, o.H, c->workspace, o.dw.floats(), [=] __device__(int64_t i, int64_t j) {
        const float mean = o.stats[2 * i], r = o.stats[2 * i + 1];
        return get(o.dy, i * o.H + j) * (get(o.x, i * o.H + j) - mean) * r;
    });
    if (o.db.p)
        add_columns(c, o.M, o.H, c->workspace, o.db.floats(),
                    [=] __device__(int64_t i, int64_t j) { return get(o.dy, i * o.H + j); });
}

extern "C" cuda_part cuda_layer_norm(void)
{
    static const kernel rows[] = {
        {.kind = OP_LAYER_NORM, .name = "plain", .launch = layer_norm},
        {.kind = OP_LAYER_NORM_D, .name = "plain", .launch = layer_norm_d},
        {.kind = OP_LAYER_NORM_W,
         .name = "plain",
         .accepts = sums_wide,
         .workspace = column_bytes,
         .launch = layer_norm_w},
    };
    return PART(rows);
}

/* norm.cu - RMSNorm, whole rows and rows that are cut over ranks, the gated norm and LayerNorm, of
 * any format and width: a warp takes a short row, a block a long one. */
#include "backend/cuda/kernels/columns.cuh"
#include "backend/cuda/kernels/norm.cuh"

/* ---- rows that are cut over ranks: sums[PARTS][M] come from all of them */

struct dot_rows : op_row_dots {
    template <class ROW> __device__ void of(const ROW &row) const
    {
        const auto of_a = row.of(a), of_b = row.of(b);
        float sum = 0;
        row.each([&](auto at) {
            const lanes<ROW::W> u = of_a(at), v = of_b(at), by = weights<ROW::W>(w, flags, at.j);
#pragma unroll
            for (int k = 0; k < ROW::W; k++) sum += u.v[k] * v.v[k] * by.v[k];
        });
        sum = row.sum(sum);
        if (row.thread == 0) sums[row.i] = sum;
    }
};

/* The mean over the whole row: PARTS sums of H elements each. */
template <class O> static __device__ float part_mean(const O &o, int64_t i)
{
    float sum = 0;
    for (int64_t p = 0; p < o.PARTS; p++) sum += o.sums[p * o.M + i];
    return sum / (float)(o.H * o.PARTS);
}

struct norm_part_rows : op_norm_part {
    template <class ROW> __device__ void of(const ROW &row) const
    {
        put_norm(*this, row, row.of(x), rsqrtf(part_mean(*this, row.i) + eps), no_gate<ROW::W>());
    }
};

struct norm_part_d_rows : op_norm_part_d {
    template <class ROW> __device__ void of(const ROW &row) const
    {
        const float r = rstd[row.i];
        put_gradient(*this, row, row.of(dy), row.of(x), r, part_mean(*this, row.i) * r * r * r);
    }
};

/* ---- LayerNorm: a row's mean first, then the squares about it
 *
 * With g = dy * w and n = (x - mean) rstd the gradient is dx = rstd (g - mean(g) - n mean(g n)). */

struct layer_rows : op_layer_norm {
    template <class ROW> __device__ void of(const ROW &row) const
    {
        const auto of_x = row.of(x);
        float sum = 0, squares = 0;
        row.each([&](auto at) {
            const lanes<ROW::W> v = of_x(at);
#pragma unroll
            for (int k = 0; k < ROW::W; k++) sum += v.v[k];
        });
        const float mean = row.sum(sum) / (float)H;
        row.each([&](auto at) {
            const lanes<ROW::W> v = of_x(at);
#pragma unroll
            for (int k = 0; k < ROW::W; k++) squares += (v.v[k] - mean) * (v.v[k] - mean);
        });
        const float r = rsqrtf(row.sum(squares) / (float)H + eps);
        row.each([&](auto at) {
            lanes<ROW::W> v = of_x(at), on = {};
            const lanes<ROW::W> by = weights<ROW::W>(w, flags, at.j);
            if (b.p) on = load<ROW::W>(b, at.j);
#pragma unroll
            for (int k = 0; k < ROW::W; k++) v.v[k] = (v.v[k] - mean) * r * by.v[k] + on.v[k];
            store(y, row.i * H + at.j, v);
        });
        if (!stats || row.thread) return;
        stats[2 * row.i] = mean;
        stats[2 * row.i + 1] = r;
    }
};

struct layer_d_rows : op_layer_norm_d {
    template <class ROW> __device__ void of(const ROW &row) const
    {
        const float mean = stats[2 * row.i], r = stats[2 * row.i + 1];
        const auto of_dy = row.of(dy), of_x = row.of(x);
        float by_one = 0, by_n = 0;
        row.each([&](auto at) {
            const lanes<ROW::W> d = of_dy(at), v = of_x(at), by = weights<ROW::W>(w, flags, at.j);
#pragma unroll
            for (int k = 0; k < ROW::W; k++) {
                const float g = d.v[k] * by.v[k];
                by_one += g;
                by_n += g * (v.v[k] - mean) * r;
            }
        });
        by_one = row.sum(by_one) / (float)H;
        by_n = row.sum(by_n) / (float)H;
        row.each([&](auto at) {
            lanes<ROW::W> d = of_dy(at);
            const lanes<ROW::W> v = of_x(at), by = weights<ROW::W>(w, flags, at.j);
#pragma unroll
            for (int k = 0; k < ROW::W; k++)
                d.v[k] = r * (d.v[k] * by.v[k] - by_one - (v.v[k] - mean) * r * by_n);
            store_or_add(dx, row.i * H + at.j, d, flags & ACCUMULATE);
        });
    }
};

/* ---- gradients by weights */

template <class T> static void columns(const kernel_call *c)
{
    T t;
    operands(c, &t);
    add_columns(c, t.M, t.H, c->workspace, t.dw.floats(),
                [=] __device__(int64_t i, int64_t j) { return t.template at<1>(i, j).v[0]; });
}

static void layer_norm_w(const kernel_call *c)
{
    const op_layer_norm_w o = op_layer_norm_w_of(c);
    columns<layer_w_terms>(c);
    if (o.db.p)
        add_columns(c, o.M, o.H, c->workspace, o.db.floats(),
                    [=] __device__(int64_t i, int64_t j) { return get(o.dy, i * o.H + j); });
}

static int64_t column_bytes(const op *o, const op_types *)
{
    return columns_workspace(o->dim[DIM_NORM_W_M], o->dim[DIM_NORM_W_H]);
}

extern "C" cuda_part cuda_norm(void)
{
    static const kernel rows[] = {
        {.kind = OP_NORM, .name = "plain", .launch = in_memory<norm_rows>},
        {.kind = OP_NORM_D, .name = "plain", .launch = in_memory<norm_d_rows>},
        {.kind = OP_ROW_DOTS, .name = "plain", .launch = in_memory<dot_rows>},
        {.kind = OP_NORM_PART, .name = "plain", .launch = in_memory<norm_part_rows>},
        {.kind = OP_NORM_PART_D, .name = "plain", .launch = in_memory<norm_part_d_rows>},
        {.kind = OP_GATED_NORM, .name = "plain", .launch = in_memory<gated_rows>},
        {.kind = OP_GATED_NORM_D, .name = "plain", .launch = in_memory<gated_d_rows>},
        {.kind = OP_LAYER_NORM, .name = "plain", .launch = in_memory<layer_rows>},
        {.kind = OP_LAYER_NORM_D, .name = "plain", .launch = in_memory<layer_d_rows>},
        {.kind = OP_NORM_W,
         .name = "plain",
         .accepts = sums_wide,
         .workspace = column_bytes,
         .launch = columns<norm_w_terms>},
        {.kind = OP_GATED_NORM_W,
         .name = "plain",
         .accepts = sums_wide,
         .workspace = column_bytes,
         .launch = columns<gated_w_terms>},
        {.kind = OP_LAYER_NORM_W,
         .name = "plain",
         .accepts = sums_wide,
         .workspace = column_bytes,
         .launch = layer_norm_w},
    };
    return PART(rows);
}

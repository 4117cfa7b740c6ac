/* fast_norm.cu - RMSNorm in BF16 with a row in registers, also of a residual sum, and gradients of
 * all norms by their weights.
 *
 * How rows are cut: registers.cuh. */
#include "backend/cuda/kernels/norm.cuh"
#include "backend/cuda/kernels/wide_columns.cuh"

/* h = a + b, rounded before it is normed, as it is stored. */
struct add_norm_rows : op_add_norm {
    template <class ROW> __device__ void of(const ROW &row) const
    {
        auto v = row.of(a);
        const auto with = row.of(b);
        row.each([&](auto at) {
            lanes<WIDE> u = v(at);
            const lanes<WIDE> other = with(at);
#pragma unroll
            for (int k = 0; k < WIDE; k++) u.v[k] += other.v[k];
            if (row.there) store(h, row.i * H + at.j, u);
            v.raw[at.chunk] = pack(u);
        });
        put_norm(*this, row, v, rstd_of(row, v, eps), no_gate<WIDE>());
    }
};

template <int N_IN, int N_OUT> static bool rows_fit(const op *o, const op_types *t)
{
    return all_bf16(o, t, N_IN, N_OUT) && o->dim[DIM_NORM_M] > 0 &&
           any_width_fits(o->dim[DIM_NORM_H]);
}

/* ---- gradients by weights */

static bool norm_w_fits(const op *o, const op_types *t)
{
    return sums_wide(o, t) && wide_columns_take(o->dim[DIM_NORM_W_M], o->dim[DIM_NORM_W_H]);
}

static int64_t norm_w_bytes(const op *o, const op_types *)
{
    return wide_columns_workspace(o->dim[DIM_NORM_W_M], o->dim[DIM_NORM_W_H]);
}

template <class T> static void columns(const kernel_call *c)
{
    T t;
    operands(c, &t);
    add_wide_columns(c, t.M, t.H, t.dw.floats(),
                     [=] __device__(int64_t i, int64_t j) { return t.template at<WIDE>(i, j); });
}

static void layer_norm_w(const kernel_call *c)
{
    const op_layer_norm_w o = op_layer_norm_w_of(c);
    columns<layer_w_terms>(c);
    if (o.db.p)
        add_wide_columns(c, o.M, o.H, o.db.floats(), [=] __device__(int64_t i, int64_t j) {
            return load<WIDE>(o.dy, i * o.H + j);
        });
}

extern "C" cuda_part cuda_fast_norm(void)
{
    static const kernel rows[] = {
        {.kind = OP_NORM,
         .name = "registers",
         .accepts = rows_fit<IN_NORM_w, OUT_NORM_rstd>,
         .launch = in_registers<norm_rows>},
        {.kind = OP_ADD_NORM,
         .name = "registers",
         .accepts = rows_fit<IN_ADD_NORM_w, OUT_ADD_NORM_rstd>,
         .launch = in_registers<add_norm_rows>},
        {.kind = OP_NORM_D,
         .name = "registers",
         .accepts = rows_fit<IN_NORM_D_w, OUT_NORM_D_dx + 1>,
         .launch = in_registers<norm_d_rows>},
        {.kind = OP_GATED_NORM,
         .name = "registers",
         .accepts = rows_fit<IN_GATED_NORM_w, OUT_GATED_NORM_rstd>,
         .launch = in_registers<gated_rows>},
        {.kind = OP_GATED_NORM_D,
         .name = "registers",
         .accepts = rows_fit<IN_GATED_NORM_D_w, OUT_GATED_NORM_D_dz + 1>,
         .launch = in_registers<gated_d_rows>},
        {.kind = OP_NORM_W,
         .name = "columns",
         .accepts = norm_w_fits,
         .workspace = norm_w_bytes,
         .launch = columns<norm_w_terms>},
        {.kind = OP_GATED_NORM_W,
         .name = "columns",
         .accepts = norm_w_fits,
         .workspace = norm_w_bytes,
         .launch = columns<gated_w_terms>},
        {.kind = OP_LAYER_NORM_W,
         .name = "columns",
         .accepts = norm_w_fits,
         .workspace = norm_w_bytes,
         .launch = layer_norm_w},
    };
    return PART(rows);
}

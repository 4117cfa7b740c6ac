/* fast_norm.cu - RMSNorm in BF16 with a row in registers, and gradients of all norms by their
 * weights.
 *
 * How rows are cut: registers.cuh. */
#include "backend/cuda/kernels/registers.cuh"
#include "backend/cuda/kernels/wide_columns.cuh"

struct row_norm {
    numbers x, y, w; /* [M][H] twice in BF16, [H] or missing */
    float *rstd;     /* [M], may be missing */
    int64_t m, h;
    float eps, plus; /* plus: 1 where weights are kept about zero */

    __device__ lanes<WIDE> weight(int j) const
    {
        lanes<WIDE> a;
        if (w.p) a = load<WIDE>(w, j);
#pragma unroll
        for (int k = 0; k < WIDE; k++) a.v[k] = w.p ? a.v[k] + plus : 1.f;
        return a;
    }

    template <int LANES, int CHUNKS> __device__ void row(int64_t i, int lane, bool there) const
    {
        const uint4 *from = (const uint4 *)((const __nv_bfloat16 *)x.p + i * h);
        uint4 raw[CHUNKS];
        float sum = 0;
#pragma unroll
        for (int c = 0; c < CHUNKS; c++)
            raw[c] = there && (c * LANES + lane) * WIDE < h ? from[c * LANES + lane]
                                                            : make_uint4(0, 0, 0, 0);
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            const lanes<WIDE> v = unpack(raw[c]);
#pragma unroll
            for (int k = 0; k < WIDE; k++) sum += v.v[k] * v.v[k];
        }
        const float r = rsqrtf(sum_row<LANES>(sum) / (float)h + eps);
        if (!there) return;
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            const int j = (c * LANES + lane) * WIDE;
            if (j >= h) break;
            lanes<WIDE> v = unpack(raw[c]);
            const lanes<WIDE> by = weight(j);
#pragma unroll
            for (int k = 0; k < WIDE; k++) v.v[k] *= r * by.v[k];
            store(y, i * h + j, v);
        }
        if (rstd && lane == 0) rstd[i] = r;
    }
};

struct row_norm_d {
    row_norm n; /* x and w */
    numbers dy, dx;
    const float *rstd; /* [M] */
    bool add;
    int64_t m, h;

    template <int LANES, int CHUNKS> __device__ void row(int64_t i, int lane, bool there) const
    {
        const uint4 *of_x = (const uint4 *)((const __nv_bfloat16 *)n.x.p + i * h);
        const uint4 *of_dy = (const uint4 *)((const __nv_bfloat16 *)dy.p + i * h);
        const uint4 none = make_uint4(0, 0, 0, 0);
        const float r = there ? rstd[i] : 0;
        uint4 raw_x[CHUNKS], raw_d[CHUNKS];
        float sum = 0;
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            const bool inside = there && (c * LANES + lane) * WIDE < h;
            raw_x[c] = inside ? of_x[c * LANES + lane] : none;
            raw_d[c] = inside ? of_dy[c * LANES + lane] : none;
        }
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            const int j = (c * LANES + lane) * WIDE;
            if (j >= h) break;
            const lanes<WIDE> v = unpack(raw_x[c]), d = unpack(raw_d[c]), by = n.weight(j);
#pragma unroll
            for (int k = 0; k < WIDE; k++) sum += d.v[k] * by.v[k] * v.v[k];
        }
        const float along = r * r * r * sum_row<LANES>(sum) / (float)h;
        if (!there) return;
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            const int j = (c * LANES + lane) * WIDE;
            if (j >= h) break;
            const lanes<WIDE> v = unpack(raw_x[c]), by = n.weight(j);
            lanes<WIDE> d = unpack(raw_d[c]);
#pragma unroll
            for (int k = 0; k < WIDE; k++) d.v[k] = r * d.v[k] * by.v[k] - v.v[k] * along;
            store_or_add(dx, i * h + j, d, add);
        }
    }
};

/* ---- y = norm(x) w silu(z) */

struct row_gated {
    row_norm n; /* x, y and w */
    numbers z;  /* [M][H] */
    float *rstd;
    int64_t m, h;

    template <int LANES, int CHUNKS> __device__ void row(int64_t i, int lane, bool there) const
    {
        const uint4 *of_x = (const uint4 *)((const __nv_bfloat16 *)n.x.p + i * h);
        const uint4 *of_z = (const uint4 *)((const __nv_bfloat16 *)z.p + i * h);
        const uint4 none = make_uint4(0, 0, 0, 0);
        uint4 raw_x[CHUNKS], raw_z[CHUNKS];
        float sum = 0;
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            const bool inside = there && (c * LANES + lane) * WIDE < h;
            raw_x[c] = inside ? of_x[c * LANES + lane] : none;
            raw_z[c] = inside ? of_z[c * LANES + lane] : none;
        }
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            const lanes<WIDE> v = unpack(raw_x[c]);
#pragma unroll
            for (int k = 0; k < WIDE; k++) sum += v.v[k] * v.v[k];
        }
        const float r = rsqrtf(sum_row<LANES>(sum) / (float)h + n.eps);
        if (!there) return;
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            const int j = (c * LANES + lane) * WIDE;
            if (j >= h) break;
            const lanes<WIDE> g = unpack(raw_z[c]), by = n.weight(j);
            lanes<WIDE> v = unpack(raw_x[c]);
#pragma unroll
            for (int k = 0; k < WIDE; k++) v.v[k] *= r * by.v[k] * silu(g.v[k]);
            store(n.y, i * h + j, v);
        }
        if (lane == 0) rstd[i] = r;
    }
};

struct row_gated_d {
    row_norm n; /* x and w */
    numbers dy, z, dx, dz;
    const float *rstd; /* [M] */
    int64_t m, h;

    template <int LANES, int CHUNKS> __device__ void row(int64_t i, int lane, bool there) const
    {
        const uint4 *of_x = (const uint4 *)((const __nv_bfloat16 *)n.x.p + i * h);
        const uint4 *of_z = (const uint4 *)((const __nv_bfloat16 *)z.p + i * h);
        const uint4 *of_dy = (const uint4 *)((const __nv_bfloat16 *)dy.p + i * h);
        const uint4 none = make_uint4(0, 0, 0, 0);
        const float r = there ? rstd[i] : 0;
        uint4 raw_x[CHUNKS], raw_z[CHUNKS], raw_d[CHUNKS];
        float sum = 0;
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            const bool inside = there && (c * LANES + lane) * WIDE < h;
            raw_x[c] = inside ? of_x[c * LANES + lane] : none;
            raw_z[c] = inside ? of_z[c * LANES + lane] : none;
            raw_d[c] = inside ? of_dy[c * LANES + lane] : none;
        }
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            const int j = (c * LANES + lane) * WIDE;
            if (j >= h) break;
            const lanes<WIDE> v = unpack(raw_x[c]), g = unpack(raw_z[c]), d = unpack(raw_d[c]),
                              by = n.weight(j);
#pragma unroll
            for (int k = 0; k < WIDE; k++) sum += d.v[k] * by.v[k] * silu(g.v[k]) * v.v[k] * r;
        }
        const float along = sum_row<LANES>(sum) / (float)h;
        if (!there) return;
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            const int j = (c * LANES + lane) * WIDE;
            if (j >= h) break;
            const lanes<WIDE> v = unpack(raw_x[c]), g = unpack(raw_z[c]), d = unpack(raw_d[c]),
                              by = n.weight(j);
            lanes<WIDE> to_x, to_z;
#pragma unroll
            for (int k = 0; k < WIDE; k++) {
                const float weighed = d.v[k] * by.v[k], own = r * v.v[k];
                to_x.v[k] = r * (weighed * silu(g.v[k]) - own * along);
                to_z.v[k] = weighed * own * silu_slope(g.v[k]);
            }
            store(dx, i * h + j, to_x);
            store(dz, i * h + j, to_z);
        }
    }
};

/* ---- which rows */

/* What weights that are kept about zero lack. */
static float plus_of(unsigned flags)
{
    return flags & ZERO_CENTRED ? 1.f : 0.f;
}

static bool norm_fits(const op *o, const op_types *t)
{
    return cuda_types_fit(o, t) && t->in[IN_NORM_x] == DTYPE_BF16 &&
           t->out[OUT_NORM_y] == DTYPE_BF16 && o->dim[DIM_NORM_M] > 0 &&
           any_width_fits(o->dim[DIM_NORM_H]);
}

static void norm(const kernel_call *c)
{
    const op_norm o = op_norm_of(c);
    run_width(c, o.H, row_norm{o.x, o.y, o.w, o.rstd, o.M, o.H, o.eps, plus_of(o.flags)});
}

static bool norm_d_fits(const op *o, const op_types *t)
{
    return cuda_types_fit(o, t) && t->in[IN_NORM_D_dy] == DTYPE_BF16 &&
           t->in[IN_NORM_D_x] == DTYPE_BF16 && t->out[OUT_NORM_D_dx] == DTYPE_BF16 &&
           o->dim[DIM_NORM_D_M] > 0 && any_width_fits(o->dim[DIM_NORM_D_H]);
}

static void norm_d(const kernel_call *c)
{
    const op_norm_d o = op_norm_d_of(c);
    const row_norm n = {o.x, {}, o.w, NULL, o.M, o.H, 0, plus_of(o.flags)};
    run_width(c, o.H, row_norm_d{n, o.dy, o.dx, o.rstd, (o.flags & ACCUMULATE) != 0, o.M, o.H});
}

static bool gated_fits(const op *o, const op_types *t)
{
    return cuda_types_fit(o, t) && t->in[IN_GATED_NORM_x] == DTYPE_BF16 &&
           t->in[IN_GATED_NORM_z] == DTYPE_BF16 && t->out[OUT_GATED_NORM_y] == DTYPE_BF16 &&
           o->dim[DIM_GATED_NORM_M] > 0 && any_width_fits(o->dim[DIM_GATED_NORM_H]);
}

static void gated_norm(const kernel_call *c)
{
    const op_gated_norm o = op_gated_norm_of(c);
    const row_norm n = {o.x, o.y, o.w, NULL, o.M, o.H, o.eps, plus_of(o.flags)};
    run_width(c, o.H, row_gated{n, o.z, o.rstd, o.M, o.H});
}

static bool gated_d_fits(const op *o, const op_types *t)
{
    return cuda_types_fit(o, t) && t->in[IN_GATED_NORM_D_dy] == DTYPE_BF16 &&
           t->in[IN_GATED_NORM_D_x] == DTYPE_BF16 && t->in[IN_GATED_NORM_D_z] == DTYPE_BF16 &&
           t->out[OUT_GATED_NORM_D_dx] == DTYPE_BF16 && t->out[OUT_GATED_NORM_D_dz] == DTYPE_BF16 &&
           o->dim[DIM_GATED_NORM_D_M] > 0 && any_width_fits(o->dim[DIM_GATED_NORM_D_H]);
}

static void gated_norm_d(const kernel_call *c)
{
    const op_gated_norm_d o = op_gated_norm_d_of(c);
    const row_norm n = {o.x, {}, o.w, NULL, o.M, o.H, 0, plus_of(o.flags)};
    run_width(c, o.H, row_gated_d{n, o.dy, o.z, o.dx, o.dz, o.rstd, o.M, o.H});
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

static void norm_w(const kernel_call *c)
{
    const op_norm_w o = op_norm_w_of(c);
    add_wide_columns(c, o.M, o.H, o.dw.floats(), [=] __device__(int64_t i, int64_t j) {
        lanes<WIDE> d = load<WIDE>(o.dy, i * o.H + j);
        const lanes<WIDE> v = load<WIDE>(o.x, i * o.H + j);
        const float r = o.rstd[i];
#pragma unroll
        for (int k = 0; k < WIDE; k++) d.v[k] *= v.v[k] * r;
        return d;
    });
}

static void gated_norm_w(const kernel_call *c)
{
    const op_gated_norm_w o = op_gated_norm_w_of(c);
    add_wide_columns(c, o.M, o.H, o.dw.floats(), [=] __device__(int64_t i, int64_t j) {
        const int64_t at = i * o.H + j;
        lanes<WIDE> d = load<WIDE>(o.dy, at);
        const lanes<WIDE> v = load<WIDE>(o.x, at), g = load<WIDE>(o.z, at);
        const float r = o.rstd[i];
#pragma unroll
        for (int k = 0; k < WIDE; k++) d.v[k] *= v.v[k] * r * silu(g.v[k]);
        return d;
    });
}

static void layer_norm_w(const kernel_call *c)
{
    const op_layer_norm_w o = op_layer_norm_w_of(c);
    add_wide_columns(c, o.M, o.H, o.dw.floats(), [=] __device__(int64_t i, int64_t j) {
        lanes<WIDE> d = load<WIDE>(o.dy, i * o.H + j);
        const lanes<WIDE> v = load<WIDE>(o.x, i * o.H + j);
        const float mean = o.stats[2 * i], r = o.stats[2 * i + 1];
#pragma unroll
        for (int k = 0; k < WIDE; k++) d.v[k] *= (v.v[k] - mean) * r;
        return d;
    });
    if (o.db.p)
        add_wide_columns(c, o.M, o.H, o.db.floats(), [=] __device__(int64_t i, int64_t j) {
            return load<WIDE>(o.dy, i * o.H + j);
        });
}

extern "C" cuda_part cuda_fast_norm(void)
{
    static const kernel rows[] = {
        {.kind = OP_NORM, .name = "registers", .accepts = norm_fits, .launch = norm},
        {.kind = OP_NORM_D, .name = "registers", .accepts = norm_d_fits, .launch = norm_d},
        {.kind = OP_NORM_W,
         .name = "columns",
         .accepts = norm_w_fits,
         .workspace = norm_w_bytes,
         .launch = norm_w},
        {.kind = OP_GATED_NORM, .name = "registers", .accepts = gated_fits, .launch = gated_norm},
        {.kind = OP_GATED_NORM_D,
         .name = "registers",
         .accepts = gated_d_fits,
         .launch = gated_norm_d},
        {.kind = OP_GATED_NORM_W,
         .name = "columns",
         .accepts = norm_w_fits,
         .workspace = norm_w_bytes,
         .launch = gated_norm_w},
        {.kind = OP_LAYER_NORM_W,
         .name = "columns",
         .accepts = norm_w_fits,
         .workspace = norm_w_bytes,
         .launch = layer_norm_w},
    };
    return PART(rows);
}

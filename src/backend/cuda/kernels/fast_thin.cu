/* fast_thin.cu - GEMMs with one column (the gate of a shared expert) and gradients of biases:
 * memory binds them, and cuBLASLt takes no such rows. */
#include "backend/cuda/kernels/wide_columns.cuh"

/* y[i] = x[i] w */
struct dots : op_gemm {
    template <int THREADS, int W> __device__ void row(int64_t i, int thread) const
    {
        float sum = 0;
        for (int64_t j = thread * W; j < K; j += THREADS * W) {
            const lanes<W> v = load<W>(x, i * K + j), by = load<W>(w, j);
#pragma unroll
            for (int n = 0; n < W; n++) sum += v.v[n] * by.v[n];
        }
        sum = sum_over<THREADS>(sum);
        if (thread == 0) put_or_add(y, i, sum, flags & ACCUMULATE);
    }
};

/* dx[i] = dy[i] w */
struct spread : op_gemm_d {
    template <int THREADS, int W> __device__ void row(int64_t i, int thread) const
    {
        const float d = get(dy, i);
        for (int64_t j = thread * W; j < K; j += THREADS * W) {
            lanes<W> v = load<W>(w, j);
#pragma unroll
            for (int n = 0; n < W; n++) v.v[n] *= d;
            store_or_add(dx, i * K + j, v, flags & ACCUMULATE);
        }
    }
};

static bool one_column(const op *o, const op_types *t)
{
    return cuda_types_fit(o, t) && o->dim[DIM_GEMM_N] == 1 && t->in[0] == t->in[1] &&
           wide_columns_take(o->dim[DIM_GEMM_M], o->dim[DIM_GEMM_K]);
}

static void one_column_y(const kernel_call *c)
{
    const op_gemm o = op_gemm_of(c);
    for_rows(c, o.M, o.K, dots{o});
}

static void one_column_d(const kernel_call *c)
{
    const op_gemm_d o = op_gemm_d_of(c);
    for_rows(c, o.M, o.K, spread{o});
}

static int64_t one_column_bytes(const op *o, const op_types *)
{
    return wide_columns_workspace(o->dim[DIM_GEMM_W_M], o->dim[DIM_GEMM_W_K]);
}

/* The planner gives GEMMs the room that cuBLASLt may want. */
static bool one_column_w_fits(const op *o, const op_types *t)
{
    return one_column(o, t) && t->out[OUT_GEMM_W_dw] == DTYPE_F32 &&
           one_column_bytes(o, t) <= 32 << 20;
}

static void one_column_w(const kernel_call *c)
{
    const op_gemm_w o = op_gemm_w_of(c);
    clear_first(c, o.K);
    add_wide_columns(c, o.M, o.K, o.dw.floats(), [=] __device__(int64_t i, int64_t j) {
        lanes<WIDE> v = load<WIDE>(o.x, i * o.K + j);
        const float d = get(o.dy, i);
#pragma unroll
        for (int n = 0; n < WIDE; n++) v.v[n] *= d;
        return v;
    });
}

static bool bias_w_fits(const op *o, const op_types *t)
{
    return sums_wide(o, t) && wide_columns_take(o->dim[DIM_BIAS_W_M], o->dim[DIM_BIAS_W_N]);
}

static int64_t bias_w_bytes(const op *o, const op_types *)
{
    return wide_columns_workspace(o->dim[DIM_BIAS_W_M], o->dim[DIM_BIAS_W_N]);
}

static void bias_w(const kernel_call *c)
{
    const op_bias_w o = op_bias_w_of(c);
    add_wide_columns(c, o.M, o.N, o.db.floats(), [=] __device__(int64_t i, int64_t j) {
        return load<WIDE>(o.dy, i * o.N + j);
    });
}

extern "C" cuda_part cuda_fast_thin(void)
{
    static const kernel rows[] = {
        {.kind = OP_GEMM, .name = "one column", .accepts = one_column, .launch = one_column_y},
        {.kind = OP_GEMM_D, .name = "one column", .accepts = one_column, .launch = one_column_d},
        {.kind = OP_GEMM_W,
         .name = "one column",
         .accepts = one_column_w_fits,
         .workspace = one_column_bytes,
         .launch = one_column_w},
        {.kind = OP_BIAS_W,
         .name = "columns",
         .accepts = bias_w_fits,
         .workspace = bias_w_bytes,
         .launch = bias_w},
    };
    return PART(rows);
}

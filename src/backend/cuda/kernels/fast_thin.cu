/* fast_thin.cu - GEMMs with one column (the gate of a shared expert) and gradients of biases:
 * memory binds them, and cuBLASLt takes no such rows. */
#include "backend/cuda/kernels/wide_columns.cuh"

static_assert((int)DIM_GEMM_D_N == DIM_GEMM_N && (int)DIM_GEMM_W_N == DIM_GEMM_N &&
              (int)DIM_GEMM_D_K == DIM_GEMM_K && (int)DIM_GEMM_W_K == DIM_GEMM_K &&
              (int)DIM_GEMM_D_M == DIM_GEMM_M && (int)DIM_GEMM_W_M == DIM_GEMM_M);

/* y[i] = x[i] w */
struct dots {
    numbers x, w, y; /* [M][K], [K], [M] */
    int64_t k;
    bool add;
    template <int THREADS, int W> __device__ void row(int64_t i, int thread) const
    {
        float sum = 0;
        for (int64_t j = thread * W; j < k; j += THREADS * W) {
            const lanes<W> v = load<W>(x, i * k + j), by = load<W>(w, j);
#pragma unroll
            for (int n = 0; n < W; n++) sum += v.v[n] * by.v[n];
        }
        sum = sum_over<THREADS>(sum);
        if (thread == 0) put_or_add(y, i, sum, add);
    }
};

/* dx[i] = dy[i] w */
struct spread {
    numbers dy, w, dx; /* [M], [K], [M][K] */
    int64_t k;
    bool add;
    template <int THREADS, int W> __device__ void row(int64_t i, int thread) const
    {
        const float d = get(dy, i);
        for (int64_t j = thread * W; j < k; j += THREADS * W) {
            lanes<W> v = load<W>(w, j);
#pragma unroll
            for (int n = 0; n < W; n++) v.v[n] *= d;
            store_or_add(dx, i * k + j, v, add);
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
    const int64_t k = c->o->dim[DIM_GEMM_K];
    for_rows(c, c->o->dim[DIM_GEMM_M], k,
             dots{in_of(c, IN_GEMM_x), in_of(c, IN_GEMM_w), out_of(c, OUT_GEMM_y), k,
                  (c->o->flags & ACCUMULATE) != 0});
}

static void one_column_d(const kernel_call *c)
{
    const int64_t k = c->o->dim[DIM_GEMM_D_K];
    for_rows(c, c->o->dim[DIM_GEMM_D_M], k,
             spread{in_of(c, IN_GEMM_D_dy), in_of(c, IN_GEMM_D_w), out_of(c, OUT_GEMM_D_dx), k,
                    (c->o->flags & ACCUMULATE) != 0});
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
    const int64_t k = c->o->dim[DIM_GEMM_W_K];
    const numbers dy = in_of(c, IN_GEMM_W_dy), x = in_of(c, IN_GEMM_W_x);
    clear_first(c, k);
    add_wide_columns(c, c->o->dim[DIM_GEMM_W_M], k, floats_out(c, OUT_GEMM_W_dw),
                     [=] __device__(int64_t i, int64_t j) {
                         lanes<WIDE> v = load<WIDE>(x, i * k + j);
                         const float d = get(dy, i);
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
    const int64_t n = c->o->dim[DIM_BIAS_W_N];
    const numbers dy = in_of(c, IN_BIAS_W_dy);
    add_wide_columns(c, c->o->dim[DIM_BIAS_W_M], n, floats_out(c, OUT_BIAS_W_db),
                     [=] __device__(int64_t i, int64_t j) { return load<WIDE>(dy, i * n + j); });
}

extern "C" cuda_part cuda_fast_thin(void)
{
    static const kernel rows[] = {
        {OP_GEMM, "one column", one_column, NULL, NULL, NULL, one_column_y},
        {OP_GEMM_D, "one column", one_column, NULL, NULL, NULL, one_column_d},
        {OP_GEMM_W, "one column", one_column_w_fits, NULL, NULL, one_column_bytes, one_column_w},
        {OP_BIAS_W, "columns", bias_w_fits, NULL, NULL, bias_w_bytes, bias_w},
    };
    return PART(rows);
}

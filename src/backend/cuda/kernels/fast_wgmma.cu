/* fast_wgmma.cu - dense GEMMs by the kernel of the experts' (grouped_gemm.cuh), as one
 * expert. */
#include "backend/cuda/kernels/fast_wgmma.cuh"

static status ready(cudaError_t e, const op *o, error *err)
{
    if (e == cudaSuccess) return OK;
    return error_set(err, ERR_MACHINE, "%s: this GPU cannot run our GEMM: %s",
                     o->name ? o->name : op_infos[o->kind].name, cudaGetErrorString(e));
}

/* Rows of the first operand, then m, n and k as grouped_gemm.cuh has them. */
static grouped_call call_of(const kernel_call *c, int64_t m, int64_t n, int64_t k)
{
    return {c->in[0],
            c->in[1],
            {NULL, c->out[0], 1, (int)c->o->dim[DIM_GEMM_M], (int)m, (int)n, (int)k}};
}

template <int KIND, int OUT>
static status prepare(const op *o, const op_types *, void **, error *err)
{
    return ready(grouped_prepare<KIND, OUT>(), o, err);
}

template <int KIND, int OUT> static void launch(const kernel_call *c)
{
    const int64_t n = c->o->dim[DIM_GEMM_N], k = c->o->dim[DIM_GEMM_K];
    const grouped_call q = KIND == GEMM_FORWARD ? call_of(c, 0, n, k)
                           : KIND == GEMM_DATA  ? call_of(c, 0, k, n)
                                                : call_of(c, n, k, 0);
    if (grouped_launch<KIND, OUT>(q, stream_of(c)) != cudaSuccess) launch_failed(c);
}

static status prepare_w(const op *o, const op_types *t, void **state, error *err)
{
    return o->flags & OVERWRITE ? prepare<GEMM_WEIGHT, OUT_FP32>(o, t, state, err)
                                : prepare<GEMM_WEIGHT, OUT_FP32_ADD>(o, t, state, err);
}

static void launch_w(const kernel_call *c)
{
    if (c->o->flags & OVERWRITE)
        launch<GEMM_WEIGHT, OUT_FP32>(c);
    else
        launch<GEMM_WEIGHT, OUT_FP32_ADD>(c);
}

extern "C" cuda_part cuda_fast_wgmma(void)
{
    static const kernel rows[] = {
        {OP_GEMM, "wgmma", wgmma_takes, prepare<GEMM_FORWARD, OUT_BF16>, NULL, NULL,
         launch<GEMM_FORWARD, OUT_BF16>},
        {OP_GEMM_D, "wgmma", wgmma_takes, prepare<GEMM_DATA, OUT_BF16>, NULL, NULL,
         launch<GEMM_DATA, OUT_BF16>},
        {OP_GEMM_W, "wgmma", wgmma_takes, prepare_w, NULL, NULL, launch_w},
    };
    return PART(rows);
}

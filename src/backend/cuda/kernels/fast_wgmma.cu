/* fast_wgmma.cu - dense GEMMs by the kernel of the experts' (grouped_gemm.cuh), as one
 * expert. */
#include "backend/cuda/kernels/fast_wgmma.cuh"

static status ready(cudaError_t e, const op *o, error *err)
{
    if (e == cudaSuccess) return OK;
    return error_set(err, ERR_MACHINE, "%s: this GPU cannot run our GEMM: %s",
                     o->name ? o->name : op_infos[o->kind].name, cudaGetErrorString(e));
}

template <int KIND, int OUT>
static status prepare(const op *o, const op_types *, void **, error *err)
{
    return ready(grouped_prepare<KIND, OUT>(), o, err);
}

template <int KIND, int OUT> static void launch(const kernel_call *c)
{
    const op_gemm o = op_gemm_of(c); /* its gradients' operands stand alike */
    const int m = (int)o.M, n = (int)o.N, k = (int)o.K;
    const gemm_args g = KIND == GEMM_FORWARD ? gemm_args{NULL, o.y.p, 1, m, 0, n, k}
                        : KIND == GEMM_DATA  ? gemm_args{NULL, o.y.p, 1, m, 0, k, n}
                                             : gemm_args{NULL, o.y.p, 1, m, n, k, 0};
    if (grouped_launch<KIND, OUT>({o.x.p, o.w.p, g}, stream_of(c)) != cudaSuccess) launch_failed(c);
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
        {.kind = OP_GEMM,
         .name = "wgmma",
         .accepts = wgmma_takes,
         .prepare = prepare<GEMM_FORWARD, OUT_BF16>,
         .launch = launch<GEMM_FORWARD, OUT_BF16>},
        {.kind = OP_GEMM_D,
         .name = "wgmma",
         .accepts = wgmma_takes,
         .prepare = prepare<GEMM_DATA, OUT_BF16>,
         .launch = launch<GEMM_DATA, OUT_BF16>},
        {.kind = OP_GEMM_W,
         .name = "wgmma",
         .accepts = wgmma_takes,
         .prepare = prepare_w,
         .launch = launch_w},
    };
    return PART(rows);
}

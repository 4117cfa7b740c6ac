/* fast_wgmma.cu - dense GEMMs by the kernel of the experts' (grouped_gemm.cuh), as one
 * expert. */
#include "backend/cuda/kernels/fast_wgmma.cuh"

template <int KIND> static status prepare(const op *o, const op_types *, void **, error *err)
{
    return gpu_can("run our GEMM", gemm_prepare<KIND>(o->flags & OVERWRITE), o, err);
}

template <int KIND> static void launch(const kernel_call *c)
{
    const op_gemm o = op_gemm_of(c); /* its gradients' operands stand alike */
    const gemm_args g = gemm_args_of<KIND>(NULL, o.y.p, 1, o.M, o.N, o.K);
    if (gemm_launch<KIND>({o.x.p, o.w.p, g}, c->o->flags & OVERWRITE, stream_of(c)) != cudaSuccess)
        launch_failed(c);
}

extern "C" cuda_part cuda_fast_wgmma(void)
{
    static const kernel rows[] = {
        {.kind = OP_GEMM,
         .name = "wgmma",
         .accepts = wgmma_takes,
         .prepare = prepare<GEMM_FORWARD>,
         .launch = launch<GEMM_FORWARD>},
        {.kind = OP_GEMM_D,
         .name = "wgmma",
         .accepts = wgmma_takes,
         .prepare = prepare<GEMM_DATA>,
         .launch = launch<GEMM_DATA>},
        {.kind = OP_GEMM_W,
         .name = "wgmma",
         .accepts = wgmma_takes,
         .prepare = prepare<GEMM_WEIGHT>,
         .launch = launch<GEMM_WEIGHT>},
    };
    return PART(rows);
}

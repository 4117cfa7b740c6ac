/* fast_fp8_weight.cu - weight gradients of 8-bit operands by wgmma, all experts in one launch,
 * added to FP32 or written: rows for grouped_fp8.cuh.
 *
 * Each element is added once, so sums have a fixed order. */
#include "backend/cuda/kernels/fast_fp8.cuh"

template <int OUT> struct gradients {
    typedef fp8_kernel<GEMM_WEIGHT_FP8, OUT, SCALE_ROWS, false> by_blocks;
    typedef fp8_kernel<GEMM_WEIGHT_FP8, OUT, SCALE_NONE, false> by_tensor;
    typedef fp8_kernel<GEMM_WEIGHT_FP8, OUT, SCALE_NONE, true> by_wide_tensor;
    static cudaError_t prepare(const quant_pair &p)
    {
        if (p.a.form == QUANT_BLOCK) return by_blocks::prepare();
        return p.at == DTYPE_E5M2 ? by_wide_tensor::prepare() : by_tensor::prepare();
    }
    static cudaError_t launch(const quant_gemm &p, cudaStream_t stream)
    {
        if (p.a.z.form == QUANT_BLOCK) return by_blocks::launch(p, stream);
        return p.a.type == DTYPE_E5M2 ? by_wide_tensor::launch(p, stream)
                                      : by_tensor::launch(p, stream);
    }
};

static status prepare(const op *o, const op_types *, void **, error *err)
{
    const quant_pair p = quant_pair_of(o);
    return gpu_can("run our FP8 GEMM",
                   o->flags & OVERWRITE ? gradients<OUT_FP32>::prepare(p)
                                        : gradients<OUT_FP32_ADD>::prepare(p),
                   o, err);
}

static void launch(const kernel_call *c)
{
    const quant_gemm p = quant_gemm_of(c);
    const cudaError_t e = p.add ? gradients<OUT_FP32_ADD>::launch(p, stream_of(c))
                                : gradients<OUT_FP32>::launch(p, stream_of(c));
    if (e != cudaSuccess) launch_failed(c);
}

extern "C" cuda_part cuda_fast_fp8_weight(void)
{
    static const kernel wgmma = {
        .name = "wgmma", .accepts = fp8_takes, .prepare = prepare, .launch = launch};
    static const kernel rows[] = {row_of(OP_QGEMM_W, wgmma), row_of(OP_QGROUPED_W, wgmma)};
    return PART(rows);
}

/* fast_fp8.cu - forward GEMMs and data gradients of 8-bit operands by wgmma: rows for
 * grouped_fp8.cuh. */
#include "backend/cuda/kernels/fast_fp8.cuh"
#include "backend/cuda/kernels/grouped_tail.cuh"

typedef fp8_kernel<GEMM_FORWARD, OUT_BF16, SCALE_SQUARES, false> by_blocks;
typedef fp8_kernel<GEMM_FORWARD, OUT_BF16, SCALE_NONE, false> by_tensor;
typedef fp8_kernel<GEMM_FORWARD, OUT_BF16, SCALE_NONE, true> by_wide_tensor;

static status prepare(const op *o, const op_types *, void **, error *err)
{
    const quant_pair p = quant_pair_of(o);
    return gpu_can("run our FP8 GEMM",
                   p.a.form == QUANT_BLOCK ? by_blocks::prepare()
                   : p.at == DTYPE_E5M2    ? by_wide_tensor::prepare()
                                           : by_tensor::prepare(),
                   o, err);
}

static void launch(const kernel_call *c)
{
    const quant_gemm p = quant_gemm_of(c);
    const cudaStream_t stream = stream_of(c);
    const cudaError_t e = p.a.z.form == QUANT_BLOCK ? by_blocks::launch(p, stream)
                          : p.a.type == DTYPE_E5M2  ? by_wide_tensor::launch(p, stream)
                                                    : by_tensor::launch(p, stream);
    if (e != cudaSuccess) {
        launch_failed(c);
        return;
    }
    if (p.offsets) clear_tail(c, p.y.p, p.offsets + p.n_experts, p.rows, p.cols);
}

extern "C" cuda_part cuda_fast_fp8(void)
{
    static const kernel wgmma = {
        .name = "wgmma", .accepts = fp8_takes, .prepare = prepare, .launch = launch};
    static const kernel rows[] = {row_of(OP_QGEMM, wgmma), row_of(OP_QGEMM_D, wgmma),
                                  row_of(OP_QGROUPED, wgmma), row_of(OP_QGROUPED_D, wgmma)};
    return PART(rows);
}

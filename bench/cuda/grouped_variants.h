/* grouped_variants.h - the ways in which grouped_gemm.cu runs the kernel; cuBLAS beside them. */
#ifndef BENCH_CUDA_GROUPED_VARIANTS_H
#define BENCH_CUDA_GROUPED_VARIANTS_H

#define VARIANT(cluster, stages)                                                                   \
    {                                                                                              \
        ours<GEMM_FORWARD, OUT_BF16, cluster, stages>, ours<GEMM_DATA, OUT_BF16, cluster, stages>, \
            ours<GEMM_WEIGHT, OUT_BF16, cluster, stages>                                           \
    }

static const variant variants[] = {
    {"pair", OUT_BF16, VARIANT(2, 4)},
    {"single", OUT_BF16, VARIANT(1, 4)},
    {"FP32 sum", OUT_FP32_ADD, {NULL, NULL, ours<GEMM_WEIGHT, OUT_FP32_ADD, 2, 4>}},
    {"cuBLAS loop", OUT_BF16, {cublas_loop, cublas_loop, cublas_loop}},
};

#endif

/* fast_fp8.cuh - from a quantised GEMM to a launch of grouped_fp8.cuh: which it takes, sizes,
 * places of scales. A dense GEMM is one expert without offsets. */
#ifndef BACKEND_CUDA_KERNELS_FAST_FP8_CUH
#define BACKEND_CUDA_KERNELS_FAST_FP8_CUH

#include "backend/cuda/kernels/grouped_fp8.cuh"
#include "backend/cuda/kernels/grouped_launch.cuh"
#include "backend/cuda/kernels/quant.cuh"

/* What the copy engine can describe: rows of multiples of 16 bytes. */
static inline bool fp8_takes(const op *o, const op_types *t)
{
    if (!cuda_types_fit(o, t)) return false;
    const quant_pair p = quant_pair_of(o);
    const bool form = (p.a.form == QUANT_BLOCK && p.at == DTYPE_E4M3) ||
                      (p.a.form == QUANT_TENSOR && (p.at == DTYPE_E4M3 || p.at == DTYPE_E5M2));
    const bool result = p.weight_gradient ? t->out[0] == DTYPE_F32
                                          : t->out[0] == DTYPE_BF16 && !(o->flags & ACCUMULATE);
    return form && result && p.bt == DTYPE_E4M3 && p.a.cols > 0 && p.a.cols % 16 == 0 &&
           p.a.rows > 0 && p.b.rows > 0 && p.b.rows % 8 == 0 && p.parts <= MAX_EXPERTS &&
           p.a.rows <= INT32_MAX && p.b.rows <= INT32_MAX && p.a.cols <= INT32_MAX &&
           quant_scales(p.a) <= INT32_MAX && p.parts * quant_scales(p.b) <= INT32_MAX;
}

static inline gemm_args fp8_args(const quant_gemm &p)
{
    const int64_t summed = p.a.z.cols;
    gemm_args g = {p.offsets,
                   p.y.p,
                   (int)p.n_experts,
                   (int)(p.weights ? summed : p.rows),
                   (int)(p.weights ? p.rows : 0),
                   (int)p.cols,
                   (int)(p.weights ? 0 : summed / 2)};
    if (p.weights) {
        g.b_scales = (const float *)p.b.s;
        g.b_stride = (int)quant_up4(p.cols);
    }
    return g;
}

static inline fp8_scales fp8_scales_of(const quant_gemm &p)
{
    const int64_t blocks = quant_blocks(p.a.z.cols, 128);
    return {(const float *)p.a.s,
            p.weights ? NULL : (const float *)p.b.s,
            (int)quant_up4(p.a.z.rows),
            p.weights ? 0 : (int)quant_up4(blocks),
            (int)p.a.z.rows - 1,
            (int)blocks,
            p.a.g,
            p.b.g};
}

template <int KIND, int OUT, int SCALE, bool WIDE_A> struct fp8_kernel {
    enum { CLUSTER = 2, STAGES = 4 };
    static int *kept(void)
    {
        static int n_clusters;
        return &n_clusters;
    }
    /* Once before the first launch: none may be made in the middle of a capture. */
    static cudaError_t prepare(void)
    {
        if (!tensor_map_encoder()) return cudaErrorNotSupported;
        return launch_clusters<CLUSTER>(grouped_fp8<KIND, OUT, SCALE, WIDE_A, CLUSTER, STAGES>,
                                        kept(), (int)sizeof(gemm_shared<STAGES>), 0);
    }
    static cudaError_t launch(const quant_gemm &p, cudaStream_t stream)
    {
        CUtensorMap map[3];
        const gemm_args g = fp8_args(p);
        if (!make_maps<KIND, CLUSTER>({p.a.q, p.b.q, g}, map)) return cudaErrorInvalidValue;
        return launch_clusters<CLUSTER>(grouped_fp8<KIND, OUT, SCALE, WIDE_A, CLUSTER, STAGES>,
                                        kept(), (int)sizeof(gemm_shared<STAGES>), stream, map[0],
                                        map[1], map[2], g, fp8_scales_of(p));
    }
};

#endif

/* quant.cuh - the operands of a quantised GEMM as kernels take them. */
#ifndef BACKEND_CUDA_KERNELS_QUANT_CUH
#define BACKEND_CUDA_KERNELS_QUANT_CUH

#include "backend/cuda/kernels/device.cuh"
#include "op/quant.h"

/* One matrix, contiguous along columns; `codes` and `scales`: bytes to the next expert's. */
struct quant_side {
    const uint8_t *q;
    const void *s;  /* or none */
    const float *g; /* or none */
    quant_shape z;
    dtype type;
    int64_t codes, scales;
};

/* y[rows][cols] = or += a b^T, of each expert. */
struct quant_gemm {
    quant_side a, b;
    const int32_t *offsets; /* [E+1] or none */
    int64_t n_experts, parts_out, rows, cols;
    numbers y;
    bool weights, add;
    __device__ quant_side side_a(int64_t e) const
    {
        quant_side s = a;
        if (s.g) s.g += e;
        return s;
    }
    __device__ quant_side side_b(int64_t e) const
    {
        quant_side s = b;
        if (s.g) s.g += e;
        if (weights) return s;
        s.q += e * s.codes;
        if (s.s) s.s = (const uint8_t *)s.s + e * s.scales;
        return s;
    }
};

static inline quant_side quant_side_of(numbers q, numbers s, const float *g, quant_shape z,
                                       dtype type)
{
    quant_side v = {(const uint8_t *)q.p, s.p, g, z, type};
    v.codes = quant_code_bytes(type, z.rows * quant_row(type, z.cols));
    v.scales = quant_scales(z) * (z.form == QUANT_BLOCK ? 4 : 1);
    return v;
}

static inline quant_gemm quant_gemm_of(const kernel_call *c)
{
    const quant_pair p = quant_pair_of(c->o);
    const op_qgrouped o = op_qgrouped_of(c); /* all quantised GEMMs' operands stand alike */
    const int64_t n = p.grouped ? p.parts : 1;
    const bool writes = c->o->flags & OVERWRITE;
    quant_gemm z = {quant_side_of(o.x, o.xs, o.xg, p.a, p.at),
                    quant_side_of(o.w, o.ws, o.wg, p.b, p.bt),
                    p.grouped ? o.offsets : NULL,
                    n,
                    p.weight_gradient ? n : 1,
                    p.a.rows,
                    p.b.rows,
                    o.y,
                    p.weight_gradient};
    z.add = p.weight_gradient ? !writes : (c->o->flags & ACCUMULATE) != 0;
    return z;
}

#endif

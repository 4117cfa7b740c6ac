/* gdn_shape.cuh - sizes and tensors of the gated delta rule, for every row of it. */
#ifndef BACKEND_CUDA_KERNELS_GDN_SHAPE_CUH
#define BACKEND_CUDA_KERNELS_GDN_SHAPE_CUH

#include "backend/cuda/kernels/device.cuh"

struct rule {
    int64_t b, s, nk, nv, dk, dv, chunk;
    int64_t n_chunks, row; /* row: numbers of a token in qkv */
    numbers qkv;           /* [B*S][Nk Dk | Nk Dk | Nv Dv] */
    numbers beta, g;       /* [B*S][Nv] */
    const float *factors;  /* [B*S][2 Nk]: what q and k are multiplied with */
    float *states;         /* [B][n_chunks][Nv][Dk][Dv], or NULL: forward only */
};

static rule rule_of(const op *o)
{
    rule r = {};
    r.b = o->dim[DIM_GDN_RULE_B], r.s = o->dim[DIM_GDN_RULE_S], r.nk = o->dim[DIM_GDN_RULE_Nk],
    r.nv = o->dim[DIM_GDN_RULE_Nv];
    r.dk = o->dim[DIM_GDN_RULE_Dk], r.dv = o->dim[DIM_GDN_RULE_Dv],
    r.chunk = o->dim[DIM_GDN_RULE_CHUNK];
    r.n_chunks = (r.s + r.chunk - 1) / r.chunk;
    r.row = 2 * r.nk * r.dk + r.nv * r.dv;
    return r;
}

/* The same with what GDN_RULE and its gradient read; `states`: of the one it writes them. */
template <class O> static rule rule_of(const op *sizes, const O &o, float *states)
{
    rule r = rule_of(sizes);
    r.qkv = o.qkv, r.beta = as_numbers(o.beta), r.g = as_numbers(o.g), r.states = states;
    return r;
}

#endif

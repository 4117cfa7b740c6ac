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

/* Of GDN_RULE or its gradient; before it is launched, the sizes alone. */
template <class O> static rule rule_of(const O &o)
{
    rule r = {};
    r.b = o.B, r.s = o.S, r.nk = o.Nk, r.nv = o.Nv, r.dk = o.Dk, r.dv = o.Dv, r.chunk = o.CHUNK;
    r.n_chunks = (r.s + r.chunk - 1) / r.chunk;
    r.row = 2 * r.nk * r.dk + r.nv * r.dv;
    r.qkv = o.qkv, r.beta = as_numbers(o.beta), r.g = as_numbers(o.g);
    r.states = (float *)o.states; /* the gradient reads them */
    return r;
}

#endif

/* lt_factors.cu - what a product of two tensors with a factor each is multiplied by, found on the
 * device: the factors are made there in the same step, and no host waits for them. */
#include "backend/cuda/kernels/lt_plan.h"

static __global__ void factors_kernel(const float *a, const float *b, float beta, lt_factors *to)
{
    to->alpha = __fmul_rn(*a, *b);
    to->beta = beta;
}

extern "C" void lt_put_factors(const lt_scales *s, float beta, lt_factors *to, void *stream)
{
    factors_kernel<<<1, 1, 0, (cudaStream_t)stream>>>(s->a_factor, s->b_factor, beta, to);
}

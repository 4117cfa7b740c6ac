/* loss.cuh - what the plain and the fast head share. */
#ifndef KERNELS_CUDA_LOSS_CUH
#define KERNELS_CUDA_LOSS_CUH

#include "kernels/cuda/device.cuh"

/* One block adds all terms, in double and in order of threads. */
static __global__ void add_terms_kernel(const float *terms, int64_t n, float *loss)
{
    double sum = 0, weights = 0;
    for (int64_t i = threadIdx.x; i < n; i += BLOCK) {
        sum += (double)terms[2 * i];
        weights += (double)terms[2 * i + 1];
    }
    sum = sum_over<BLOCK>(sum);
    weights = sum_over<BLOCK>(weights);
    if (threadIdx.x) return;
    loss[0] = (float)((double)loss[0] + sum);
    loss[1] = (float)((double)loss[1] + weights);
}

static void add_terms(const kernel_call *c, const float *terms, int64_t n, float *loss)
{
    add_terms_kernel<<<1, BLOCK, 0, stream_of(c)>>>(terms, n, loss);
}

/* Chunks add to dw one after another: in BF16 each would be rounded. */
static inline bool head_loss_fits(const op *o, const op_types *t)
{
    return cuda_types_fit(o, t) && is_wide(o, t, OUT_HEAD_LOSS_dw);
}

/* HEAD_LOSS: rows of a chunk of logits. */
static int64_t rows_at_once(const op *o)
{
    return o->dim[DIM_HEAD_LOSS_ROWS] < 1                         ? 1
           : o->dim[DIM_HEAD_LOSS_ROWS] < o->dim[DIM_HEAD_LOSS_T] ? o->dim[DIM_HEAD_LOSS_ROWS]
                                                                  : o->dim[DIM_HEAD_LOSS_T];
}

#endif

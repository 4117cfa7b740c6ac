/* loss.cuh - what the plain and the fast head share. */
#ifndef BACKEND_CUDA_KERNELS_LOSS_CUH
#define BACKEND_CUDA_KERNELS_LOSS_CUH

#include "backend/cuda/kernels/device.cuh"

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

/* The logarithm of the sum of exponentials, and the label's logit: as all ranks know them. */
struct totals {
    float lse, right;
};

/* Of row i, from stats[parts][rows][3] of a vocabulary that is cut over ranks. */
static __device__ totals totals_of_parts(const float *stats, int64_t parts, int64_t rows, int64_t i)
{
    float top = -CUDART_INF_F, sum = 0, right = 0;
    for (int64_t p = 0; p < parts; p++) top = fmaxf(top, stats[(p * rows + i) * 3]);
    for (int64_t p = 0; p < parts; p++) {
        const float *s = stats + (p * rows + i) * 3;
        sum += s[1] * expf(s[0] - top);
        right += s[2];
    }
    return {top + logf(sum), right};
}

/* Labels of rows, and what each row adds to the loss. */
struct targets {
    const int32_t *labels; /* [n] */
    const float *mask;     /* [n], may be missing: all ones */
    float *terms;          /* [n][2]: weight * loss, weight */
    int64_t words;         /* of all ranks: another label counts as masked */

    __device__ __forceinline__ float weight(int64_t i) const
    {
        const bool known = labels[i] >= 0 && labels[i] < words;
        return !known ? 0 : mask ? mask[i] : 1;
    }

    __device__ __forceinline__ void put(int64_t i, float weight, totals all) const
    {
        terms[2 * i] = weight == 0 ? 0 : weight * (all.lse - all.right);
        terms[2 * i + 1] = weight;
    }
};

/* From row `first` on. */
template <class O> static targets targets_of(const O &o, int64_t first, float *terms, int64_t words)
{
    return {o.labels + first, o.mask ? o.mask + first : NULL, terms, words};
}

/* HEAD_PART, HEAD_PART_D: rows that there are of a chunk. */
template <class O> static int64_t rows_there(const O &o)
{
    const int64_t left = o.T - o.FIRST;
    return left < 0 ? 0 : left < o.ROWS ? left : o.ROWS;
}

/* Zeros for elements first .. past-1. */
static void clear(const kernel_call *c, numbers x, int64_t first, int64_t past)
{
    for_each(c, past - first, [=] __device__(int64_t i) { put(x, first + i, 0); });
}

/* Chunks add to dw one after another: in BF16 each would be rounded. */
static inline bool head_loss_fits(const op *o, const op_types *t)
{
    return cuda_types_fit(o, t) && is_wide(o, t, OUT_HEAD_LOSS_dw);
}

/* HEAD_LOSS: rows of a chunk of logits. */
static int64_t rows_at_once(const op_head_loss &o)
{
    return o.ROWS < 1 ? 1 : o.ROWS < o.T ? o.ROWS : o.T;
}

#endif

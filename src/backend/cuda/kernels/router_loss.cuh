/* router_loss.cuh - load-balancing losses: what plain and fast rows share. */
#ifndef BACKEND_CUDA_KERNELS_ROUTER_LOSS_CUH
#define BACKEND_CUDA_KERNELS_ROUTER_LOSS_CUH

#include "backend/cuda/kernels/router.cuh"

/* Tokens are balanced in samples of S (0: all together), of which the first may have begun on
 * another rank. */
struct samples {
    int64_t n_t, size, first;
    __host__ __device__ int64_t of(int64_t t) const
    {
        return size > 0 ? (first + t) / size : 0;
    }
    int64_t n(void) const
    {
        return n_t > 0 ? of(n_t - 1) - of(0) + 1 : 0;
    }
};

static samples samples_of(const op *o)
{
    const int64_t *d = o->dim;
    if (o->kind == OP_AUX_COUNT)
        return {d[DIM_AUX_COUNT_T], d[DIM_AUX_COUNT_S], d[DIM_AUX_COUNT_FIRST]};
    if (o->kind == OP_AUX_LOSS)
        return {d[DIM_AUX_LOSS_T], d[DIM_AUX_LOSS_KIND] == 1 ? d[DIM_AUX_LOSS_S] : 0,
                d[DIM_AUX_LOSS_FIRST]};
    return {d[DIM_AUX_GLOBAL_T], 0, 0};
}

/* ---- AUX_COUNT: counts of this rank's tokens, found in the workspace and added to those there */

static int64_t aux_count_bytes(const op *o, const op_types *)
{
    return room_of(samples_of(o).n() * o->dim[DIM_AUX_COUNT_E] * (int64_t)sizeof(int32_t));
}

/* Counts of samples [samples here][E], as a row finds them. */
typedef void find_counts(const kernel_call *c, const float *logits, int32_t *counts,
                         int64_t n_experts, int64_t k);

static void add_counts(const kernel_call *c, find_counts *find)
{
    const op_aux_count o = op_aux_count_of(c);
    const samples s = samples_of(c->o);
    int32_t *found = (int32_t *)c->workspace;
    find(c, o.logits, found, o.E, o.K);
    float *counts = o.counts + s.of(0) * o.E;
    for_each(c, s.n() * o.E, [=] __device__(int64_t i) { counts[i] += (float)found[i]; });
}

/* What sums of P times counts are multiplied with; counts, where they are there, are of all
 * ranks. */
static inline double aux_scale(const op *o, const op_aux_loss &a)
{
    const int64_t all = a.counts ? a.TOKENS : a.T, sequence = a.counts ? a.SEQ : a.S;
    const double n = (double)(a.KIND == 1 ? sequence : all);
    return o->real[REAL_AUX_LOSS_coefficient] * (double)a.E / ((double)a.K * n * (double)all);
}

#endif

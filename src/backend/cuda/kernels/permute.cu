/* permute.cu - tokens to the rows of their experts and back. */
#include "backend/cuda/kernels/permute.cuh"

static int64_t map_bytes(const op *o, const op_types *)
{
    return permute_bytes(o->dim[DIM_PERMUTE_ROOM]);
}

static placing placing_of(const kernel_call *c, const int32_t *rows, float *pp)
{
    const op *o = c->o;
    return {in_of(c, IN_PERMUTE_x),
            out_of(c, OUT_PERMUTE_xp),
            rows,
            pp,
            o->dim[DIM_PERMUTE_T],
            o->dim[DIM_PERMUTE_K],
            o->dim[DIM_PERMUTE_H],
            o->dim[DIM_PERMUTE_ROOM]};
}

static void permute(const kernel_call *c)
{
    const float *probs = floats_in(c, IN_PERMUTE_probs);
    place_rows(c, placing_of(c, ints_in(c, IN_PERMUTE_rows), floats_out(c, OUT_PERMUTE_pp)),
               c->workspace, [=] __device__(int64_t pair) { return probs[pair]; });
}

/* The gradient of a sum goes to every row of it. */
static void unpermute_d(const kernel_call *c)
{
    place_rows(c, placing_of(c, ints_in(c, IN_UNPERMUTE_D_rows), NULL), c->workspace,
               [=] __device__(int64_t pair) { return 0.f; });
}

/* y[t] = sum of the rows of t, in the order of k. */
struct sum_of_rows {
    numbers yp, y;       /* [ROOM][H], [T][H] */
    const int32_t *rows; /* [T][K] */
    int64_t k, h;
    bool add;
    template <int THREADS, int W> __device__ void row(int64_t i, int thread) const
    {
        for (int64_t j = thread * W; j < h; j += THREADS * W) {
            lanes<W> sum = {};
            if (add) sum = load<W>(y, i * h + j);
            for (int64_t pair = i * k; pair < (i + 1) * k; pair++) {
                const int64_t row = rows[pair];
                if (row < 0) continue;
                const lanes<W> one = load<W>(yp, row * h + j);
#pragma unroll
                for (int q = 0; q < W; q++) sum.v[q] += one.v[q];
            }
            store(y, i * h + j, sum);
        }
    }
};

static void sum_rows(const kernel_call *c, const int32_t *rows)
{
    const int64_t *d = c->o->dim, h = d[DIM_UNPERMUTE_H];
    for_rows(c, d[DIM_UNPERMUTE_T], h,
             sum_of_rows{in_of(c, IN_UNPERMUTE_yp), out_of(c, OUT_UNPERMUTE_y), rows,
                         d[DIM_UNPERMUTE_K], h, (c->o->flags & ACCUMULATE) != 0});
}

static void unpermute(const kernel_call *c)
{
    sum_rows(c, ints_in(c, IN_UNPERMUTE_rows));
}

static void permute_d(const kernel_call *c)
{
    const float *dpp = floats_in(c, IN_PERMUTE_D_dpp);
    const int32_t *rows = ints_in(c, IN_PERMUTE_D_rows);
    float *dprobs = floats_out(c, OUT_PERMUTE_D_dprobs);
    sum_rows(c, rows);
    if (!dprobs) return;
    for_each(c, c->o->dim[DIM_PERMUTE_D_T] * c->o->dim[DIM_PERMUTE_D_K],
             [=] __device__(int64_t i) { dprobs[i] = rows[i] < 0 ? 0 : dpp[rows[i]]; });
}

extern "C" cuda_part cuda_permute(void)
{
    static const kernel rows[] = {
        {OP_PERMUTE, "plain", NULL, NULL, NULL, map_bytes, permute},
        {OP_PERMUTE_D, "plain", NULL, NULL, NULL, NULL, permute_d},
        {OP_UNPERMUTE, "plain", NULL, NULL, NULL, NULL, unpermute},
        {OP_UNPERMUTE_D, "plain", NULL, NULL, NULL, map_bytes, unpermute_d},
    };
    return PART(rows);
}

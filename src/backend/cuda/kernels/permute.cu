/* permute.cu - tokens to the rows of their experts and back. */
#include "backend/cuda/kernels/permute.cuh"

static int64_t map_bytes(const op *o, const op_types *)
{
    return permute_bytes(o->dim[DIM_PERMUTE_ROOM]);
}

static void permute(const kernel_call *c)
{
    const op_permute o = op_permute_of(c);
    place_rows(c, {o.x, o.xp, o.rows, o.pp, o.T, o.K, o.H, o.ROOM}, c->workspace,
               [=] __device__(int64_t pair) { return o.probs[pair]; });
}

/* The gradient of a sum goes to every row of it. */
static void unpermute_d(const kernel_call *c)
{
    const op_unpermute_d o = op_unpermute_d_of(c);
    place_rows(c, {o.dy, o.dyp, o.rows, NULL, o.T, o.K, o.H, o.ROOM}, c->workspace,
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

static void unpermute(const kernel_call *c)
{
    const op_unpermute o = op_unpermute_of(c);
    for_rows(c, o.T, o.H, sum_of_rows{o.yp, o.y, o.rows, o.K, o.H, (o.flags & ACCUMULATE) != 0});
}

static void permute_d(const kernel_call *c)
{
    const op_permute_d o = op_permute_d_of(c);
    for_rows(c, o.T, o.H, sum_of_rows{o.dxp, o.dx, o.rows, o.K, o.H, (o.flags & ACCUMULATE) != 0});
    if (!o.dprobs) return;
    for_each(c, o.T * o.K,
             [=] __device__(int64_t i) { o.dprobs[i] = o.rows[i] < 0 ? 0 : o.dpp[o.rows[i]]; });
}

extern "C" cuda_part cuda_permute(void)
{
    static const kernel rows[] = {
        {.kind = OP_PERMUTE, .name = "plain", .workspace = map_bytes, .launch = permute},
        {.kind = OP_PERMUTE_D, .name = "plain", .launch = permute_d},
        {.kind = OP_UNPERMUTE, .name = "plain", .launch = unpermute},
        {.kind = OP_UNPERMUTE_D, .name = "plain", .workspace = map_bytes, .launch = unpermute_d},
    };
    return PART(rows);
}

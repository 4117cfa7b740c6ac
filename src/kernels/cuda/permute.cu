/* permute.cu - tokens to the rows of their experts and back. */
#include "kernels/cuda/permute.cuh"

static int64_t map_bytes(const op *o)
{
    return permute_bytes(o->dim[3]);
}

static placing placing_of(const cuda_call *c, const int32_t *rows, float *pp)
{
    const op *o = c->o;
    return {in_of(c, 0), out_of(c, 0), rows, pp, o->dim[0], o->dim[1], o->dim[2], o->dim[3]};
}

static void permute(const cuda_call *c)
{
    const float *probs = floats_in(c, 1);
    place_rows(c, placing_of(c, ints_in(c, 2), floats_out(c, 1)), c->workspace,
               [=] __device__(int64_t pair) { return probs[pair]; });
}

/* The gradient of a sum goes to every row of it. */
static void unpermute_d(const cuda_call *c)
{
    place_rows(c, placing_of(c, ints_in(c, 1), NULL), c->workspace,
               [=] __device__(int64_t pair) { return 0.f; });
}

/* y[t] = sum of the rows of t, in the order of k. */
static void sum_rows(const cuda_call *c, const int32_t *rows)
{
    const int64_t n_t = c->o->dim[0], k = c->o->dim[1], h = c->o->dim[2];
    const bool add = c->o->flags & ADD_TO;
    const numbers yp = in_of(c, 0), y = out_of(c, 0);
    for_each(c, n_t * h, [=] __device__(int64_t i) {
        float sum = add ? get(y, i) : 0;
        for (int64_t pair = i / h * k; pair < (i / h + 1) * k; pair++)
            if (rows[pair] >= 0) sum += get(yp, rows[pair] * h + i % h);
        put(y, i, sum);
    });
}

static void unpermute(const cuda_call *c)
{
    sum_rows(c, ints_in(c, 1));
}

static void permute_d(const cuda_call *c)
{
    const float *dpp = floats_in(c, 1);
    const int32_t *rows = ints_in(c, 2);
    float *dprobs = floats_out(c, 1);
    sum_rows(c, rows);
    if (!dprobs) return;
    for_each(c, c->o->dim[0] * c->o->dim[1],
             [=] __device__(int64_t i) { dprobs[i] = rows[i] < 0 ? 0 : dpp[rows[i]]; });
}

extern "C" cuda_part cuda_permute(void)
{
    static const cuda_row rows[] = {
        {OP_PERMUTE, "plain", "nfi", "nf", permute, map_bytes, NULL},
        {OP_PERMUTE_D, "plain", "nfi", "nf", permute_d, NULL, NULL},
        {OP_UNPERMUTE, "plain", "ni", "n", unpermute, NULL, NULL},
        {OP_UNPERMUTE_D, "plain", "ni", "n", unpermute_d, map_bytes, NULL},
    };
    return PART(rows);
}

/* fast_quantise_fused.cu - SwiGLU, or the way of tokens to the rows of their
 * experts, with quantising by blocks at its end: what is quantised stays in
 * registers. Rows for quantise_tile.cuh.
 *
 * Numbers are rounded to BF16 as if they had been written: codes are those of
 * the parts. */
#include "kernels/cuda/permute.cuh"
#include "kernels/cuda/quantise_tile.cuh"
#include "kernels/cuda/registers.cuh"

/* u[m][2k] = [gate | up], p[m] or none. */
struct of_swiglu {
    const __nv_bfloat16 *u;
    const float *p;
    int64_t k;
    __device__ __forceinline__ uint4 eight(int64_t, int64_t row, int64_t col) const
    {
        const __nv_bfloat16 *at = u + row * 2 * k + col;
        const lanes<WIDE> x = unpack(__ldcs((const uint4 *)at)),
                          y = unpack(__ldcs((const uint4 *)(at + k)));
        const float scale = p ? p[row] : 1;
        lanes<WIDE> to;
#pragma unroll
        for (int i = 0; i < WIDE; i++) to.v[i] = silu(x.v[i]) * y.v[i] * scale;
        return pack(to);
    }
};

/* Row `row` is token pair[row] / n of x[T][k]; -1: nobody's. */
struct of_tokens {
    const __nv_bfloat16 *x;
    const int64_t *pair;
    int64_t n, k;
    __device__ __forceinline__ uint4 eight(int64_t, int64_t row, int64_t col) const
    {
        const int64_t who = pair[row];
        if (who < 0) return make_uint4(0, 0, 0, 0);
        return *(const uint4 *)(x + who / n * k + col);
    }
};

/* Outputs q, s, qt and st are the first four of all these kinds. */
static_assert((int)OUT_ACT_QUANT_q == OUT_PERMUTE_QUANT_q &&
              (int)OUT_ACT_QUANT_st == OUT_PERMUTE_QUANT_st &&
              (int)OUT_ACT_QUANT_q == OUT_UNPERMUTE_D_QUANT_q &&
              (int)OUT_ACT_QUANT_st == OUT_UNPERMUTE_D_QUANT_st);

template <class SOURCE>
static void quantise(const kernel_call *c, const SOURCE &x, int64_t m, int64_t k,
                     const int32_t *offsets, int64_t n_experts)
{
    const quantising z = {offsets ? offsets + n_experts : NULL,
                          m,
                          k,
                          (uint8_t *)c->out[OUT_ACT_QUANT_q],
                          (uint8_t *)c->out[OUT_ACT_QUANT_qt],
                          floats_out(c, OUT_ACT_QUANT_s),
                          floats_out(c, OUT_ACT_QUANT_st),
                          quant_scales({QUANT_BLOCK, false, m, k}),
                          quant_scales({QUANT_BLOCK, false, k, m}),
                          NULL,
                          {offsets, n_experts, m}};
    tile_kernel<SOURCE, BY_ROWS, false><<<tiles_of(z, 1), BLOCK, 0, stream_of(c)>>>(x, z);
}

static bool fits(const op *o, const op_types *t, int64_t form, int64_t type, int64_t m, int64_t k)
{
    return cuda_types_fit(o, t) && form == QUANT_BLOCK && type == DTYPE_E4M3 &&
           t->in[0] == DTYPE_BF16 && tiles_fit(m, k, 1, o->out[OUT_ACT_QUANT_qt] >= 0);
}

/* ---- SwiGLU */

static bool takes_act(const op *o, const op_types *t)
{
    const int64_t *d = o->dim;
    return !(o->flags & CLAMPED) && (o->in[IN_ACT_QUANT_offsets] >= 0 || d[DIM_ACT_QUANT_E] == 1) &&
           fits(o, t, d[DIM_ACT_QUANT_FORM], d[DIM_ACT_QUANT_TYPE], d[DIM_ACT_QUANT_M],
                d[DIM_ACT_QUANT_F]);
}

static void act(const kernel_call *c)
{
    const int64_t *d = c->o->dim;
    const of_swiglu a = {(const __nv_bfloat16 *)c->in[IN_ACT_QUANT_u], floats_in(c, IN_ACT_QUANT_p),
                         d[DIM_ACT_QUANT_F]};
    quantise(c, a, d[DIM_ACT_QUANT_M], d[DIM_ACT_QUANT_F], ints_in(c, IN_ACT_QUANT_offsets),
             d[DIM_ACT_QUANT_E]);
}

/* ---- to the rows of experts; sizes and outputs of both directions are alike
 */

static_assert((int)DIM_PERMUTE_QUANT_ROOM == DIM_UNPERMUTE_D_QUANT_ROOM &&
              (int)DIM_PERMUTE_QUANT_TYPE == DIM_UNPERMUTE_D_QUANT_TYPE);

static bool takes_rows(const op *o, const op_types *t)
{
    const int64_t *d = o->dim;
    return fits(o, t, d[DIM_PERMUTE_QUANT_FORM], d[DIM_PERMUTE_QUANT_TYPE],
                d[DIM_PERMUTE_QUANT_ROOM], d[DIM_PERMUTE_QUANT_H]);
}

static int64_t map_bytes(const op *o, const op_types *)
{
    return permute_bytes(o->dim[DIM_PERMUTE_QUANT_ROOM]);
}

static void rows_of(const kernel_call *c, const int32_t *rows, const int32_t *offsets)
{
    const int64_t *d = c->o->dim, k = d[DIM_PERMUTE_QUANT_K], h = d[DIM_PERMUTE_QUANT_H];
    int64_t *pair = (int64_t *)c->workspace;
    map_rows(c, rows, d[DIM_PERMUTE_QUANT_T] * k, d[DIM_PERMUTE_QUANT_ROOM], pair);
    quantise(c, of_tokens{(const __nv_bfloat16 *)c->in[0], pair, k, h}, d[DIM_PERMUTE_QUANT_ROOM],
             h, offsets, d[DIM_PERMUTE_QUANT_E]);
}

static void permute(const kernel_call *c)
{
    const float *probs = floats_in(c, IN_PERMUTE_QUANT_probs);
    float *pp = floats_out(c, OUT_PERMUTE_QUANT_pp);
    const int64_t *pair = (const int64_t *)c->workspace;
    rows_of(c, ints_in(c, IN_PERMUTE_QUANT_rows), ints_in(c, IN_PERMUTE_QUANT_offsets));
    if (!pp) return;
    for_each(c, c->o->dim[DIM_PERMUTE_QUANT_ROOM],
             [=] __device__(int64_t row) { pp[row] = pair[row] < 0 ? 0 : probs[pair[row]]; });
}

static void unpermute_d(const kernel_call *c)
{
    rows_of(c, ints_in(c, IN_UNPERMUTE_D_QUANT_rows), ints_in(c, IN_UNPERMUTE_D_QUANT_offsets));
}

extern "C" cuda_part cuda_fast_quantise_fused(void)
{
    static const kernel rows[] = {
        {OP_ACT_QUANT, "one pass", takes_act, NULL, NULL, NULL, act},
        {OP_PERMUTE_QUANT, "one pass", takes_rows, NULL, NULL, map_bytes, permute},
        {OP_UNPERMUTE_D_QUANT, "one pass", takes_rows, NULL, NULL, map_bytes, unpermute_d},
    };
    return PART(rows);
}

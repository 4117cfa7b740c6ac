/* fast_quantise_fused.cu - SwiGLU and its gradient, the way of tokens to the rows of their experts,
 * or a norm, with quantising by blocks at its end: what is quantised stays on the chip. Rows for
 * quantise_tile.cuh.
 *
 * Numbers are rounded to BF16 as if they had been written: codes are those of the parts. */
#include "backend/cuda/kernels/permute.cuh"
#include "backend/cuda/kernels/quantise_launch.cuh"
#include "backend/cuda/kernels/registers.cuh"

/* u[m][2k] = [gate | up], p[m] or none. */
struct of_swiglu {
    const __nv_bfloat16 *u;
    const float *p;
    int64_t k;
    enum { PIECES = 2 };
    __device__ __forceinline__ row_ahead ahead(int64_t row) const
    {
        return {(int32_t)row, p ? p[row] : 1};
    }
    __device__ __forceinline__ const void *piece(int64_t, int32_t row, int64_t col, int n) const
    {
        return u + (2 * (int64_t)row + n) * k + col;
    }
    __device__ __forceinline__ uint4 eight(const uint4 pieces[PIECES], float by, int64_t) const
    {
        const lanes<WIDE> x = unpack(pieces[0]), y = unpack(pieces[1]);
        lanes<WIDE> to;
#pragma unroll
        for (int i = 0; i < WIDE; i++) to.v[i] = silu(x.v[i]) * y.v[i] * by;
        return pack(to);
    }
};

/* Gradients of u by da[m][k], and da times the activation, in the order of the plain rows. */
struct of_swiglu_d {
    const __nv_bfloat16 *da;
    of_swiglu of;
    enum { PIECES = 3 };
    __device__ __forceinline__ row_ahead ahead(int64_t row) const
    {
        return of.ahead(row);
    }
    __device__ __forceinline__ const void *piece(int64_t, int32_t row, int64_t col, int n) const
    {
        return n ? of.piece(0, row, col, n - 1) : da + row * of.k + col;
    }
    __device__ __forceinline__ eight_pairs pairs(const uint4 pieces[PIECES], float by) const
    {
        const lanes<WIDE> d = unpack(pieces[0]), x = unpack(pieces[1]), y = unpack(pieces[2]);
        lanes<WIDE> to_x, to_up;
        float sum = 0;
#pragma unroll
        for (int i = 0; i < WIDE; i++) {
            const float s = sigmoid(x.v[i]), value = x.v[i] * s, slope = s * (1 + x.v[i] * (1 - s));
            sum += d.v[i] * (value * y.v[i]);
            to_x.v[i] = d.v[i] * by * (slope * y.v[i]);
            to_up.v[i] = d.v[i] * by * value;
        }
        return {pack(to_x), pack(to_up), sum};
    }
};

/* x[m][k] times rstd[m] and w[k], or 1 + w. */
struct of_norm {
    const __nv_bfloat16 *x;
    numbers w;
    const float *rstd;
    int64_t k;
    float plus;
    enum { PIECES = 1 };
    __device__ __forceinline__ row_ahead ahead(int64_t row) const
    {
        return {(int32_t)row, rstd[row]};
    }
    __device__ __forceinline__ const void *piece(int64_t, int32_t row, int64_t col, int) const
    {
        return x + row * k + col;
    }
    __device__ __forceinline__ uint4 eight(const uint4 pieces[PIECES], float r, int64_t col) const
    {
        lanes<WIDE> v = unpack(pieces[0]);
        const lanes<WIDE> by = load<WIDE>(w, col);
#pragma unroll
        for (int i = 0; i < WIDE; i++) v.v[i] *= r * (by.v[i] + plus);
        return pack(v);
    }
};

/* 1 / root of the mean square of rows, summed as the plain norm does. */
struct rstd_rows {
    numbers x;   /* [M][H] */
    float *rstd; /* [M] */
    int64_t h;
    float eps;
    template <int THREADS, int W> __device__ void row(int64_t i, int thread) const
    {
        float sum = 0;
        for (int64_t j = thread * W; j < h; j += THREADS * W) {
            const lanes<W> v = load<W>(x, i * h + j);
#pragma unroll
            for (int k = 0; k < W; k++) sum += v.v[k] * v.v[k];
        }
        const float r = rsqrtf(sum_over<THREADS>(sum) / (float)h + eps);
        if (thread == 0) rstd[i] = r;
    }
};

/* Row `row` is token pair[row] / n of x[T][k]; -1: nobody's. Pairs have 32 bits: to divide 64 would
 * take several times as many instructions. */
struct of_tokens {
    const __nv_bfloat16 *x;
    const int64_t *pair;
    uint32_t n;
    int64_t k;
    enum { PIECES = 1 };
    __device__ __forceinline__ row_ahead ahead(int64_t row) const
    {
        const int64_t who = pair[row];
        return {who < 0 ? -1 : (int32_t)((uint32_t)who / n), 0};
    }
    __device__ __forceinline__ const void *piece(int64_t, int32_t token, int64_t col, int) const
    {
        return x + token * k + col;
    }
    __device__ __forceinline__ uint4 eight(const uint4 pieces[PIECES], float, int64_t) const
    {
        return pieces[0];
    }
};

/* Outputs q, s, qt and st are the first four of all these kinds. */
static_assert((int)OUT_ACT_QUANT_q == OUT_PERMUTE_QUANT_q &&
              (int)OUT_ACT_QUANT_st == OUT_PERMUTE_QUANT_st &&
              (int)OUT_ACT_QUANT_q == OUT_UNPERMUTE_D_QUANT_q &&
              (int)OUT_ACT_QUANT_st == OUT_UNPERMUTE_D_QUANT_st &&
              (int)OUT_ACT_QUANT_q == OUT_ACT_D_QUANT_q &&
              (int)OUT_ACT_QUANT_st == OUT_ACT_D_QUANT_st &&
              (int)OUT_ACT_QUANT_q == OUT_NORM_QUANT_q &&
              (int)OUT_ACT_QUANT_st == OUT_NORM_QUANT_st);

static quantising copies_of(const kernel_call *c, int64_t m, int64_t k, const int32_t *offsets,
                            int64_t n_experts)
{
    return {offsets ? offsets + n_experts : NULL,
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
    tiles_launch<BY_ROWS, false>(c, a,
                                 copies_of(c, d[DIM_ACT_QUANT_M], d[DIM_ACT_QUANT_F],
                                           ints_in(c, IN_ACT_QUANT_offsets), d[DIM_ACT_QUANT_E]),
                                 1);
}

/* Blocks of a row of [by gate | by up] belong to one of them. */
static bool takes_act_d(const op *o, const op_types *t)
{
    const int64_t *d = o->dim;
    return !(o->flags & CLAMPED) && d[DIM_ACT_D_QUANT_F] % SIDE == 0 &&
           (o->in[IN_ACT_D_QUANT_offsets] >= 0 || d[DIM_ACT_D_QUANT_E] == 1) &&
           t->in[IN_ACT_D_QUANT_u] == DTYPE_BF16 &&
           fits(o, t, d[DIM_ACT_D_QUANT_FORM], d[DIM_ACT_D_QUANT_TYPE], d[DIM_ACT_D_QUANT_M],
                2 * d[DIM_ACT_D_QUANT_F]);
}

static int64_t sums_bytes(const op *o, const op_types *)
{
    return room_of(o->dim[DIM_ACT_D_QUANT_M] * (o->dim[DIM_ACT_D_QUANT_F] / SIDE) *
                   (int64_t)sizeof(float));
}

/* Sums of a row are added tile by tile, in their order. */
static void act_d(const kernel_call *c)
{
    const int64_t *d = c->o->dim, m = d[DIM_ACT_D_QUANT_M], f = d[DIM_ACT_D_QUANT_F];
    const int64_t n = f / SIDE;
    const of_swiglu_d a = {
        (const __nv_bfloat16 *)c->in[IN_ACT_D_QUANT_da],
        {(const __nv_bfloat16 *)c->in[IN_ACT_D_QUANT_u], floats_in(c, IN_ACT_D_QUANT_p), f}};
    float *dp = floats_out(c, OUT_ACT_D_QUANT_dp), *sums = dp ? (float *)c->workspace : NULL;
    const quantising z =
        copies_of(c, m, 2 * f, ints_in(c, IN_ACT_D_QUANT_offsets), d[DIM_ACT_D_QUANT_E]);
    pairs_launch(c, a, z, sums);
    if (!dp) return;
    for_each(c, m, [=] __device__(int64_t row) {
        float sum = 0;
        for (int64_t j = 0; j < n; j++) sum += sums[j * m + row];
        dp[row] = sum;
    });
}

/* ---- a norm: its rows are read twice, once for the sums of their squares */

static bool takes_norm(const op *o, const op_types *t)
{
    const int64_t *d = o->dim;
    return o->in[IN_NORM_QUANT_w] >= 0 && fits(o, t, d[DIM_NORM_QUANT_FORM], d[DIM_NORM_QUANT_TYPE],
                                               d[DIM_NORM_QUANT_M], d[DIM_NORM_QUANT_H]);
}

static int64_t rstd_bytes(const op *o, const op_types *)
{
    return room_of(o->dim[DIM_NORM_QUANT_M] * (int64_t)sizeof(float));
}

static void norm(const kernel_call *c)
{
    const int64_t *d = c->o->dim, m = d[DIM_NORM_QUANT_M], h = d[DIM_NORM_QUANT_H];
    float *own = floats_out(c, OUT_NORM_QUANT_rstd), *rstd = own ? own : (float *)c->workspace;
    for_rows(c, m, h,
             rstd_rows{in_of(c, IN_NORM_QUANT_x), rstd, h, (float)c->o->real[REAL_NORM_QUANT_eps]});
    const of_norm n = {(const __nv_bfloat16 *)c->in[IN_NORM_QUANT_x], in_of(c, IN_NORM_QUANT_w),
                       rstd, h, c->o->flags & ZERO_CENTRED ? 1.f : 0.f};
    tiles_launch<BY_ROWS, false>(c, n, copies_of(c, m, h, NULL, 1), 1);
}

/* ---- to the rows of experts; sizes and outputs of both directions are alike */

static_assert((int)DIM_PERMUTE_QUANT_ROOM == DIM_UNPERMUTE_D_QUANT_ROOM &&
              (int)DIM_PERMUTE_QUANT_TYPE == DIM_UNPERMUTE_D_QUANT_TYPE);

static bool takes_rows(const op *o, const op_types *t)
{
    const int64_t *d = o->dim;
    return d[DIM_PERMUTE_QUANT_T] * d[DIM_PERMUTE_QUANT_K] <= INT32_MAX &&
           fits(o, t, d[DIM_PERMUTE_QUANT_FORM], d[DIM_PERMUTE_QUANT_TYPE],
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
    tiles_launch<BY_ROWS, false>(
        c, of_tokens{(const __nv_bfloat16 *)c->in[0], pair, (uint32_t)k, h},
        copies_of(c, d[DIM_PERMUTE_QUANT_ROOM], h, offsets, d[DIM_PERMUTE_QUANT_E]), 1);
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

template <class SOURCE>
static status prepare(const op *o, const op_types *t, void **state, error *err)
{
    return tiles_prepare<SOURCE, BY_ROWS, false>(o, t, state, err);
}

extern "C" cuda_part cuda_fast_quantise_fused(void)
{
    static const kernel rows[] = {
        {OP_ACT_QUANT, "one pass", takes_act, prepare<of_swiglu>, NULL, NULL, act},
        {OP_ACT_D_QUANT, "one pass", takes_act_d, pairs_prepare<of_swiglu_d>, NULL, sums_bytes,
         act_d},
        {OP_NORM_QUANT, "two passes", takes_norm, prepare<of_norm>, NULL, rstd_bytes, norm},
        {OP_PERMUTE_QUANT, "one pass", takes_rows, prepare<of_tokens>, NULL, map_bytes, permute},
        {OP_UNPERMUTE_D_QUANT, "one pass", takes_rows, prepare<of_tokens>, NULL, map_bytes,
         unpermute_d},
    };
    return PART(rows);
}

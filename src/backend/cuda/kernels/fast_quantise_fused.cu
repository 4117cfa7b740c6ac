/* fast_quantise_fused.cu - SwiGLU and its gradient, the way of tokens to the rows of their experts,
 * or a norm, with quantising by blocks at its end: what is quantised stays on the chip. Rows for
 * quantise_tile.cuh.
 *
 * Numbers are rounded to BF16 as if they had been written: codes are those of the parts. */
#include "backend/cuda/kernels/norm.cuh"
#include "backend/cuda/kernels/permute.cuh"
#include "backend/cuda/kernels/quantise_launch.cuh"

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

/* What the plain norm has for rstd. */
struct rstd_rows {
    numbers x;   /* [M][H] */
    float *rstd; /* [M] */
    int64_t H;
    float eps;
    template <class ROW> __device__ void of(const ROW &row) const
    {
        const float r = rstd_of(row, row.of(x), eps);
        if (row.thread == 0) rstd[row.i] = r;
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

template <class O> static bool in_blocks(const O &z)
{
    return z.FORM == QUANT_BLOCK && z.TYPE == DTYPE_E4M3;
}

/* `turned`: which output the codes along rows are. */
static bool fits(const op *o, const op_types *t, int64_t m, int64_t k, int turned)
{
    return cuda_types_fit(o, t) && t->in[0] == DTYPE_BF16 &&
           tiles_fit(m, k, 1, o->out[turned] >= 0);
}

/* ---- SwiGLU */

static bool takes_act(const op *o, const op_types *t)
{
    const op_act_quant z = op_act_quant_of(o);
    return !(z.flags & CLAMPED) && (o->in[IN_ACT_QUANT_offsets] >= 0 || z.E == 1) && in_blocks(z) &&
           fits(o, t, z.M, z.F, OUT_ACT_QUANT_qt);
}

static void act(const kernel_call *c)
{
    const op_act_quant o = op_act_quant_of(c);
    tiles_launch<BY_ROWS, false>(c, of_swiglu{(const __nv_bfloat16 *)o.u.p, o.p, o.F},
                                 copies_of(o, o.M, o.F, o.offsets, o.E), 1);
}

/* Blocks of a row of [by gate | by up] belong to one of them. */
static bool takes_act_d(const op *o, const op_types *t)
{
    const op_act_d_quant z = op_act_d_quant_of(o);
    return !(z.flags & CLAMPED) && z.F % SIDE == 0 &&
           (o->in[IN_ACT_D_QUANT_offsets] >= 0 || z.E == 1) &&
           t->in[IN_ACT_D_QUANT_u] == DTYPE_BF16 && in_blocks(z) &&
           fits(o, t, z.M, 2 * z.F, OUT_ACT_D_QUANT_qt);
}

static int64_t sums_bytes(const op *o, const op_types *)
{
    return room_of(o->dim[DIM_ACT_D_QUANT_M] * (o->dim[DIM_ACT_D_QUANT_F] / SIDE) *
                   (int64_t)sizeof(float));
}

/* Sums of a row are added tile by tile, in their order. */
static void act_d(const kernel_call *c)
{
    const op_act_d_quant o = op_act_d_quant_of(c);
    const of_swiglu_d a = {(const __nv_bfloat16 *)o.da.p, {(const __nv_bfloat16 *)o.u.p, o.p, o.F}};
    const int64_t n = o.F / SIDE;
    float *sums = o.dp ? (float *)c->workspace : NULL;
    pairs_launch(c, a, copies_of(o, o.M, 2 * o.F, o.offsets, o.E), sums);
    if (!o.dp) return;
    for_each(c, o.M, [=] __device__(int64_t row) {
        float sum = 0;
        for (int64_t j = 0; j < n; j++) sum += sums[j * o.M + row];
        o.dp[row] = sum;
    });
}

/* ---- a norm: its rows are read twice, once for the sums of their squares */

static bool takes_norm(const op *o, const op_types *t)
{
    const op_norm_quant z = op_norm_quant_of(o);
    return o->in[IN_NORM_QUANT_w] >= 0 && in_blocks(z) && fits(o, t, z.M, z.H, OUT_NORM_QUANT_qt);
}

static int64_t rstd_bytes(const op *o, const op_types *)
{
    return room_of(o->dim[DIM_NORM_QUANT_M] * (int64_t)sizeof(float));
}

static void norm(const kernel_call *c)
{
    const op_norm_quant o = op_norm_quant_of(c);
    float *rstd = o.rstd ? o.rstd : (float *)c->workspace;
    for_rows(c, o.M, o.H, memory_rows<rstd_rows>{{o.x, rstd, o.H, o.eps}});
    const of_norm n = {(const __nv_bfloat16 *)o.x.p, o.w, rstd, o.H,
                       o.flags & ZERO_CENTRED ? 1.f : 0.f};
    tiles_launch<BY_ROWS, false>(c, n, copies_of(o, o.M, o.H, NULL, 1), 1);
}

/* ---- to the rows of experts */

static bool takes_rows(const op *o, const op_types *t)
{
    const op_permute_quant z = op_permute_quant_of(o); /* UNPERMUTE_D_QUANT has the same sizes */
    return z.T * z.K <= INT32_MAX && in_blocks(z) &&
           fits(o, t, z.ROOM, z.H,
                o->kind == OP_PERMUTE_QUANT ? OUT_PERMUTE_QUANT_qt : OUT_UNPERMUTE_D_QUANT_qt);
}

static int64_t map_bytes(const op *o, const op_types *)
{
    return permute_bytes(o->dim[DIM_PERMUTE_QUANT_ROOM]);
}

template <class O> static void rows_of(const kernel_call *c, const O &o, numbers x)
{
    int64_t *pair = (int64_t *)c->workspace;
    map_rows(c, o.rows, o.T * o.K, o.ROOM, pair);
    tiles_launch<BY_ROWS, false>(c, of_tokens{(const __nv_bfloat16 *)x.p, pair, (uint32_t)o.K, o.H},
                                 copies_of(o, o.ROOM, o.H, o.offsets, o.E), 1);
}

static void permute(const kernel_call *c)
{
    const op_permute_quant o = op_permute_quant_of(c);
    const int64_t *pair = (const int64_t *)c->workspace;
    rows_of(c, o, o.x);
    if (!o.pp) return;
    for_each(c, o.ROOM,
             [=] __device__(int64_t row) { o.pp[row] = pair[row] < 0 ? 0 : o.probs[pair[row]]; });
}

static void unpermute_d(const kernel_call *c)
{
    const op_unpermute_d_quant o = op_unpermute_d_quant_of(c);
    rows_of(c, o, o.dy);
}

template <class SOURCE>
static status prepare(const op *o, const op_types *t, void **state, error *err)
{
    return tiles_prepare<SOURCE, BY_ROWS, false>(o, t, state, err);
}

extern "C" cuda_part cuda_fast_quantise_fused(void)
{
    static const kernel rows[] = {
        {.kind = OP_ACT_QUANT,
         .name = "one pass",
         .accepts = takes_act,
         .prepare = prepare<of_swiglu>,
         .launch = act},
        {.kind = OP_ACT_D_QUANT,
         .name = "one pass",
         .accepts = takes_act_d,
         .prepare = pairs_prepare<of_swiglu_d>,
         .workspace = sums_bytes,
         .launch = act_d},
        {.kind = OP_NORM_QUANT,
         .name = "two passes",
         .accepts = takes_norm,
         .prepare = prepare<of_norm>,
         .workspace = rstd_bytes,
         .launch = norm},
        {.kind = OP_PERMUTE_QUANT,
         .name = "one pass",
         .accepts = takes_rows,
         .prepare = prepare<of_tokens>,
         .workspace = map_bytes,
         .launch = permute},
        {.kind = OP_UNPERMUTE_D_QUANT,
         .name = "one pass",
         .accepts = takes_rows,
         .prepare = prepare<of_tokens>,
         .workspace = map_bytes,
         .launch = unpermute_d},
    };
    return PART(rows);
}

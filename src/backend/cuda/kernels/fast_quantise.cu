/* fast_quantise.cu - BF16 to E4M3 in blocks of 128, or to E4M3 and E5M2 with a factor a tensor,
 * which is one reading more: rows for quantise_tile.cuh. */
#include "backend/cuda/kernels/quantise_launch.cuh"

struct in_memory {
    const __nv_bfloat16 *p; /* [parts][m][k] */
    int64_t m, k;
    enum { PIECES = 1 };
    __device__ __forceinline__ row_ahead ahead(int64_t row) const
    {
        return {(int32_t)row, 0};
    }
    __device__ __forceinline__ const void *piece(int64_t part, int32_t row, int64_t col, int) const
    {
        return p + (part * m + row) * k + col;
    }
    __device__ __forceinline__ uint4 eight(const uint4 pieces[PIECES], float, int64_t) const
    {
        return pieces[0];
    }
};

/* ---- a tensor's factor */

/* Rows first .. end - 1 of expert e, and where they begin in x. */
static __device__ void span_of(const quantising &z, int64_t e, int64_t *from, int64_t *rows)
{
    *from = z.of.offsets ? z.of.start(e) : e * z.m;
    *rows = z.of.offsets ? z.of.start(e + 1) - *from : z.m;
}

/* The largest sizes of all experts into g, which is zero. */
static __global__ void __launch_bounds__(BLOCK)
    amax_kernel(const __nv_bfloat16 *all, const quantising z)
{
    int64_t from, rows;
    span_of(z, blockIdx.y, &from, &rows);
    const uint4 *x = (const uint4 *)(all + from * z.k);
    const int64_t n = rows * z.k / EACH, step = (int64_t)gridDim.x * BLOCK;
    float most = 0;
#pragma unroll 4
    for (int64_t i = (int64_t)blockIdx.x * BLOCK + threadIdx.x; i < n; i += step) {
        const uint4 v = x[i];
#pragma unroll
        for (int j = 0; j < EACH; j++) most = fmaxf(most, fabsf(number(v, j)));
    }
    const uint32_t of_warp = __reduce_max_sync(ALL_LANES, __float_as_uint(most));
    if (threadIdx.x % WARP == 0) atomicMax((uint32_t *)(z.g + blockIdx.y), of_warp);
}

static bool takes(const op *o, const op_types *t)
{
    const op_quantise z = op_quantise_of(o);
    const bool turned = o->out[OUT_QUANTISE_qt] >= 0;
    const bool form = (z.FORM == QUANT_BLOCK && z.TYPE == DTYPE_E4M3) ||
                      (z.FORM == QUANT_TENSOR && (z.TYPE == DTYPE_E4M3 || z.TYPE == DTYPE_E5M2));
    return cuda_types_fit(o, t) && form && t->in[IN_QUANTISE_x] == DTYPE_BF16 &&
           tiles_fit(z.M, z.K, z.E, turned);
}

/* The largest size, the codes, and what they are to be multiplied by again. */
static void by_tensor(const kernel_call *c, const in_memory &x, const quantising &z, int64_t parts,
                      bool wide)
{
    float *g = z.g;
    const float reach = wide ? 57344 : 448;
    const int64_t most = z.m * z.k / EACH / BLOCK / 4 + 1;
    const dim3 grid((unsigned)(most < 264 ? most : 264), (unsigned)z.of.n);
    cudaMemsetAsync(g, 0, (size_t)z.of.n * sizeof *g, stream_of(c));
    amax_kernel<<<grid, BLOCK, 0, stream_of(c)>>>(x.p, z);
    if (wide)
        tiles_launch<BY_TENSOR, true>(c, x, z, parts);
    else
        tiles_launch<BY_TENSOR, false>(c, x, z, parts);
    for_each(c, z.of.n,
             [=] __device__(int64_t e) { g[e] = __fdiv_rn(1, factor_of_amax(g[e], reach)); });
}

static void quantise(const kernel_call *c)
{
    const op_quantise o = op_quantise_of(c);
    const int64_t parts = o.offsets ? 1 : o.E;
    const bool square = o.SQUARE != 0;
    const in_memory x = {(const __nv_bfloat16 *)o.x.p, o.M, o.K};
    quantising z = copies_of(o, o.M, o.K, o.offsets, o.E, square);
    z.g = o.g;
    if (o.FORM == QUANT_TENSOR)
        by_tensor(c, x, z, parts, o.TYPE == DTYPE_E5M2);
    else if (square)
        tiles_launch<BY_SQUARES, false>(c, x, z, parts);
    else
        tiles_launch<BY_ROWS, false>(c, x, z, parts);
}

static status prepare(const op *o, const op_types *t, void **state, error *err)
{
    status (*const all[])(const op *, const op_types *, void **, error *) = {
        tiles_prepare<in_memory, BY_TENSOR, true>, tiles_prepare<in_memory, BY_TENSOR, false>,
        tiles_prepare<in_memory, BY_SQUARES, false>, tiles_prepare<in_memory, BY_ROWS, false>};
    for (auto one : all) {
        const status s = one(o, t, state, err);
        if (s != OK) return s;
    }
    return OK;
}

extern "C" cuda_part cuda_fast_quantise(void)
{
    static const kernel rows[] = {
        {.kind = OP_QUANTISE,
         .name = "wide",
         .accepts = takes,
         .prepare = prepare,
         .launch = quantise},
    };
    return PART(rows);
}

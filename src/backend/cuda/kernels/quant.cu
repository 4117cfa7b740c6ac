/* quant.cu - quantising, and GEMMs of quantised matrices a number at a time.
 *
 * I1  Scales and codes are those of the CPU, bit for bit: both use the functions of narrow.h, and
 *     the hardware's conversion to eight bits rounds and saturates as they do.
 * I2  A block of threads has a tile of 128 x 128 numbers and makes both copies of it: x is read
 *     once. All blocks of a form lie inside a tile. */
#include "backend/cuda/kernels/device.cuh"

#include <cuda_fp8.h>

#include "backend/cuda/kernels/quant.cuh"

enum { SIDE = 128, STRIDE = SIDE + 1, PARTS = SIDE / WARP };

/* ---- the factor of a tensor */

struct tensors {
    numbers x;
    const int32_t *offsets; /* [E+1] or none */
    int64_t n_experts, m, k;
    __device__ int64_t first(int64_t e) const
    {
        const int64_t row = offsets ? (offsets[e] < m ? offsets[e] : m) : e * m;
        return row * k;
    }
    __device__ int64_t end(int64_t e) const
    {
        const int64_t row = offsets ? (offsets[e + 1] < m ? offsets[e + 1] : m) : (e + 1) * m;
        return row * k;
    }
};

static __global__ void amax_kernel(tensors t, float *g)
{
    const int64_t e = blockIdx.y, end = t.end(e);
    float most = 0;
    for (int64_t i = t.first(e) + (int64_t)blockIdx.x * BLOCK + threadIdx.x; i < end;
         i += (int64_t)gridDim.x * BLOCK) {
        const float v = fabsf(get(t.x, i));
        if (v > most) most = v;
    }
    for (int s = WARP / 2; s > 0; s /= 2) {
        const float other = __shfl_xor_sync(ALL_LANES, most, s);
        if (other > most) most = other;
    }
    if (threadIdx.x % WARP == 0) atomicMax((int *)(g + e), __float_as_int(most)); /* not below 0 */
}

/* ---- a line of a tile */

struct copy {
    uint8_t *q; /* NULL: not wanted */
    void *s;
    quant_shape z; /* contiguous along columns */
};

/* Largest number of each lane's block of `side` neighbouring lanes. */
static __device__ float lanes_amax(float v, int side)
{
    for (int s = 1; s < side; s *= 2) {
        const float other = __shfl_xor_sync(ALL_LANES, v, s);
        if (other > v) v = other;
    }
    return v;
}

/* What a number is multiplied by, given the largest of its block; `writes` its scale. */
template <quant_form FORM>
static __device__ float times_of(const copy &c, dtype type, int64_t i, int64_t j, float amax,
                                 float factor, bool writes)
{
    if (FORM == QUANT_TENSOR) return factor;
    const quant_shape z = {FORM, c.z.square, c.z.rows, c.z.cols};
    const int64_t at = writes ? quant_scale_at(z, i, j) : 0;
    const float largest = narrow_format_of(type).largest;
    if (FORM == QUANT_NV) {
        const narrow_format e4m3 = narrow_format_of(DTYPE_E4M3);
        const uint8_t code = narrow_of_float(e4m3, __fmul_rn(__fdiv_rn(amax, largest), factor));
        if (writes) ((uint8_t *)c.s)[at] = code;
        return code ? __fdiv_rn(factor, narrow_to_float(e4m3, code)) : 0;
    }
    const float scale = scale_of_amax(amax, largest);
    if (writes && FORM == QUANT_MX) ((uint8_t *)c.s)[at] = e8m0_of_power(scale);
    if (writes && FORM == QUANT_BLOCK) ((float *)c.s)[at] = scale;
    return 1 / scale;
}

static __device__ uint8_t code_of(dtype type, float v)
{
    if (type == DTYPE_FP4) return narrow_of_float(narrow_format_of(type), v);
    return __nv_cvt_float_to_fp8(v, __NV_SATFINITE, type == DTYPE_E4M3 ? __NV_E4M3 : __NV_E5M2);
}

/* A warp encodes a line of up to 128 numbers of a tile: line i of the copy, from column j0 on.
 * get(c), factor(c): number and factor of column j0 + c. `square`: the scale's amax, or below 0. */
template <quant_form FORM, class G, class F>
static __device__ void encode_line(const copy &c, dtype type, int64_t i, int64_t j0, float square,
                                   const G &number, const F &factor)
{
    const int lane = (int)threadIdx.x % WARP;
    constexpr int side = FORM == QUANT_BLOCK ? 128
                         : FORM == QUANT_MX  ? 32
                         : FORM == QUANT_NV  ? 16
                                             : 0;
    const int64_t row = quant_row(type, c.z.cols);
    float v[PARTS], amax[PARTS], whole = 0;
#pragma unroll
    for (int p = 0; p < PARTS; p++) {
        v[p] = j0 + lane + p * WARP < c.z.cols ? number(lane + p * WARP) : 0;
        amax[p] = lanes_amax(fabsf(v[p]), side && side < WARP ? side : WARP);
        if (amax[p] > whole) whole = amax[p];
    }
#pragma unroll
    for (int p = 0; p < PARTS; p++) {
        const int64_t j = j0 + lane + p * WARP;
        const float most = square >= 0 ? square : side == SIDE ? whole : amax[p];
        const bool in = j < c.z.cols,
                   writes = in && side && (lane + p * WARP) % (side ? side : 1) == 0;
        const float times =
            in ? times_of<FORM>(c, type, i, j, most, factor(lane + p * WARP), writes) : 0;
        const uint8_t code = in ? code_of(type, __fmul_rn(v[p], times)) : 0;
        const uint8_t next = (uint8_t)__shfl_down_sync(ALL_LANES, (int)code, 1);
        if (!in) continue;
        if (type != DTYPE_FP4)
            c.q[i * row + j] = code;
        else if (j % 2 == 0)
            c.q[(i * row + j) / 2] = (uint8_t)(code | next << 4);
    }
}

/* ---- tiles */

struct quantising {
    numbers x;
    const int32_t *offsets;
    int64_t n_experts, m, k;
    dtype type;
    bool square;
    copy row, turned;            /* of the first part */
    int64_t codes[2], scales[2]; /* bytes from one part to the next */
    const float *g;              /* factors, or none */
};

static __device__ float tile_amax(const float *tile)
{
    __shared__ float each[WARPS];
    float most = 0;
    for (int i = (int)threadIdx.x; i < SIDE * SIDE; i += BLOCK) {
        const float v = fabsf(tile[i / SIDE * STRIDE + i % SIDE]);
        if (v > most) most = v;
    }
    most = lanes_amax(most, WARP);
    if (threadIdx.x % WARP == 0) each[threadIdx.x / WARP] = most;
    __syncthreads();
    for (int i = 0; i < WARPS; i++)
        if (each[i] > most) most = each[i];
    return most;
}

static __device__ copy copy_of_part(copy c, int64_t part, int64_t codes, int64_t scales)
{
    if (c.q) c.q += part * codes;
    if (c.s) c.s = (uint8_t *)c.s + part * scales;
    return c;
}

template <quant_form FORM> static __global__ void __launch_bounds__(BLOCK) tile_kernel(quantising z)
{
    extern __shared__ float tile[]; /* [SIDE][STRIDE] */
    __shared__ float factors[SIDE];
    const int64_t part = blockIdx.z, m0 = (int64_t)blockIdx.y * SIDE,
                  k0 = (int64_t)blockIdx.x * SIDE;
    const int64_t past = z.offsets ? z.offsets[z.n_experts] : z.m, end = past < z.m ? past : z.m;
    for (int i = (int)threadIdx.x; i < SIDE * SIDE; i += BLOCK) {
        const int64_t m = m0 + i / SIDE, k = k0 + i % SIDE;
        tile[i / SIDE * STRIDE + i % SIDE] =
            m < end && k < z.k ? get(z.x, (part * z.m + m) * z.k + k) : 0;
    }
    for (int i = (int)threadIdx.x; i < SIDE; i += BLOCK) {
        int64_t e = part;
        if (z.offsets)
            for (e = 0; e < z.n_experts - 1 && m0 + i >= z.offsets[e + 1];) e++;
        factors[i] = z.g ? z.g[e] : 1;
    }
    __syncthreads();
    const float square = z.square ? tile_amax(tile) : -1;
    const copy row = copy_of_part(z.row, part, z.codes[0], z.scales[0]);
    const copy turned = copy_of_part(z.turned, part, z.codes[1], z.scales[1]);
    for (int i = (int)threadIdx.x / WARP; row.q && i < SIDE && m0 + i < z.m; i += WARPS)
        encode_line<FORM>(
            row, z.type, m0 + i, k0, square, [&](int c) { return tile[i * STRIDE + c]; },
            [&](int) { return factors[i]; });
    for (int i = (int)threadIdx.x / WARP; turned.q && i < SIDE && k0 + i < z.k; i += WARPS)
        encode_line<FORM>(
            turned, z.type, k0 + i, m0, square, [&](int c) { return tile[c * STRIDE + i]; },
            [&](int c) { return factors[c]; });
}

static copy copy_of(const kernel_call *c, const op_quantise &o, bool turned, int64_t parts,
                    int64_t *codes, int64_t *scales)
{
    const quant_shape z = {(quant_form)o.FORM, o.SQUARE != 0, turned ? o.K : o.M,
                           turned ? o.M : o.K};
    const copy made = {(uint8_t *)(turned ? o.qt : o.q).p, (turned ? o.st : o.s).p, z};
    *codes = quant_code_bytes((dtype)o.TYPE, z.rows * quant_row((dtype)o.TYPE, z.cols));
    *scales = quant_scales(z) * (z.form == QUANT_BLOCK ? 4 : 1);
    if (made.s) /* what is rounded up is zero */
        cudaMemsetAsync(made.s, 0, (size_t)(parts * *scales), stream_of(c));
    return made;
}

static void quantise(const kernel_call *c)
{
    const op_quantise o = op_quantise_of(c);
    const int64_t parts = o.offsets ? 1 : o.E;
    const quant_form form = (quant_form)o.FORM;
    quantising z = {o.x, o.offsets, o.E, o.M, o.K, (dtype)o.TYPE, o.SQUARE != 0};
    if (o.M <= 0 || o.K <= 0 || o.E <= 0) return;
    z.row = copy_of(c, o, false, parts, &z.codes[0], &z.scales[0]);
    z.turned = copy_of(c, o, true, parts, &z.codes[1], &z.scales[1]);
    z.g = o.g;
    if (o.g) {
        float reach = narrow_format_of(z.type).largest;
        if (form == QUANT_NV) reach *= 448;
        const int64_t most = o.M * o.K / BLOCK / 16 + 1;
        const dim3 grid((unsigned)(most < 256 ? most : 256), (unsigned)o.E);
        cudaMemsetAsync(o.g, 0, (size_t)o.E * sizeof *o.g, stream_of(c));
        amax_kernel<<<grid, BLOCK, 0, stream_of(c)>>>({o.x, o.offsets, o.E, o.M, o.K}, o.g);
        for_each(c, o.E, [=] __device__(int64_t e) { o.g[e] = factor_of_amax(o.g[e], reach); });
    }
    const dim3 tiles((unsigned)quant_blocks(o.K, SIDE), (unsigned)quant_blocks(o.M, SIDE),
                     (unsigned)parts);
    const size_t shared = sizeof(float) * SIDE * STRIDE;
    auto *kernel = form == QUANT_BLOCK    ? tile_kernel<QUANT_BLOCK>
                   : form == QUANT_TENSOR ? tile_kernel<QUANT_TENSOR>
                   : form == QUANT_MX     ? tile_kernel<QUANT_MX>
                                          : tile_kernel<QUANT_NV>;
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
    kernel<<<tiles, BLOCK, shared, stream_of(c)>>>(z);
    if (o.g) for_each(c, o.E, [=] __device__(int64_t e) { o.g[e] = __fdiv_rn(1, o.g[e]); });
}

/* ---- GEMMs, a thread a number, sums in double */

static __device__ float value_of(const quant_side &v, int64_t i, int64_t j)
{
    const int64_t row = quant_row(v.type, v.z.cols), at = i * row + j;
    const uint8_t code = v.type == DTYPE_FP4 ? (uint8_t)(v.q[at / 2] >> (j % 2 * 4) & 15) : v.q[at];
    const float x = narrow_to_float(narrow_format_of(v.type), code), f = v.g ? v.g[0] : 1;
    if (!v.s) return x * f;
    const int64_t s = quant_scale_at(v.z, i, j);
    const float scale = v.z.form == QUANT_BLOCK ? ((const float *)v.s)[s]
                        : v.z.form == QUANT_MX  ? e8m0_to_float(((const uint8_t *)v.s)[s])
                                                : narrow_to_float(narrow_format_of(DTYPE_E4M3),
                                                                  ((const uint8_t *)v.s)[s]);
    return x * scale * f;
}

static void gemm(const kernel_call *c)
{
    const quant_gemm p = quant_gemm_of(c);
    for_each(c, p.parts_out * p.rows * p.cols, [=] __device__(int64_t i) {
        const int64_t part = i / (p.rows * p.cols), row = i / p.cols % p.rows, col = i % p.cols;
        int64_t e = part, first = 0, end = p.a.z.cols;
        if (p.offsets && !p.weights)
            for (e = 0; e < p.n_experts && row >= p.offsets[e + 1];) e++;
        if (p.offsets && p.weights) {
            const int64_t room = p.a.z.cols;
            first = p.offsets[e] < room ? p.offsets[e] : room;
            end = p.offsets[e + 1] < room ? p.offsets[e + 1] : room;
        }
        double sum = 0;
        if (e < p.n_experts) {
            const quant_side a = p.side_a(e), b = p.side_b(e);
            for (int64_t k = first; k < end; k++)
                sum += (double)value_of(a, row, k) * (double)value_of(b, col, k);
        }
        put_or_add(p.y, i, (float)sum, p.add);
    });
}

extern "C" cuda_part cuda_quant(void)
{
    static const kernel plain = {.name = "plain", .launch = gemm};
    static const kernel rows[] = {{.kind = OP_QUANTISE, .name = "tiles", .launch = quantise},
                                  row_of(OP_QGEMM, plain),
                                  row_of(OP_QGEMM_D, plain),
                                  row_of(OP_QGEMM_W, plain),
                                  row_of(OP_QGROUPED, plain),
                                  row_of(OP_QGROUPED_D, plain),
                                  row_of(OP_QGROUPED_W, plain)};
    return PART(rows);
}

/* fast_norm_back.cu - both gradients of a norm in one pass over rows in registers.
 *
 * Numbers of the gradient by x are those of the parts. Of the one by weights the order of sums is
 * another: a block has a run of rows, a thread its columns of every so many-th of them. */
#include "backend/cuda/kernels/registers.cuh"

enum { BACK_PIECES = 528, BACK_ROWS = 8 }; /* four blocks an SM; rows of a piece at least */

static int64_t back_pieces(int64_t m)
{
    const int64_t n = ceil_of(m, BACK_ROWS);
    return n < BACK_PIECES ? n : BACK_PIECES;
}

struct norm_back {
    numbers dy, x, w, dx; /* [M][H] in BF16 but w[H] */
    const float *rstd;    /* [M] */
    float *parts;         /* [pieces][H] */
    int64_t m, each;      /* rows of a piece */
    bool add;
    float plus;

    /* One row; sum[CHUNKS][8] takes what it adds to the gradient by weights. */
    template <int LANES, int CHUNKS>
    __device__ void row(int64_t i, int lane, bool there, float (*sum)[WIDE]) const
    {
        constexpr int h = LANES * CHUNKS * WIDE;
        const uint4 *of_x = (const uint4 *)((const __nv_bfloat16 *)x.p + i * h);
        const uint4 *of_dy = (const uint4 *)((const __nv_bfloat16 *)dy.p + i * h);
        const uint4 none = make_uint4(0, 0, 0, 0);
        const float r = there ? rstd[i] : 0;
        uint4 raw_x[CHUNKS], raw_d[CHUNKS];
        float dot = 0;
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            raw_x[c] = there ? of_x[c * LANES + lane] : none;
            raw_d[c] = there ? of_dy[c * LANES + lane] : none;
        }
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            const lanes<WIDE> v = unpack(raw_x[c]), d = unpack(raw_d[c]),
                              by = load<WIDE>(w, (c * LANES + lane) * WIDE);
#pragma unroll
            for (int k = 0; k < WIDE; k++) {
                dot += d.v[k] * (by.v[k] + plus) * v.v[k];
                sum[c][k] += d.v[k] * v.v[k] * r;
            }
        }
        const float along = r * r * r * sum_row<LANES>(dot) / (float)h;
        if (!there) return;
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            const int j = (c * LANES + lane) * WIDE;
            const lanes<WIDE> v = unpack(raw_x[c]), by = load<WIDE>(w, j);
            lanes<WIDE> d = unpack(raw_d[c]);
#pragma unroll
            for (int k = 0; k < WIDE; k++) d.v[k] = r * d.v[k] * (by.v[k] + plus) - v.v[k] * along;
            store_or_add(dx, i * h + j, d, add);
        }
    }
};

/* A block's rows, and the sum of its threads' columns, line after line. */
template <int LANES, int CHUNKS>
static __global__ void __launch_bounds__(ROW_BLOCK) norm_back_rows(norm_back f)
{
    constexpr int lines = ROW_BLOCK / LANES, h = LANES * CHUNKS * WIDE;
    const int lane = (int)threadIdx.x % LANES, line = (int)threadIdx.x / LANES;
    const int64_t first = blockIdx.x * f.each, past = first + f.each < f.m ? first + f.each : f.m;
    float sum[CHUNKS][WIDE] = {};
    for (int64_t i0 = first; i0 < past; i0 += lines) {
        const int64_t i = i0 + line;
        f.template row<LANES, CHUNKS>(i, lane, i < past, sum);
    }
    __shared__ float sums[h];
    float *to = f.parts + (int64_t)blockIdx.x * h;
    for (int l = 0; l < lines; l++) {
        for (int c = 0; line == l && c < CHUNKS; c++)
#pragma unroll
            for (int k = 0; k < WIDE; k++) {
                const int j = (c * LANES + lane) * WIDE + k;
                sums[j] = l ? sums[j] + sum[c][k] : sum[c][k];
                if (l == lines - 1) to[j] = sums[j];
            }
        __syncthreads();
    }
}

/* The same for wide rows, a block a row: a thread has 8 or 16 columns, whose weights and sums stay
 * in registers, and the next row is on its way while one is computed. */
enum { WIDE_ROW = 1024, ROW_STEP = WARP * WIDE, WIDEST = 512, WIDEST_ALONE = 768 }; /* threads */

/* Over all threads of a block; each gets it. Rows take the two places in turn, so that a barrier a
 * row is enough. */
static __device__ __forceinline__ float sum_threads(float v, int place)
{
    __shared__ float parts[2][WARP];
    v = sum_warp(v);
    if (threadIdx.x % WARP == 0) parts[place][threadIdx.x / WARP] = v;
    __syncthreads();
    float all = 0;
    for (int i = 0; i < (int)blockDim.x / WARP; i++) all += parts[place][i];
    return all;
}

template <int CHUNKS>
static __global__ void __launch_bounds__(CHUNKS == 1 ? WIDEST_ALONE : WIDEST)
    norm_back_wide(norm_back f)
{
    const int threads = (int)blockDim.x, own = (int)threadIdx.x, pieces = threads * CHUNKS;
    const int64_t first = blockIdx.x * f.each, past = first + f.each < f.m ? first + f.each : f.m;
    const uint4 *from_x = (const uint4 *)f.x.p, *from_d = (const uint4 *)f.dy.p;
    lanes<WIDE> by[CHUNKS];
    float sum[CHUNKS][WIDE] = {};
    uint4 x[CHUNKS], d[CHUNKS];
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        const int j = c * threads + own;
        by[c] = load<WIDE>(f.w, j * WIDE);
#pragma unroll
        for (int k = 0; k < WIDE; k++) by[c].v[k] += f.plus;
        x[c] = from_x[first * pieces + j];
        d[c] = from_d[first * pieces + j];
    }
    for (int64_t i = first; i < past; i++) {
        const int64_t next = i + 1 < past ? i + 1 : i;
        uint4 next_x[CHUNKS], next_d[CHUNKS], old[CHUNKS];
        const float r = f.rstd[i];
        float dot = 0;
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            const int j = c * threads + own;
            if (f.add) old[c] = ((const uint4 *)f.dx.p)[i * pieces + j];
            next_x[c] = from_x[next * pieces + j];
            next_d[c] = from_d[next * pieces + j];
        }
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            const lanes<WIDE> v = unpack(x[c]), g = unpack(d[c]);
#pragma unroll
            for (int k = 0; k < WIDE; k++) {
                dot += g.v[k] * by[c].v[k] * v.v[k];
                sum[c][k] += g.v[k] * v.v[k] * r;
            }
        }
        const float along =
            r * r * r * sum_threads(dot, (int)(i - first) % 2) / (float)(pieces * WIDE);
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            const lanes<WIDE> v = unpack(x[c]);
            lanes<WIDE> g = unpack(d[c]), was = {};
            if (f.add) was = unpack(old[c]);
#pragma unroll
            for (int k = 0; k < WIDE; k++)
                g.v[k] = was.v[k] + (r * g.v[k] * by[c].v[k] - v.v[k] * along);
            ((uint4 *)f.dx.p)[i * pieces + c * threads + own] = pack(g);
            x[c] = next_x[c];
            d[c] = next_d[c];
        }
    }
#pragma unroll
    for (int c = 0; c < CHUNKS; c++)
#pragma unroll
        for (int k = 0; k < WIDE; k++)
            f.parts[((int64_t)blockIdx.x * pieces + c * threads + own) * WIDE + k] = sum[c][k];
}

/* Chunks of a thread; 0: it is no such row. */
static int wide_chunks(int64_t h)
{
    const int64_t pieces = h / WIDE;
    if (h < WIDE_ROW || h % ROW_STEP != 0) return 0;
    if (h >= 2 * WIDE_ROW && h % (2 * ROW_STEP) == 0 && pieces <= 2 * WIDEST) return 2;
    return pieces <= WIDEST_ALONE;
}

static void run_wide(const kernel_call *c, int64_t h, const norm_back &f)
{
    const unsigned blocks = (unsigned)ceil_of(f.m, f.each), pieces = (unsigned)(h / WIDE);
    if (wide_chunks(h) == 2)
        norm_back_wide<2><<<blocks, pieces / 2, 0, stream_of(c)>>>(f);
    else
        norm_back_wide<1><<<blocks, pieces, 0, stream_of(c)>>>(f);
}

struct norm_back_launch {
    const kernel_call *c;
    const norm_back &f;
    template <int LANES, int CHUNKS> void go() const
    {
        const unsigned blocks = (unsigned)ceil_of(f.m, f.each);
        norm_back_rows<LANES, CHUNKS><<<blocks, ROW_BLOCK, 0, stream_of(c)>>>(f);
    }
};

static bool norm_back_fits(const op *o, const op_types *t)
{
    return all_bf16(o, t, IN_NORM_BACK_w, OUT_NORM_BACK_dw) && o->in[IN_NORM_BACK_w] >= 0 &&
           is_wide(o, t, OUT_NORM_BACK_dw) && o->out[OUT_NORM_BACK_dw] >= 0 &&
           o->dim[DIM_NORM_BACK_M] > 0 &&
           (width_fits(o->dim[DIM_NORM_BACK_H]) || wide_chunks(o->dim[DIM_NORM_BACK_H]));
}

static int64_t norm_back_bytes(const op *o, const op_types *)
{
    return room_of(back_pieces(o->dim[DIM_NORM_BACK_M]) * o->dim[DIM_NORM_BACK_H] * 4);
}

static void norm_gradients(const kernel_call *c)
{
    const op_norm_back o = op_norm_back_of(c);
    const int64_t each = ceil_of(o.M, back_pieces(o.M));
    const norm_back f = {o.dy,
                         o.x,
                         o.w,
                         o.dx,
                         o.rstd,
                         (float *)c->workspace,
                         o.M,
                         each,
                         (o.flags & ACCUMULATE) != 0,
                         o.flags & ZERO_CENTRED ? 1.f : 0.f};
    if (wide_chunks(o.H))
        run_wide(c, o.H, f);
    else
        with_width(o.H, norm_back_launch{c, f});
    add_pieces<WARP><<<(unsigned)ceil_of(o.H, WARP), WARP * WARP, 0, stream_of(c)>>>(
        f.parts, ceil_of(o.M, each), o.H, o.dw.floats());
}

extern "C" cuda_part cuda_fast_norm_back(void)
{
    static const kernel rows[] = {
        {.kind = OP_NORM_BACK,
         .name = "registers",
         .accepts = norm_back_fits,
         .workspace = norm_back_bytes,
         .launch = norm_gradients},
    };
    return PART(rows);
}

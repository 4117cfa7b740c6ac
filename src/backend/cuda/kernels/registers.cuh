/* registers.cuh - rows of BF16 numbers in registers.
 *
 * A row has LANES threads with CHUNKS times 8 numbers each: half a warp for rows of 128, a warp up
 * to 2,048, four warps beyond. Each number is read once, and all of a row's loads are on their way
 * before the first is used. Of the last chunk there may be a part (2,880 numbers are 2.8 chunks of
 * four warps) where a row function asks for it: any_width_fits. */
#ifndef BACKEND_CUDA_KERNELS_REGISTERS_CUH
#define BACKEND_CUDA_KERNELS_REGISTERS_CUH

#include "backend/cuda/kernels/device.cuh"

enum { WIDE = 8, ROW_BLOCK = 128, CHUNKS_MOST = 8 };

static __device__ __forceinline__ lanes<WIDE> unpack(uint4 p)
{
    const uint32_t pair[4] = {p.x, p.y, p.z, p.w};
    lanes<WIDE> a;
#pragma unroll
    for (int k = 0; k < WIDE; k++)
        a.v[k] = __uint_as_float(k % 2 ? pair[k / 2] & 0xffff0000u : pair[k / 2] << 16);
    return a;
}

static __device__ __forceinline__ uint4 pack(const lanes<WIDE> &a)
{
    uint32_t pair[4];
#pragma unroll
    for (int k = 0; k < 4; k++) {
        const __nv_bfloat162 two = __floats2bfloat162_rn(a.v[2 * k], a.v[2 * k + 1]);
        pair[k] = *(const uint32_t *)&two;
    }
    return make_uint4(pair[0], pair[1], pair[2], pair[3]);
}

/* Over the threads of a row; each gets it. Those of a block all call it. */
template <int LANES> static __device__ float sum_row(float v)
{
    constexpr int width = LANES < WARP ? LANES : WARP;
#pragma unroll
    for (int step = width / 2; step > 0; step /= 2) v += __shfl_xor_sync(ALL_LANES, v, step);
    if (LANES <= WARP) return v;
    __shared__ float parts[ROW_BLOCK / WARP];
    __syncthreads(); /* who still reads the last sum */
    if (threadIdx.x % WARP == 0) parts[threadIdx.x / WARP] = v;
    __syncthreads();
    float all = 0;
    for (int i = 0; i < ROW_BLOCK / WARP; i++) all += parts[i];
    return all;
}

/* Row i of some [M][h]: CHUNKS times 8 numbers for each of its LANES threads. */
template <int LANES, int CHUNKS> struct register_row {
    enum { W = WIDE };
    struct spot {
        int j, chunk; /* column, and which of the thread's */
    };
    int64_t i, h;
    int thread;
    bool there; /* if not, it reads zeros, so that all threads of a block can sum */

    struct operand {
        uint4 raw[CHUNKS];
        __device__ __forceinline__ lanes<W> operator()(spot at) const
        {
            return unpack(raw[at.chunk]);
        }
    };

    /* Its numbers of x, all on their way; zeros behind the end. */
    __device__ __forceinline__ operand of(numbers x) const
    {
        const uint4 *from = (const uint4 *)((const __nv_bfloat16 *)x.p + i * h);
        operand v;
#pragma unroll
        for (int c = 0; c < CHUNKS; c++)
            v.raw[c] = there && (c * LANES + thread) * W < h ? from[c * LANES + thread]
                                                             : make_uint4(0, 0, 0, 0);
        return v;
    }

    template <class F> __device__ __forceinline__ void each(const F &f) const
    {
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            const int j = (c * LANES + thread) * W;
            if (j >= h) break;
            f(spot{j, c});
        }
    }

    __device__ __forceinline__ float sum(float v) const
    {
        return sum_row<LANES>(v);
    }
};

template <int LANES, int CHUNKS, class F>
static __global__ void __launch_bounds__(ROW_BLOCK) register_rows(F f)
{
    constexpr int each = ROW_BLOCK / LANES;
    const int lane = (int)threadIdx.x % LANES;
    for (int64_t i0 = (int64_t)blockIdx.x * each; i0 < f.M; i0 += (int64_t)gridDim.x * each) {
        const int64_t i = i0 + threadIdx.x / LANES;
        f.of(register_row<LANES, CHUNKS>{i, f.H, lane, i < f.M});
    }
}

/* dw[h] += sums over pieces of rows, [pieces][h]. A block has LINES columns and as many pieces at a
 * time: a thread a column would leave most of the GPU without work. */
template <int LINES>
static __global__ void add_pieces(const float *parts, int64_t pieces, int64_t h, float *dw)
{
    __shared__ float sums[LINES][LINES + 1];
    const int lane = (int)threadIdx.x % LINES, line = (int)threadIdx.x / LINES;
    const int64_t j = blockIdx.x * (int64_t)LINES + lane;
    float sum = 0;
    for (int64_t i = line; j < h && i < pieces; i += LINES) sum += parts[i * h + j];
    sums[line][lane] = sum;
    __syncthreads();
    if (line != 0 || j >= h) return;
    for (int l = 1; l < LINES; l++) sum += sums[l][lane];
    dw[j] += sum;
}

/* ---- which rows, and how they are cut */

static bool width_fits(int64_t h)
{
    const int64_t warp = WARP * WIDE, block = ROW_BLOCK * WIDE;
    return h == warp / 2 || (h > 0 && h % warp == 0 && h <= CHUNKS_MOST * warp) ||
           (h > 0 && h % block == 0 && h <= CHUNKS_MOST * block);
}

/* The same, and others that leave at most a fourth of the threads without work. */
static bool any_width_fits(int64_t h)
{
    const int64_t most = CHUNKS_MOST * WARP * WIDE,
                  chunk = WIDE * (h <= most ? (int)WARP : (int)ROW_BLOCK);
    return width_fits(h) || (h > 0 && h % WIDE == 0 && h <= CHUNKS_MOST * ROW_BLOCK * WIDE &&
                             4 * h >= 3 * ceil_of(h, chunk) * chunk);
}

/* Rows of CHUNKS times `LANES * 8`, found from most chunks to few. */
template <int LANES, int CHUNKS, class G> static void with_chunks(int64_t chunks, const G &g)
{
    if (chunks == CHUNKS) {
        g.template go<LANES, CHUNKS>();
    } else if constexpr (CHUNKS > 1) {
        with_chunks<LANES, CHUNKS - 1>(chunks, g);
    }
}

/* g.go<LANES, CHUNKS>() for rows of h. */
template <class G> static void with_width(int64_t h, const G &g)
{
    const int64_t warp = WARP * WIDE, block = ROW_BLOCK * WIDE;
    if (h == warp / 2)
        g.template go<WARP / 2, 1>();
    else if (h <= CHUNKS_MOST * warp)
        with_chunks<WARP, CHUNKS_MOST>(ceil_of(h, warp), g);
    else
        with_chunks<ROW_BLOCK, CHUNKS_MOST>(ceil_of(h, block), g);
}

template <class F> struct rows_launch {
    const kernel_call *c;
    const F &f;
    template <int LANES, int CHUNKS> void go() const
    {
        const unsigned blocks = blocks_of(ceil_of(f.M, ROW_BLOCK / LANES));
        register_rows<LANES, CHUNKS><<<blocks, ROW_BLOCK, 0, stream_of(c)>>>(f);
    }
};

/* F(call).of(row) for its rows [M][H]. */
template <class F> static void in_registers(const kernel_call *c)
{
    F f;
    operands(c, &f);
    with_width(f.H, rows_launch<F>{c, f});
}

#endif

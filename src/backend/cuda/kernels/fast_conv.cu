/* fast_conv.cu - the convolution along S with four taps, in BF16.
 *
 * A thread has 8 channels of a run of tokens of one sequence. It walks along the run with what four
 * tokens need in registers, so that a number is read once and not once for each tap; the tokens
 * around a run, at most three on either side, are read again. It walks four tokens at a time, whose
 * loads are on their way before the first is used; a token beyond the last is zeros, which add
 * nothing. */
#include "backend/cuda/kernels/columns.cuh"
#include "backend/cuda/kernels/registers.cuh"

enum { TAPS = 4, RUN = 32, THREADS = 128 };

struct conv {
    const __nv_bfloat16 *x; /* [B*S][C] */
    numbers w;              /* [C][TAPS] */
    int64_t b, s, c;
    __host__ __device__ int64_t runs() const
    {
        return b * ((s + RUN - 1) / RUN);
    }
};

/* Tokens of a run, and where its sequence starts and ends. */
struct run {
    int64_t first, past, start, end;
};

static __device__ run run_of(const conv &v, int64_t r)
{
    const int64_t each = (v.s + RUN - 1) / RUN, start = r / each * v.s,
                  first = start + r % each * RUN, end = start + v.s;
    return {first, first + RUN < end ? first + RUN : end, start, end};
}

static __device__ __forceinline__ uint4 raw_at(const __nv_bfloat16 *x, int64_t i, bool there)
{
    return there ? __ldg((const uint4 *)(x + i)) : make_uint4(0, 0, 0, 0);
}

/* One multiply and two approximations: five units in the last place of FP32, of results that are
 * rounded to BF16. */
static __device__ __forceinline__ float short_sigmoid(float x)
{
    return __fdividef(1, 1 + __expf(-x));
}

/* Eight channels from j on, token after token. */
struct walk {
    lanes<WIDE> w[TAPS], last[TAPS]; /* weights; x of the last tokens, the newest at the end */

    __device__ walk(const conv &v, const run &r, int64_t j)
    {
#pragma unroll
        for (int p = 0; p < TAPS; p++) {
            const lanes<WIDE> part = load<WIDE>(v.w, j * TAPS + p * WIDE);
#pragma unroll
            for (int k = 0; k < WIDE; k++) w[k % TAPS].v[(p * WIDE + k) / TAPS] = part.v[k];
        }
        /* The first shift moves these to their places. */
#pragma unroll
        for (int i = 1; i < TAPS; i++) {
            const int64_t t = r.first - TAPS + i;
            last[i] = unpack(raw_at(v.x, t * v.c + j, t >= r.start));
        }
    }

    /* The sum before silu, of the next token, whose x is given. */
    __device__ lanes<WIDE> next(const lanes<WIDE> &x)
    {
        lanes<WIDE> sum;
#pragma unroll
        for (int i = 0; i + 1 < TAPS; i++) last[i] = last[i + 1];
        last[TAPS - 1] = x;
#pragma unroll
        for (int k = 0; k < WIDE; k++) {
            sum.v[k] = 0;
#pragma unroll
            for (int i = 0; i < TAPS; i++) sum.v[k] += last[i].v[k] * w[i].v[k];
        }
        return sum;
    }
};

static __global__ void __launch_bounds__(THREADS) forward_kernel(conv v, __nv_bfloat16 *y)
{
    const int64_t groups = v.c / WIDE, i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= v.runs() * groups) return;
    const run r = run_of(v, i / groups);
    const int64_t j = i % groups * WIDE;
    walk along(v, r, j);
    for (int64_t t0 = r.first; t0 < r.past; t0 += TAPS) {
        uint4 x[TAPS];
#pragma unroll
        for (int i = 0; i < TAPS; i++) x[i] = raw_at(v.x, (t0 + i) * v.c + j, t0 + i < r.past);
#pragma unroll
        for (int i = 0; i < TAPS; i++) {
            lanes<WIDE> z = along.next(unpack(x[i]));
#pragma unroll
            for (int k = 0; k < WIDE; k++) z.v[k] *= short_sigmoid(z.v[k]);
            if (t0 + i < r.past) *(uint4 *)(y + (t0 + i) * v.c + j) = pack(z);
        }
    }
}

/* The gradient of the sum before silu. */
static __device__ lanes<WIDE> before_silu(lanes<WIDE> dy, const lanes<WIDE> &z)
{
#pragma unroll
    for (int k = 0; k < WIDE; k++) {
        const float s = short_sigmoid(z.v[k]);
        dy.v[k] *= s * (1 + z.v[k] * (1 - s));
    }
    return dy;
}

/* Tap i has carried token t to the token TAPS - 1 - i on, so dx of a token is known three later. */
static __global__ void __launch_bounds__(THREADS)
    gradient_kernel(conv v, const __nv_bfloat16 *dy, __nv_bfloat16 *dx)
{
    const int64_t groups = v.c / WIDE, i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= v.runs() * groups) return;
    const run r = run_of(v, i / groups);
    const int64_t j = i % groups * WIDE;
    walk along(v, r, j);
    const int64_t seen = r.past + TAPS - 1 < r.end ? r.past + TAPS - 1 : r.end;
    lanes<WIDE> dz[TAPS] = {};
    for (int64_t t0 = r.first; t0 < r.past + TAPS - 1; t0 += TAPS) {
        uint4 x[TAPS], d[TAPS];
#pragma unroll
        for (int i = 0; i < TAPS; i++) {
            x[i] = raw_at(v.x, (t0 + i) * v.c + j, t0 + i < seen);
            d[i] = raw_at(dy, (t0 + i) * v.c + j, t0 + i < seen);
        }
#pragma unroll
        for (int i = 0; i < TAPS; i++) {
            const int64_t t = t0 + i - (TAPS - 1);
            lanes<WIDE> sum = {};
#pragma unroll
            for (int k = 0; k + 1 < TAPS; k++) dz[k] = dz[k + 1];
            dz[TAPS - 1] = before_silu(unpack(d[i]), along.next(unpack(x[i])));
#pragma unroll
            for (int on = 0; on < TAPS; on++)
#pragma unroll
                for (int k = 0; k < WIDE; k++)
                    sum.v[k] += dz[on].v[k] * along.w[TAPS - 1 - on].v[k];
            if (t >= r.first && t < r.past) *(uint4 *)(dx + t * v.c + j) = pack(sum);
        }
    }
}

/* parts[piece][C][TAPS]. A block has 256 channels of a piece of the runs, 8 runs at a time. */
static __global__ void __launch_bounds__(BLOCK)
    weights_kernel(conv v, const __nv_bfloat16 *dy, int64_t each, float *parts)
{
    __shared__ float sums[WARPS][TAPS * WIDE][WARP];
    const int lane = (int)threadIdx.x % WARP, line = (int)threadIdx.x / WARP;
    const int64_t j = ((int64_t)blockIdx.x * WARP + lane) * WIDE, first = blockIdx.y * each;
    const int64_t past = first + each < v.runs() ? first + each : v.runs();
    float sum[TAPS * WIDE] = {};
    for (int64_t i = first + line; j < v.c && i < past; i += WARPS) {
        const run r = run_of(v, i);
        walk along(v, r, j);
        for (int64_t t0 = r.first; t0 < r.past; t0 += TAPS) {
            uint4 x[TAPS], d[TAPS];
#pragma unroll
            for (int n = 0; n < TAPS; n++) {
                x[n] = raw_at(v.x, (t0 + n) * v.c + j, t0 + n < r.past);
                d[n] = raw_at(dy, (t0 + n) * v.c + j, t0 + n < r.past);
            }
#pragma unroll
            for (int n = 0; n < TAPS; n++) {
                const lanes<WIDE> z = along.next(unpack(x[n])), dz = before_silu(unpack(d[n]), z);
#pragma unroll
                for (int k = 0; k < TAPS * WIDE; k++)
                    sum[k] += dz.v[k / TAPS] * along.last[k % TAPS].v[k / TAPS];
            }
        }
    }
#pragma unroll
    for (int k = 0; k < TAPS * WIDE; k++) sums[line][k][lane] = sum[k];
    __syncthreads();
    if (j >= v.c) return;
    for (int k = line; k < TAPS * WIDE; k += WARPS) {
        float all = 0;
        for (int l = 0; l < WARPS; l++) all += sums[l][k][lane];
        parts[blockIdx.y * v.c * TAPS + j * TAPS + k] = all;
    }
}

/* ---- rows */

static bool sizes_fit(const op *o)
{
    const op_conv z = op_conv_of(o); /* both gradients have the same sizes */
    return z.TAPS == TAPS && z.C % WIDE == 0 && z.C > 0 && z.B > 0 && z.S > 0;
}

static bool forward_fits(const op *o, const op_types *t)
{
    return all_bf16(o, t, IN_CONV_w, OUT_CONV_y + 1) && sizes_fit(o);
}

static bool gradient_fits(const op *o, const op_types *t)
{
    return all_bf16(o, t, IN_CONV_D_w, OUT_CONV_D_dx + 1) && sizes_fit(o);
}

static bool weights_fit(const op *o, const op_types *t)
{
    return all_bf16(o, t, IN_CONV_W_w, 0) && sums_wide(o, t) && sizes_fit(o);
}

template <class O> static conv conv_of(const O &o)
{
    return {(const __nv_bfloat16 *)o.x.p, o.w, o.B, o.S, o.C};
}

static unsigned blocks_for(const conv &v)
{
    return (unsigned)ceil_of(v.runs() * (v.c / WIDE), THREADS);
}

static void forward(const kernel_call *c)
{
    const op_conv o = op_conv_of(c);
    const conv v = conv_of(o);
    forward_kernel<<<blocks_for(v), THREADS, 0, stream_of(c)>>>(v, (__nv_bfloat16 *)o.y.p);
}

static void gradient(const kernel_call *c)
{
    const op_conv_d o = op_conv_d_of(c);
    const conv v = conv_of(o);
    gradient_kernel<<<blocks_for(v), THREADS, 0, stream_of(c)>>>(v, (const __nv_bfloat16 *)o.dy.p,
                                                                 (__nv_bfloat16 *)o.dx.p);
}

/* Pieces have 8 runs at least, one for each line of a block. */
static int64_t pieces_of(int64_t runs)
{
    const int64_t n = ceil_of(runs, WARPS);
    return n < CUTS ? n : CUTS;
}

static int64_t weights_bytes(const op *o, const op_types *)
{
    const conv v = conv_of(op_conv_w_of(o));
    return room_of(pieces_of(v.runs()) * v.c * TAPS * 4);
}

static void weights(const kernel_call *c)
{
    const op_conv_w o = op_conv_w_of(c);
    const conv v = conv_of(o);
    const int64_t pieces = pieces_of(v.runs()), columns = v.c * TAPS;
    const dim3 grid((unsigned)ceil_of(v.c, WARP * WIDE), (unsigned)pieces);
    float *parts = (float *)c->workspace; /* [pieces][C][TAPS] */
    weights_kernel<<<grid, BLOCK, 0, stream_of(c)>>>(v, (const __nv_bfloat16 *)o.dy.p,
                                                     ceil_of(v.runs(), pieces), parts);
    add_pieces<WARP><<<(unsigned)ceil_of(columns, WARP), WARP * WARP, 0, stream_of(c)>>>(
        parts, pieces, columns, o.dw.floats());
}

extern "C" cuda_part cuda_fast_conv(void)
{
    static const kernel rows[] = {
        {.kind = OP_CONV, .name = "registers", .accepts = forward_fits, .launch = forward},
        {.kind = OP_CONV_D, .name = "registers", .accepts = gradient_fits, .launch = gradient},
        {.kind = OP_CONV_W,
         .name = "registers",
         .accepts = weights_fit,
         .workspace = weights_bytes,
         .launch = weights},
    };
    return PART(rows);
}

/* fast_attention.cu - causal attention in BF16 by cuDNN (sdpa.h).
 *
 * T1  The statistics are ours as they are: cuDNN writes and reads lse[B*S][N] by its strides.
 * T2  A sink is one more logit without value, so it only makes weights smaller: it is put in after
 *     the forward pass, o times exp(lse - lse') with lse' = log(exp(lse) + exp(sink)). The
 *     gradients by q, k and v then come out of lse' and the scaled o without knowing of it.
 * T3  The gradient of queries is summed with atomics, the one sum here whose order is not fixed;
 *     with FIXED_ORDER cuDNN keeps the gradient of all scores instead, up to SCORES_MOST bytes of
 *     them. Longer sequences are the plain row's then. */
#include "backend/cuda/kernels/attention_room.h"
#include "backend/cuda/kernels/device.cuh"

static const int64_t SCORES_MOST = (int64_t)16 << 30;

static sdpa_shape shape_of(const op *o)
{
    const op_attn z = op_attn_of(o); /* its gradient has the same sizes */
    return {z.B, z.N, z.G, z.S, z.D, z.DV, z.WINDOW < z.S ? z.WINDOW : 0};
}

static bool takes(const op *o, const op_types *t)
{
    const sdpa_shape z = shape_of(o);
    return all_bf16(o, t, IN_ATTN_sinks, OUT_ATTN_lse) && o->out[OUT_ATTN_lse] >= 0 &&
           sdpa_takes(&z);
}

static bool takes_gradient(const op *o, const op_types *t)
{
    const sdpa_shape z = shape_of(o);
    return all_bf16(o, t, IN_ATTN_D_lse, OUT_ATTN_D_dsinks) && is_wide(o, t, OUT_ATTN_D_dsinks) &&
           sdpa_takes(&z);
}

static sdpa_pass pass_of(const op *o)
{
    return o->kind == OP_ATTN       ? SDPA_FORWARD
           : o->flags & FIXED_ORDER ? SDPA_DETERMINISTIC
                                    : SDPA_BACKWARD;
}

static bool takes_fast(const op *o, const op_types *t)
{
    return takes_gradient(o, t) && pass_of(o) == SDPA_BACKWARD;
}

static bool takes_deterministic(const op *o, const op_types *t)
{
    const sdpa_shape z = shape_of(o);
    return takes_gradient(o, t) && pass_of(o) == SDPA_DETERMINISTIC &&
           2 * z.b * z.h * z.s * z.s <= SCORES_MOST;
}

/* ---- plans */

static status prepare(const op *o, const op_types *, void **state, error *err)
{
    const sdpa_shape z = shape_of(o);
    return sdpa_plan_within((sdpa_plan **)state, &z, pass_of(o),
                            o->name ? o->name : op_infos[o->kind].name, err);
}

static void release(void *state)
{
    sdpa_plan_free((sdpa_plan *)state);
}

/* The workspace of a gradient: dO times O, the FP32 sum of dQ, and cuDNN's. */
static int64_t dots_bytes(const sdpa_shape &z)
{
    return room_of(4 * z.b * z.h * z.s);
}

static int64_t sum_bytes(const sdpa_shape &z, sdpa_pass pass)
{
    return pass == SDPA_BACKWARD ? room_of(4 * z.b * z.h * z.s * z.d) : 0;
}

static int64_t bytes(const op *o, const op_types *)
{
    const sdpa_shape z = shape_of(o);
    const sdpa_pass pass = pass_of(o);
    const int64_t ours = pass == SDPA_FORWARD ? 0 : dots_bytes(z) + sum_bytes(z, pass);
    return ours + sdpa_library_bytes(&z, pass);
}

/* ---- forward */

/* o[rows][DV] in BF16, lse[rows], sinks[N]; a row has LANES threads of a warp, 8 numbers each: a
 * whole warp a row would leave most of it without work where heads are of 64. */
template <int LANES>
static __global__ void __launch_bounds__(BLOCK)
    sink_rows(numbers o, numbers sinks, float *lse, int64_t rows, int64_t n, int64_t dv)
{
    const int64_t i = ((int64_t)blockIdx.x * BLOCK + threadIdx.x) / LANES;
    const int64_t j = threadIdx.x % LANES * 8;
    const bool there = i < rows;
    float all = 0;
    if (there) {
        const float seen = lse[i], sink = get(sinks, i % n), most = fmaxf(seen, sink);
        all = most + log1pf(expf(fminf(seen, sink) - most));
        const float kept = expf(seen - all);
        if (j < dv) {
            lanes<8> x = load<8>(o, i * dv + j);
#pragma unroll
            for (int k = 0; k < 8; k++) x.v[k] *= kept;
            store(o, i * dv + j, x);
        }
    }
    __syncwarp(); /* all of the row have read lse */
    if (there && j == 0) lse[i] = all;
}

template <int LANES>
static void put_sinks(const kernel_call *c, const op_attn &o, int64_t rows, int64_t n, int64_t dv)
{
    if constexpr (LANES < WARP)
        if (dv > LANES * 8) return put_sinks<2 * LANES>(c, o, rows, n, dv);
    sink_rows<LANES><<<(unsigned)ceil_of(rows * LANES, BLOCK), BLOCK, 0, stream_of(c)>>>(
        o.o, o.sinks, o.lse, rows, n, dv);
}

static void forward(const kernel_call *c)
{
    const sdpa_shape z = shape_of(c->o);
    const op_attn o = op_attn_of(c);
    void *at[SDPA_IDS] = {};
    at[SDPA_Q] = o.q.p;
    at[SDPA_K] = o.k.p;
    at[SDPA_V] = o.v.p;
    at[SDPA_O] = o.o.p;
    at[SDPA_STATS] = o.lse;
    if (!sdpa_run((const sdpa_plan *)c->state, at, o.scale, c->workspace, c->stream))
        launch_failed(c);
    else if (o.sinks.p)
        put_sinks<2>(c, o, z.b * z.s * z.h, z.h, z.d_v);
}

/* ---- gradients */

enum { SINK_THREADS = 1024 };

/* dsinks[n] -= sum over queries of exp(sink - lse) times dO * O: a block a head. */
static __global__ void __launch_bounds__(SINK_THREADS)
    sinks_kernel(const float *dots, const float *lse, numbers sinks, sdpa_shape z, float *dsinks)
{
    __shared__ float sums[SINK_THREADS / WARP];
    const int64_t head = blockIdx.x;
    const uint32_t s = (uint32_t)z.s, n = (uint32_t)(z.b * z.s);
    const float sink = get(sinks, head);
    float sum = 0;
#pragma unroll 8
    for (uint32_t i = threadIdx.x; i < n; i += SINK_THREADS) {
        const int64_t b = i / s, t = i % s;
        sum += expf(sink - lse[i * z.h + head]) * dots[(b * z.h + head) * z.s + t];
    }
    sum = sum_warp(sum);
    if (threadIdx.x % WARP == 0) sums[threadIdx.x / WARP] = sum;
    __syncthreads();
    if (threadIdx.x > 0) return;
    for (int w = 1; w < SINK_THREADS / WARP; w++) sum += sums[w];
    dsinks[head] -= sum;
}

static void backward(const kernel_call *c)
{
    const sdpa_shape z = shape_of(c->o);
    const sdpa_pass pass = pass_of(c->o);
    const op_attn_d o = op_attn_d_of(c);
    char *dots = (char *)c->workspace, *sum = dots + dots_bytes(z);
    void *at[SDPA_IDS] = {};
    at[SDPA_Q] = o.q.p;
    at[SDPA_K] = o.k.p;
    at[SDPA_V] = o.v.p;
    at[SDPA_O] = o.o.p;
    at[SDPA_STATS] = (void *)o.lse;
    at[SDPA_DO] = o.do_.p;
    at[SDPA_DQ] = o.dq.p;
    at[SDPA_DK] = o.dk.p;
    at[SDPA_DV] = o.dv.p;
    at[SDPA_DO_O] = dots;
    at[SDPA_DQ_SUM] = sum;
    if (!sdpa_run((const sdpa_plan *)c->state, at, o.scale, sum + sum_bytes(z, pass), c->stream))
        launch_failed(c);
    else if (o.dsinks.p)
        sinks_kernel<<<(unsigned)z.h, SINK_THREADS, 0, stream_of(c)>>>(
            (const float *)dots, o.lse, o.sinks, z, o.dsinks.floats());
}

extern "C" cuda_part cuda_fast_attention(void)
{
    static const kernel rows[] = {
        {.kind = OP_ATTN,
         .name = "cudnn",
         .accepts = takes,
         .prepare = prepare,
         .release = release,
         .workspace = bytes,
         .launch = forward},
        {.kind = OP_ATTN_D,
         .name = "cudnn, atomics",
         .accepts = takes_fast,
         .prepare = prepare,
         .release = release,
         .workspace = bytes,
         .launch = backward},
        {.kind = OP_ATTN_D,
         .name = "cudnn, deterministic",
         .accepts = takes_deterministic,
         .prepare = prepare,
         .release = release,
         .workspace = bytes,
         .launch = backward},
    };
    return PART(rows);
}

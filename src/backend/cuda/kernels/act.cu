/* act.cu - activations of an MLP: SwiGLU, gpt-oss's clamped form, and all others. */
#include "backend/cuda/kernels/device.cuh"
#include "backend/cuda/kernels/registers.cuh"

/* One element, and its gradients by the one or two numbers that it is made of. */
struct element {
    float a, by_gate, by_up;
};

struct slope {
    float f, by_x;
};

/* x sigmoid(a x) */
static __device__ slope swish(float x, float a)
{
    const float s = sigmoid(a * x);
    return {x * s, s * (1 + a * x * (1 - s))};
}

static __device__ slope gelu(float x)
{
    const float half = 0.5f * (1 + erff(x * CUDART_SQRT_HALF_F));
    return {x * half, half + x * expf(-0.5f * x * x) * 0.3989422804f};
}

static __device__ slope fast_gelu(float x)
{
    /* (1 + tanh(y)) / 2 = sigmoid(2 y) */
    const float c = 0.7978845608f, cubic = 0.044715f;
    const float s = sigmoid(2 * c * x * (1 + cubic * x * x)), inner = c * (1 + 3 * cubic * x * x);
    return {x * s, s + 2 * x * s * (1 - s) * inner};
}

static __device__ __forceinline__ slope function_of(act_kind kind, float x)
{
    switch (kind) {
    case ACT_GELU:
        return gelu(x);
    case ACT_FAST_GELU:
        return fast_gelu(x);
    case ACT_QUICK_GELU:
        return swish(x, 1.702f);
    case ACT_SQUARED_RELU:
        return {x > 0 ? x * x : 0, x > 0 ? 2 * x : 0};
    default:
        return swish(x, 1);
    }
}

/* What ACT and ACT_AS have in common: the first is two points of the second. */
struct function {
    act_kind kind;
    bool gated;
    float offset, clamp;
    int64_t f;
    __host__ __device__ int64_t columns() const
    {
        return gated ? 2 * f : f;
    }
    __device__ __forceinline__ element of(float x, float up) const
    {
        return shaped(kind, gated, x, up);
    }
    /* Of a kind that the compiler may know. */
    __device__ __forceinline__ element shaped(act_kind own, bool by_up, float x, float up) const
    {
        if (!by_up) {
            const slope s = function_of(own, x);
            return {s.f, s.by_x, 0};
        }
        const bool free_x = clamp <= 0 || x <= clamp, free_up = clamp <= 0 || fabsf(up) <= clamp;
        if (!free_x) x = clamp;
        if (!free_up) up = up < 0 ? -clamp : clamp;
        const slope s = function_of(own, x);
        const float by = up + offset;
        return {s.f * by, free_x ? s.by_x * by : 0, free_up ? s.f : 0};
    }
};

/* ACT_AS begins with the operands and sizes of ACT; so do both gradients. */
static function function_for(const op *o)
{
    if (o->kind == OP_ACT_AS || o->kind == OP_ACT_AS_D)
        return {(act_kind)o->dim[DIM_ACT_AS_KIND], o->dim[DIM_ACT_AS_GATED] != 0,
                (float)o->real[REAL_ACT_AS_offset], (float)o->real[REAL_ACT_AS_clamp],
                o->dim[DIM_ACT_AS_F]};
    if (o->flags & CLAMPED) return {ACT_QUICK_GELU, true, 1, 7, o->dim[DIM_ACT_F]};
    return {ACT_SILU, true, 0, 0, o->dim[DIM_ACT_F]};
}

struct act_rows : op_act {
    function e;
    template <int THREADS, int W> __device__ void row(int64_t i, int thread) const
    {
        const float scale = p ? p[i] : 1;
        for (int64_t j = thread * W; j < F; j += THREADS * W) {
            const lanes<W> x = load<W>(u, i * e.columns() + j);
            lanes<W> up = {}, y;
            if (e.gated) up = load<W>(u, i * e.columns() + F + j);
#pragma unroll
            for (int k = 0; k < W; k++) y.v[k] = e.of(x.v[k], up.v[k]).a * scale;
            store(a, i * F + j, y);
        }
    }
};

static void act(const kernel_call *c)
{
    const op_act o = op_act_of(c);
    for_rows(c, o.M, o.F, act_rows{o, function_for(c->o)});
}

struct act_d_rows : op_act_d {
    function e;
    template <int THREADS, int W> __device__ void row(int64_t i, int thread) const
    {
        const float scale = p ? p[i] : 1;
        float sum = 0;
        for (int64_t j = thread * W; j < F; j += THREADS * W) {
            const lanes<W> d = load<W>(da, i * F + j), x = load<W>(u, i * e.columns() + j);
            lanes<W> up = {}, to_x, to_up;
            if (e.gated) up = load<W>(u, i * e.columns() + F + j);
#pragma unroll
            for (int k = 0; k < W; k++) {
                const element y = e.of(x.v[k], up.v[k]);
                sum += d.v[k] * y.a;
                to_x.v[k] = d.v[k] * scale * y.by_gate;
                to_up.v[k] = d.v[k] * scale * y.by_up;
            }
            store(du, i * e.columns() + j, to_x);
            if (e.gated) store(du, i * e.columns() + F + j, to_up);
        }
        if (!dp) return;
        sum = sum_over<THREADS>(sum);
        if (thread == 0) dp[i] = sum;
    }
};

static void act_d(const kernel_call *c)
{
    const op_act_d o = op_act_d_of(c);
    for_rows(c, o.M, o.F, act_d_rows{o, function_for(c->o)});
}

/* ---- in BF16: a warp takes CHUNKS times 256 numbers of a row, whose loads are on their way before
 * the first use, and the compiler knows which function it computes
 *
 * In the general form each number asks for that, and a warp waits for its loads once in 256, since
 * those of one chunk wait for the stores of the last, whose addresses might be theirs. */

enum { CHUNK = WARP * WIDE, CHUNKS = 4, PART = CHUNKS * CHUNK };

struct act_arrays {
    numbers da, u, to; /* da[M][F] of a gradient; a[M][F] or du[M][F or 2F] */
    const float *p;    /* [M], may be missing */
    float *dp;         /* [M], may be missing */
    int64_t m, parts;  /* of a row */
    int64_t each;      /* parts that one warp takes: all where they are summed */
    function e;
};

/* Rows of any multiple of 8. */
template <act_kind KIND, bool GATED, bool GRADIENT> static __global__ void act_kernel(act_arrays s)
{
    const int64_t f = s.e.f, columns = GATED ? 2 * f : f;
    const int64_t each = GRADIENT ? s.each : 1, shares = s.parts / each;
    const int lane = (int)threadIdx.x % WARP;
    const int64_t step = (int64_t)gridDim.x * WARPS;
    const uint4 none = make_uint4(0, 0, 0, 0);
    for (int64_t i = (int64_t)blockIdx.x * WARPS + threadIdx.x / WARP; i < s.m * shares;
         i += step) {
        const int64_t row = i / shares;
        const uint4 *of_u = (const uint4 *)from(s.u, row * columns).p;
        const uint4 *of_da = (const uint4 *)from(s.da, row * f).p;
        const float scale = s.p ? s.p[row] : 1;
        float sum = 0;
        for (int64_t part = i % shares * each, past = part + each; part < past; part++) {
            const int64_t first = part * PART + lane * WIDE;
            uint4 gate[CHUNKS], up[CHUNKS], d[CHUNKS];
#pragma unroll
            for (int c = 0; c < CHUNKS; c++) {
                const int64_t j = first + c * CHUNK;
                const bool there = j < f;
                gate[c] = there ? of_u[j / WIDE] : none;
                up[c] = GATED && there ? of_u[(f + j) / WIDE] : none;
                d[c] = GRADIENT && there ? of_da[j / WIDE] : none;
            }
#pragma unroll
            for (int c = 0; c < CHUNKS; c++) {
                const int64_t j = first + c * CHUNK, at = row * (GRADIENT ? columns : f) + j;
                if (j >= f) break;
                const lanes<WIDE> x = unpack(gate[c]), y = unpack(up[c]), g = unpack(d[c]);
                lanes<WIDE> to, to_up;
#pragma unroll
                for (int k = 0; k < WIDE; k++) {
                    const element z = s.e.shaped(KIND, GATED, x.v[k], y.v[k]);
                    if (GRADIENT) {
                        sum += g.v[k] * z.a;
                        to.v[k] = scale * (g.v[k] * z.by_gate);
                        to_up.v[k] = scale * g.v[k] * z.by_up;
                    } else {
                        to.v[k] = scale * z.a;
                    }
                }
                store(s.to, at, to);
                if (GRADIENT && GATED) store(s.to, at + f, to_up);
            }
        }
        if (!GRADIENT || !s.dp) continue;
        sum = sum_warp(sum);
        if (lane == 0) s.dp[row] = sum;
    }
}

/* All are gradients, or none is: ACT_D's operands do not stand as ACT's. */
static bool is_gradient(const op *o)
{
    return o->kind == OP_ACT_D || o->kind == OP_ACT_AS_D;
}

template <act_kind KIND, bool GATED> static void act_of(const kernel_call *c)
{
    act_arrays s = {.e = function_for(c->o)};
    s.parts = ceil_of(s.e.f, PART);
    s.each = 1;
    if (is_gradient(c->o)) {
        const op_act_d o = op_act_d_of(c);
        s.da = o.da, s.u = o.u, s.to = o.du, s.p = o.p, s.dp = o.dp, s.m = o.M;
        if (o.dp) s.each = s.parts;
    } else {
        const op_act o = op_act_of(c);
        s.u = o.u, s.to = o.a, s.p = o.p, s.m = o.M;
    }
    const unsigned blocks = blocks_of(ceil_of(s.m * (s.parts / s.each), WARPS));
    auto *run = is_gradient(c->o) ? act_kernel<KIND, GATED, true> : act_kernel<KIND, GATED, false>;
    run<<<blocks, BLOCK, 0, stream_of(c)>>>(s);
}

template <act_kind KIND> static void act_by(const kernel_call *c)
{
    (function_for(c->o).gated ? act_of<KIND, true> : act_of<KIND, false>)(c);
}

static void act_parts(const kernel_call *c)
{
    switch (function_for(c->o).kind) {
    case ACT_GELU:
        return act_by<ACT_GELU>(c);
    case ACT_FAST_GELU:
        return act_by<ACT_FAST_GELU>(c);
    case ACT_QUICK_GELU:
        return act_by<ACT_QUICK_GELU>(c);
    case ACT_SQUARED_RELU:
        return act_by<ACT_SQUARED_RELU>(c);
    default:
        return act_by<ACT_SILU>(c);
    }
}

static bool takes_act(const op *o, const op_types *t)
{
    const int64_t f = function_for(o).f;
    return all_bf16(o, t, is_gradient(o) ? IN_ACT_D_u + 1 : IN_ACT_u + 1, 1) &&
           o->dim[DIM_ACT_M] > 0 && f >= CHUNK / 2 && f % WIDE == 0;
}

extern "C" cuda_part cuda_act(void)
{
    static const kernel plain = {.name = "plain", .launch = act},
                        plain_d = {.name = "plain", .launch = act_d},
                        parts = {.name = "parts", .accepts = takes_act, .launch = act_parts};
    static const kernel rows[] = {
        row_of(OP_ACT, plain),        row_of(OP_ACT_AS, plain),   row_of(OP_ACT_D, plain_d),
        row_of(OP_ACT_AS_D, plain_d), row_of(OP_ACT, parts),      row_of(OP_ACT_AS, parts),
        row_of(OP_ACT_D, parts),      row_of(OP_ACT_AS_D, parts),
    };
    return PART(rows);
}

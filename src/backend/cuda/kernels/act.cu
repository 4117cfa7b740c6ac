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
    const bool as = o->kind == OP_ACT_AS || o->kind == OP_ACT_AS_D;
    if (as)
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

/* ---- all of them in BF16, rows of any multiple of 8: a warp takes up to 1,024 numbers of a row,
 * whose loads are on their way before the first use, and knows which function it computes
 *
 * In the general form each number asks for that, and a warp waits for its loads once in 256. */

enum { CHUNK = WARP * WIDE, PART = 4, PART_WIDTH = PART * CHUNK };

static __device__ __forceinline__ const uint4 *row_at(numbers x, int64_t i, int64_t width)
{
    return (const uint4 *)((const __nv_bfloat16 *)x.p + i * width);
}

struct act_arrays {
    numbers da, u, to; /* da[M][F] of a gradient; a[M][F] or du[M][F or 2F] */
    const float *p;    /* [M], may be missing */
    float *dp;         /* [M], may be missing */
    int64_t m, parts;  /* of a row */
    int64_t each;      /* parts that one warp takes: all where they are summed */
    function e;
};

template <act_kind KIND, bool GATED, bool GRADIENT>
static __global__ void __launch_bounds__(BLOCK) act_kernel(act_arrays s)
{
    const int64_t f = s.e.f, columns = GATED ? 2 * f : f, shares = s.parts / s.each;
    const int lane = (int)threadIdx.x % WARP;
    const int64_t step = (int64_t)gridDim.x * WARPS;
    const uint4 none = make_uint4(0, 0, 0, 0);
    for (int64_t i = (int64_t)blockIdx.x * WARPS + threadIdx.x / WARP; i < s.m * shares;
         i += step) {
        const int64_t row = i / shares;
        const float scale = s.p ? s.p[row] : 1;
        float sum = 0;
        for (int64_t part = i % shares * s.each, past = part + s.each; part < past; part++) {
            const int64_t first = part * PART_WIDTH + lane * WIDE;
            const uint4 *from = row_at(s.u, row, columns), *of_da = row_at(s.da, row, f);
            uint4 gate[PART], up[PART], d[PART];
#pragma unroll
            for (int c = 0; c < PART; c++) {
                const int64_t j = first + c * CHUNK;
                const bool there = j < f;
                gate[c] = there ? from[j / WIDE] : none;
                up[c] = GATED && there ? from[(f + j) / WIDE] : none;
                d[c] = GRADIENT && there ? of_da[j / WIDE] : none;
            }
#pragma unroll
            for (int c = 0; c < PART; c++) {
                const int64_t j = first + c * CHUNK;
                if (j >= f) break;
                const lanes<WIDE> x = unpack(gate[c]), y = unpack(up[c]), g = unpack(d[c]);
                lanes<WIDE> to, to_up;
#pragma unroll
                for (int k = 0; k < WIDE; k++) {
                    const element z = s.e.shaped(KIND, GATED, x.v[k], y.v[k]);
                    sum += g.v[k] * z.a;
                    to.v[k] = scale * (GRADIENT ? g.v[k] * z.by_gate : z.a);
                    to_up.v[k] = scale * g.v[k] * z.by_up;
                }
                const int64_t at = row * (GRADIENT ? columns : f) + j;
                store(s.to, at, to);
                if (GRADIENT && GATED) store(s.to, at + f, to_up);
            }
        }
        if (!GRADIENT || !s.dp) continue;
        sum = sum_warp(sum);
        if (lane == 0) s.dp[row] = sum;
    }
}

template <act_kind KIND> static void act_of(const kernel_call *c, const act_arrays &s)
{
    const unsigned blocks = blocks_of(ceil_of(s.m * (s.parts / s.each), WARPS));
    const bool gradient = c->o->kind == OP_ACT_D || c->o->kind == OP_ACT_AS_D;
    auto *run = gradient
                    ? (s.e.gated ? act_kernel<KIND, true, true> : act_kernel<KIND, false, true>)
                    : (s.e.gated ? act_kernel<KIND, true, false> : act_kernel<KIND, false, false>);
    run<<<blocks, BLOCK, 0, stream_of(c)>>>(s);
}

static void act_by_kind(const kernel_call *c, const act_arrays &s)
{
    switch (s.e.kind) {
    case ACT_GELU:
        return act_of<ACT_GELU>(c, s);
    case ACT_FAST_GELU:
        return act_of<ACT_FAST_GELU>(c, s);
    case ACT_QUICK_GELU:
        return act_of<ACT_QUICK_GELU>(c, s);
    case ACT_SQUARED_RELU:
        return act_of<ACT_SQUARED_RELU>(c, s);
    default:
        return act_of<ACT_SILU>(c, s);
    }
}

static bool act_width(const op *o)
{
    const int64_t f = function_for(o).f;
    return o->dim[DIM_ACT_M] > 0 && f >= CHUNK / 2 && f % WIDE == 0;
}

static bool takes_act(const op *o, const op_types *t)
{
    return cuda_types_fit(o, t) && t->in[IN_ACT_u] == DTYPE_BF16 &&
           t->out[OUT_ACT_a] == DTYPE_BF16 && act_width(o);
}

static bool takes_act_d(const op *o, const op_types *t)
{
    return cuda_types_fit(o, t) && t->in[IN_ACT_D_da] == DTYPE_BF16 &&
           t->in[IN_ACT_D_u] == DTYPE_BF16 && t->out[OUT_ACT_D_du] == DTYPE_BF16 && act_width(o);
}

static void act_parts(const kernel_call *c)
{
    const op_act o = op_act_of(c);
    act_by_kind(c, {{}, o.u, o.a, o.p, NULL, o.M, ceil_of(o.F, PART_WIDTH), 1, function_for(c->o)});
}

static void act_d_parts(const kernel_call *c)
{
    const op_act_d o = op_act_d_of(c);
    const int64_t parts = ceil_of(o.F, PART_WIDTH);
    act_by_kind(c, {o.da, o.u, o.du, o.p, o.dp, o.M, parts, o.dp ? parts : 1, function_for(c->o)});
}

/* ---- SwiGLU in BF16: rows of CHUNKS times 256 numbers, a warp a row, all loads before the first
 * use; wider rows are several such parts, one beside another
 *
 * The general form asks for each number which function it is of, and loads of one chunk wait for
 * the stores of the last, whose addresses might be theirs. */

template <int CHUNKS>
static __global__ void swiglu_kernel(numbers u, const float *p, numbers a, int64_t m, int parts)
{
    const int64_t f = (int64_t)parts * CHUNKS * CHUNK;
    const int lane = (int)threadIdx.x % WARP;
    const int64_t step = (int64_t)gridDim.x * WARPS;
    for (int64_t i = (int64_t)blockIdx.x * WARPS + threadIdx.x / WARP; i < m * parts; i += step) {
        const int64_t row = i / parts, first = i % parts * CHUNKS * CHUNK;
        const uint4 *from = row_at(u, row, 2 * f) + first / WIDE;
        const float scale = p ? p[row] : 1;
        uint4 gate[CHUNKS], up[CHUNKS];
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            gate[c] = from[c * WARP + lane];
            up[c] = from[f / WIDE + c * WARP + lane];
        }
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            const lanes<WIDE> x = unpack(gate[c]), y = unpack(up[c]);
            lanes<WIDE> to;
#pragma unroll
            for (int k = 0; k < WIDE; k++) to.v[k] = silu(x.v[k]) * y.v[k] * scale;
            store(a, row * f + first + (c * WARP + lane) * WIDE, to);
        }
    }
}

struct swiglu_arrays {
    numbers da, u, du;
    const float *p; /* [M], may be missing */
    float *dp;      /* [M], may be missing */
    int64_t m;
    int parts,
        each; /* of a row; and those that one warp takes: all of them where they are summed */
};

template <int CHUNKS> static __global__ void swiglu_d_kernel(swiglu_arrays s)
{
    const int64_t f = (int64_t)s.parts * CHUNKS * CHUNK, shares = s.parts / s.each;
    const int lane = (int)threadIdx.x % WARP;
    const int64_t step = (int64_t)gridDim.x * WARPS;
    for (int64_t i = (int64_t)blockIdx.x * WARPS + threadIdx.x / WARP; i < s.m * shares;
         i += step) {
        const int64_t row = i / shares;
        const float scale = s.p ? s.p[row] : 1;
        float sum = 0;
        for (int64_t part = i % shares * s.each, past = part + s.each; part < past; part++) {
            const int64_t first = part * CHUNKS * CHUNK;
            const uint4 *from = row_at(s.u, row, 2 * f) + first / WIDE,
                        *of_da = row_at(s.da, row, f) + first / WIDE;
            uint4 gate[CHUNKS], up[CHUNKS], d[CHUNKS];
#pragma unroll
            for (int c = 0; c < CHUNKS; c++) {
                gate[c] = from[c * WARP + lane];
                up[c] = from[f / WIDE + c * WARP + lane];
                d[c] = of_da[c * WARP + lane];
            }
#pragma unroll
            for (int c = 0; c < CHUNKS; c++) {
                const lanes<WIDE> x = unpack(gate[c]), y = unpack(up[c]), g = unpack(d[c]);
                lanes<WIDE> to_x, to_up;
#pragma unroll
                for (int k = 0; k < WIDE; k++) {
                    const float s1 = sigmoid(x.v[k]), value = x.v[k] * s1, by = g.v[k] * scale;
                    sum += g.v[k] * value * y.v[k];
                    to_x.v[k] = by * y.v[k] * (s1 * (1 + x.v[k] * (1 - s1)));
                    to_up.v[k] = by * value;
                }
                const int64_t at = row * 2 * f + first + (c * WARP + lane) * WIDE;
                store(s.du, at, to_x);
                store(s.du, at + f, to_up);
            }
        }
        if (!s.dp) continue;
        sum = sum_warp(sum);
        if (lane == 0) s.dp[row] = sum;
    }
}

/* Chunks of a part: as many as divide a row's. */
static int chunks_of(int64_t f)
{
    int n = CHUNKS_MOST;
    while (f / CHUNK % n) n--;
    return n;
}

static bool swiglu_width(const op *o)
{
    const int64_t f = o->dim[DIM_ACT_F];
    return !(o->flags & CLAMPED) && o->dim[DIM_ACT_M] > 0 && f > 0 && f % CHUNK == 0 &&
           f <= (1 << 20);
}

static bool takes_swiglu(const op *o, const op_types *t)
{
    return cuda_types_fit(o, t) && t->in[IN_ACT_u] == DTYPE_BF16 &&
           t->out[OUT_ACT_a] == DTYPE_BF16 && swiglu_width(o);
}

static bool takes_swiglu_d(const op *o, const op_types *t)
{
    return cuda_types_fit(o, t) && t->in[IN_ACT_D_da] == DTYPE_BF16 &&
           t->in[IN_ACT_D_u] == DTYPE_BF16 && t->out[OUT_ACT_D_du] == DTYPE_BF16 && swiglu_width(o);
}

template <int CHUNKS> static void swiglu_of(const kernel_call *c)
{
    const op_act o = op_act_of(c);
    const int parts = (int)(o.F / CHUNK / CHUNKS);
    const unsigned blocks = blocks_of(ceil_of(o.M * parts, WARPS));
    if (chunks_of(o.F) != CHUNKS) {
        if constexpr (CHUNKS > 1) swiglu_of<CHUNKS - 1>(c);
    } else if (c->o->kind == OP_ACT) {
        swiglu_kernel<CHUNKS><<<blocks, BLOCK, 0, stream_of(c)>>>(o.u, o.p, o.a, o.M, parts);
    } else {
        const op_act_d d = op_act_d_of(c);
        swiglu_d_kernel<CHUNKS><<<blocks, BLOCK, 0, stream_of(c)>>>(
            {d.da, d.u, d.du, d.p, d.dp, d.M, parts, d.dp ? parts : 1});
    }
}

static void swiglu(const kernel_call *c)
{
    swiglu_of<CHUNKS_MOST>(c);
}

extern "C" cuda_part cuda_act(void)
{
    static const kernel rows[] = {
        {.kind = OP_ACT, .name = "plain", .launch = act},
        {.kind = OP_ACT_D, .name = "plain", .launch = act_d},
        {.kind = OP_ACT_AS, .name = "plain", .launch = act},
        {.kind = OP_ACT_AS_D, .name = "plain", .launch = act_d},
        {.kind = OP_ACT, .name = "parts", .accepts = takes_act, .launch = act_parts},
        {.kind = OP_ACT_D, .name = "parts", .accepts = takes_act_d, .launch = act_d_parts},
        {.kind = OP_ACT_AS, .name = "parts", .accepts = takes_act, .launch = act_parts},
        {.kind = OP_ACT_AS_D, .name = "parts", .accepts = takes_act_d, .launch = act_d_parts},
        {.kind = OP_ACT, .name = "swiglu", .accepts = takes_swiglu, .launch = swiglu},
        {.kind = OP_ACT_D, .name = "swiglu", .accepts = takes_swiglu_d, .launch = swiglu},
    };
    return PART(rows);
}

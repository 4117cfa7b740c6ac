/* act.cu - activations of an MLP: SwiGLU, gpt-oss's clamped form, and all others. */
#include "kernels/cuda/device.cuh"

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
    const float c = 0.7978845608f, cubic = 0.044715f;
    const float t = tanhf(c * x * (1 + cubic * x * x)), inner = c * (1 + 3 * cubic * x * x);
    return {0.5f * x * (1 + t), 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * inner};
}

static __device__ slope function_of(act_kind kind, float x)
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
    __device__ int64_t columns() const
    {
        return gated ? 2 * f : f;
    }
    __device__ element of(float x, float up) const
    {
        if (!gated) {
            const slope s = function_of(kind, x);
            return {s.f, s.by_x, 0};
        }
        const bool free_x = clamp <= 0 || x <= clamp, free_up = clamp <= 0 || fabsf(up) <= clamp;
        if (!free_x) x = clamp;
        if (!free_up) up = up < 0 ? -clamp : clamp;
        const slope s = function_of(kind, x);
        const float by = up + offset;
        return {s.f * by, free_x ? s.by_x * by : 0, free_up ? s.f : 0};
    }
};

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

struct act_rows {
    numbers u, a;   /* [M][F or 2F], [M][F] */
    const float *p; /* [M], may be missing */
    function e;
    template <int THREADS, int W> __device__ void row(int64_t i, int thread) const
    {
        const float scale = p ? p[i] : 1;
        for (int64_t j = thread * W; j < e.f; j += THREADS * W) {
            const lanes<W> x = load<W>(u, i * e.columns() + j);
            lanes<W> up = {}, y;
            if (e.gated) up = load<W>(u, i * e.columns() + e.f + j);
#pragma unroll
            for (int k = 0; k < W; k++) y.v[k] = e.of(x.v[k], up.v[k]).a * scale;
            store(a, i * e.f + j, y);
        }
    }
};

static void act(const kernel_call *c)
{
    for_rows(c, c->o->dim[DIM_ACT_M], c->o->dim[DIM_ACT_F],
             act_rows{in_of(c, IN_ACT_u), out_of(c, OUT_ACT_a), floats_in(c, IN_ACT_p),
                      function_for(c->o)});
}

struct act_d_rows {
    numbers da, u;  /* [M][F], [M][F or 2F] */
    const float *p; /* [M], may be missing */
    numbers du;     /* as u */
    float *dp;      /* [M], may be missing */
    function e;
    template <int THREADS, int W> __device__ void row(int64_t i, int thread) const
    {
        const float scale = p ? p[i] : 1;
        float sum = 0;
        for (int64_t j = thread * W; j < e.f; j += THREADS * W) {
            const lanes<W> d = load<W>(da, i * e.f + j), x = load<W>(u, i * e.columns() + j);
            lanes<W> up = {}, to_x, to_up;
            if (e.gated) up = load<W>(u, i * e.columns() + e.f + j);
#pragma unroll
            for (int k = 0; k < W; k++) {
                const element y = e.of(x.v[k], up.v[k]);
                sum += d.v[k] * y.a;
                to_x.v[k] = d.v[k] * scale * y.by_gate;
                to_up.v[k] = d.v[k] * scale * y.by_up;
            }
            store(du, i * e.columns() + j, to_x);
            if (e.gated) store(du, i * e.columns() + e.f + j, to_up);
        }
        if (!dp) return;
        sum = sum_over<THREADS>(sum);
        if (thread == 0) dp[i] = sum;
    }
};

static void act_d(const kernel_call *c)
{
    for_rows(c, c->o->dim[DIM_ACT_D_M], c->o->dim[DIM_ACT_D_F],
             act_d_rows{in_of(c, IN_ACT_D_da), in_of(c, IN_ACT_D_u), floats_in(c, IN_ACT_D_p),
                        out_of(c, OUT_ACT_D_du), floats_out(c, OUT_ACT_D_dp), function_for(c->o)});
}

extern "C" cuda_part cuda_act(void)
{
    static const kernel rows[] = {
        {OP_ACT, "plain", NULL, NULL, NULL, NULL, act},
        {OP_ACT_D, "plain", NULL, NULL, NULL, NULL, act_d},
        {OP_ACT_AS, "plain", NULL, NULL, NULL, NULL, act},
        {OP_ACT_AS_D, "plain", NULL, NULL, NULL, NULL, act_d},
    };
    return PART(rows);
}

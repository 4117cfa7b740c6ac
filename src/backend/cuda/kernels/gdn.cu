/* gdn.cu - what stands around the gated delta rule: convolution and gates. */
#include "backend/cuda/kernels/columns.cuh"

/* ---- convolution along S, then silu; what lies before a sequence is zero */

/* Before silu, at token t of the batch. */
template <class C> static __device__ float conv_sum(const C &v, int64_t t, int64_t j)
{
    float all = 0;
    for (int64_t i = 0; i < v.TAPS; i++) {
        const int64_t back = v.TAPS - 1 - i;
        if (back <= t % v.S) all += get(v.w, j * v.TAPS + i) * get(v.x, (t - back) * v.C + j);
    }
    return all;
}

static void conv_y(const kernel_call *c)
{
    const op_conv v = op_conv_of(c);
    for_each(c, v.B * v.S * v.C,
             [=] __device__(int64_t i) { put(v.y, i, silu(conv_sum(v, i / v.C, i % v.C))); });
}

/* Tap i has carried token t to the token TAPS - 1 - i on. */
static void conv_d(const kernel_call *c)
{
    const op_conv_d v = op_conv_d_of(c);
    for_each(c, v.B * v.S * v.C, [=] __device__(int64_t e) {
        const int64_t t = e / v.C, j = e % v.C;
        float sum = 0;
        for (int64_t i = 0; i < v.TAPS; i++) {
            const int64_t on = v.TAPS - 1 - i;
            if (t % v.S + on < v.S)
                sum += get(v.dy, (t + on) * v.C + j) * silu_slope(conv_sum(v, t + on, j)) *
                       get(v.w, j * v.TAPS + i);
        }
        put(v.dx, e, sum);
    });
}

static int64_t conv_w_bytes(const op *o, const op_types *)
{
    return columns_workspace(o->dim[DIM_CONV_W_B] * o->dim[DIM_CONV_W_S],
                             o->dim[DIM_CONV_W_C] * o->dim[DIM_CONV_W_TAPS]);
}

static void conv_w(const kernel_call *c)
{
    const op_conv_w v = op_conv_w_of(c);
    add_columns(c, v.B * v.S, v.C * v.TAPS, c->workspace, v.dw.floats(),
                [=] __device__(int64_t t, int64_t column) {
                    const int64_t j = column / v.TAPS, back = v.TAPS - 1 - column % v.TAPS;
                    if (back > t % v.S) return 0.f;
                    return get(v.dy, t * v.C + j) * silu_slope(conv_sum(v, t, j)) *
                           get(v.x, (t - back) * v.C + j);
                });
}

/* ---- gates: beta = sigmoid(b), g = -exp(a_log) * softplus(a + dt_bias) */

static void gates(const kernel_call *c)
{
    const op_gdn_gates o = op_gdn_gates_of(c);
    for_each(c, o.T * o.NV, [=] __device__(int64_t i) {
        const int64_t h = i % o.NV;
        o.beta[i] = sigmoid(get(o.b, i));
        o.g[i] = -expf(get(o.a_log, h)) * softplus(get(o.a, i) + get(o.dt_bias, h));
    });
}

static void gates_d(const kernel_call *c)
{
    const op_gdn_gates_d o = op_gdn_gates_d_of(c);
    for_each(c, o.T * o.NV, [=] __device__(int64_t i) {
        const int64_t h = i % o.NV;
        const float beta = sigmoid(get(o.b, i)), x = get(o.a, i) + get(o.dt_bias, h);
        put(o.db, i, o.dbeta[i] * beta * (1 - beta));
        put(o.da, i, -o.dg[i] * expf(get(o.a_log, h)) * sigmoid(x));
    });
}

static int64_t gates_w_bytes(const op *o, const op_types *)
{
    return columns_workspace(o->dim[DIM_GDN_GATES_W_T], o->dim[DIM_GDN_GATES_W_NV]);
}

static void gates_w(const kernel_call *c)
{
    const op_gdn_gates_w o = op_gdn_gates_w_of(c);
    add_columns(c, o.T, o.NV, c->workspace, o.da_log.floats(),
                [=] __device__(int64_t t, int64_t h) {
                    const float x = get(o.a, t * o.NV + h) + get(o.dt_bias, h);
                    return -o.dg[t * o.NV + h] * expf(get(o.a_log, h)) * softplus(x);
                });
    add_columns(c, o.T, o.NV, c->workspace, o.ddt_bias.floats(),
                [=] __device__(int64_t t, int64_t h) {
                    const float x = get(o.a, t * o.NV + h) + get(o.dt_bias, h);
                    return -o.dg[t * o.NV + h] * expf(get(o.a_log, h)) * sigmoid(x);
                });
}

extern "C" cuda_part cuda_gdn(void)
{
    static const kernel rows[] = {
        {.kind = OP_CONV, .name = "plain", .launch = conv_y},
        {.kind = OP_CONV_D, .name = "plain", .launch = conv_d},
        {.kind = OP_CONV_W,
         .name = "plain",
         .accepts = sums_wide,
         .workspace = conv_w_bytes,
         .launch = conv_w},
        {.kind = OP_GDN_GATES, .name = "plain", .launch = gates},
        {.kind = OP_GDN_GATES_D, .name = "plain", .launch = gates_d},
        {.kind = OP_GDN_GATES_W,
         .name = "plain",
         .accepts = sums_wide,
         .workspace = gates_w_bytes,
         .launch = gates_w},
    };
    return PART(rows);
}

/* gdn.cu - what stands around the gated delta rule: convolution and gates. */
#include "backend/cuda/kernels/columns.cuh"

/* ---- convolution along S, then silu; what lies before a sequence is zero */

struct conv {
    numbers x, w; /* [B*S][C], [C][TAPS] */
    int64_t s, c, taps;
    /* Before silu, at token t of the batch. */
    __device__ float sum(int64_t t, int64_t j) const
    {
        float all = 0;
        for (int64_t i = 0; i < taps; i++) {
            const int64_t back = taps - 1 - i;
            if (back <= t % s) all += get(w, j * taps + i) * get(x, (t - back) * c + j);
        }
        return all;
    }
};

static conv conv_of(const kernel_call *c, int x)
{
    return {in_of(c, x), in_of(c, x + 1), c->o->dim[DIM_CONV_S], c->o->dim[DIM_CONV_C],
            c->o->dim[DIM_CONV_TAPS]};
}

static int64_t conv_numbers(const op *o)
{
    return o->dim[DIM_CONV_B] * o->dim[DIM_CONV_S] * o->dim[DIM_CONV_C];
}

static void conv_y(const kernel_call *c)
{
    const conv v = conv_of(c, IN_CONV_x);
    const numbers y = out_of(c, OUT_CONV_y);
    for_each(c, conv_numbers(c->o),
             [=] __device__(int64_t i) { put(y, i, silu(v.sum(i / v.c, i % v.c))); });
}

/* Tap i has carried token t to the token TAPS - 1 - i on. */
static void conv_d(const kernel_call *c)
{
    const conv v = conv_of(c, IN_CONV_D_x);
    const numbers dy = in_of(c, IN_CONV_D_dy), dx = out_of(c, OUT_CONV_D_dx);
    for_each(c, conv_numbers(c->o), [=] __device__(int64_t e) {
        const int64_t t = e / v.c, j = e % v.c;
        float sum = 0;
        for (int64_t i = 0; i < v.taps; i++) {
            const int64_t on = v.taps - 1 - i;
            if (t % v.s + on < v.s)
                sum += get(dy, (t + on) * v.c + j) * silu_slope(v.sum(t + on, j)) *
                       get(v.w, j * v.taps + i);
        }
        put(dx, e, sum);
    });
}

static int64_t conv_w_bytes(const op *o, const op_types *)
{
    return columns_workspace(o->dim[DIM_CONV_W_B] * o->dim[DIM_CONV_W_S],
                             o->dim[DIM_CONV_W_C] * o->dim[DIM_CONV_W_TAPS]);
}

static void conv_w(const kernel_call *c)
{
    const conv v = conv_of(c, IN_CONV_W_x);
    const numbers dy = in_of(c, IN_CONV_W_dy);
    add_columns(c, c->o->dim[DIM_CONV_W_B] * c->o->dim[DIM_CONV_W_S], v.c * v.taps, c->workspace,
                floats_out(c, OUT_CONV_W_dw), [=] __device__(int64_t t, int64_t column) {
                    const int64_t j = column / v.taps, back = v.taps - 1 - column % v.taps;
                    if (back > t % v.s) return 0.f;
                    return get(dy, t * v.c + j) * silu_slope(v.sum(t, j)) *
                           get(v.x, (t - back) * v.c + j);
                });
}

/* ---- gates: beta = sigmoid(b), g = -exp(a_log) * softplus(a + dt_bias) */

static void gates(const kernel_call *c)
{
    const int64_t n = c->o->dim[DIM_GDN_GATES_NV];
    const numbers b = in_of(c, IN_GDN_GATES_b), a = in_of(c, IN_GDN_GATES_a),
                  a_log = in_of(c, IN_GDN_GATES_a_log), dt_bias = in_of(c, IN_GDN_GATES_dt_bias);
    const numbers beta = out_of(c, OUT_GDN_GATES_beta), g = out_of(c, OUT_GDN_GATES_g);
    for_each(c, c->o->dim[DIM_GDN_GATES_T] * n, [=] __device__(int64_t i) {
        put(beta, i, sigmoid(get(b, i)));
        put(g, i, -expf(get(a_log, i % n)) * softplus(get(a, i) + get(dt_bias, i % n)));
    });
}

static void gates_d(const kernel_call *c)
{
    const int64_t n = c->o->dim[DIM_GDN_GATES_D_NV];
    const numbers dbeta = in_of(c, IN_GDN_GATES_D_dbeta), dg = in_of(c, IN_GDN_GATES_D_dg),
                  b = in_of(c, IN_GDN_GATES_D_b), a = in_of(c, IN_GDN_GATES_D_a);
    const numbers a_log = in_of(c, IN_GDN_GATES_D_a_log),
                  dt_bias = in_of(c, IN_GDN_GATES_D_dt_bias);
    const numbers db = out_of(c, OUT_GDN_GATES_D_db), da = out_of(c, OUT_GDN_GATES_D_da);
    for_each(c, c->o->dim[DIM_GDN_GATES_D_T] * n, [=] __device__(int64_t i) {
        const float beta = sigmoid(get(b, i)), x = get(a, i) + get(dt_bias, i % n);
        put(db, i, get(dbeta, i) * beta * (1 - beta));
        put(da, i, -get(dg, i) * expf(get(a_log, i % n)) * sigmoid(x));
    });
}

static int64_t gates_w_bytes(const op *o, const op_types *)
{
    return columns_workspace(o->dim[DIM_GDN_GATES_W_T], o->dim[DIM_GDN_GATES_W_NV]);
}

static void gates_w(const kernel_call *c)
{
    const int64_t n_t = c->o->dim[DIM_GDN_GATES_W_T], n = c->o->dim[DIM_GDN_GATES_W_NV];
    const numbers dg = in_of(c, IN_GDN_GATES_W_dg), a = in_of(c, IN_GDN_GATES_W_a),
                  a_log = in_of(c, IN_GDN_GATES_W_a_log),
                  dt_bias = in_of(c, IN_GDN_GATES_W_dt_bias);
    add_columns(c, n_t, n, c->workspace, floats_out(c, OUT_GDN_GATES_W_da_log),
                [=] __device__(int64_t t, int64_t h) {
                    const float x = get(a, t * n + h) + get(dt_bias, h);
                    return -get(dg, t * n + h) * expf(get(a_log, h)) * softplus(x);
                });
    add_columns(c, n_t, n, c->workspace, floats_out(c, OUT_GDN_GATES_W_ddt_bias),
                [=] __device__(int64_t t, int64_t h) {
                    const float x = get(a, t * n + h) + get(dt_bias, h);
                    return -get(dg, t * n + h) * expf(get(a_log, h)) * sigmoid(x);
                });
}

extern "C" cuda_part cuda_gdn(void)
{
    static const kernel rows[] = {
        {OP_CONV, "plain", NULL, NULL, NULL, NULL, conv_y},
        {OP_CONV_D, "plain", NULL, NULL, NULL, NULL, conv_d},
        {OP_CONV_W, "plain", sums_wide, NULL, NULL, conv_w_bytes, conv_w},
        {OP_GDN_GATES, "plain", NULL, NULL, NULL, NULL, gates},
        {OP_GDN_GATES_D, "plain", NULL, NULL, NULL, NULL, gates_d},
        {OP_GDN_GATES_W, "plain", sums_wide, NULL, NULL, gates_w_bytes, gates_w},
    };
    return PART(rows);
}

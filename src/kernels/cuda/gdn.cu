/* gdn.cu - what stands around the gated delta rule: convolution and gates. */
#include "kernels/cuda/columns.cuh"

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

static conv conv_of(const cuda_call *c, int x)
{
    return {in_of(c, x), in_of(c, x + 1), c->o->dim[1], c->o->dim[2], c->o->dim[3]};
}

static int64_t conv_numbers(const op *o)
{
    return o->dim[0] * o->dim[1] * o->dim[2];
}

static void conv_y(const cuda_call *c)
{
    const conv v = conv_of(c, 0);
    const numbers y = out_of(c, 0);
    for_each(c, conv_numbers(c->o),
             [=] __device__(int64_t i) { put(y, i, silu(v.sum(i / v.c, i % v.c))); });
}

/* Tap i has carried token t to the token TAPS - 1 - i on. */
static void conv_d(const cuda_call *c)
{
    const conv v = conv_of(c, 1);
    const numbers dy = in_of(c, 0), dx = out_of(c, 0);
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

static int64_t conv_w_bytes(const op *o)
{
    return columns_workspace(o->dim[0] * o->dim[1], o->dim[2] * o->dim[3]);
}

static void conv_w(const cuda_call *c)
{
    const conv v = conv_of(c, 1);
    const numbers dy = in_of(c, 0);
    add_columns(c, c->o->dim[0] * c->o->dim[1], v.c * v.taps, c->workspace, floats_out(c, 0),
                [=] __device__(int64_t t, int64_t column) {
                    const int64_t j = column / v.taps, back = v.taps - 1 - column % v.taps;
                    if (back > t % v.s) return 0.f;
                    return get(dy, t * v.c + j) * silu_slope(v.sum(t, j)) *
                           get(v.x, (t - back) * v.c + j);
                });
}

/* ---- gates: beta = sigmoid(b), g = -exp(a_log) * softplus(a + dt_bias) */

static void gates(const cuda_call *c)
{
    const int64_t n = c->o->dim[1];
    const numbers b = in_of(c, 0), a = in_of(c, 1), a_log = in_of(c, 2), dt_bias = in_of(c, 3);
    const numbers beta = out_of(c, 0), g = out_of(c, 1);
    for_each(c, c->o->dim[0] * n, [=] __device__(int64_t i) {
        put(beta, i, sigmoid(get(b, i)));
        put(g, i, -expf(get(a_log, i % n)) * softplus(get(a, i) + get(dt_bias, i % n)));
    });
}

static void gates_d(const cuda_call *c)
{
    const int64_t n = c->o->dim[1];
    const numbers dbeta = in_of(c, 0), dg = in_of(c, 1), b = in_of(c, 2), a = in_of(c, 3);
    const numbers a_log = in_of(c, 4), dt_bias = in_of(c, 5);
    const numbers db = out_of(c, 0), da = out_of(c, 1);
    for_each(c, c->o->dim[0] * n, [=] __device__(int64_t i) {
        const float beta = sigmoid(get(b, i)), x = get(a, i) + get(dt_bias, i % n);
        put(db, i, get(dbeta, i) * beta * (1 - beta));
        put(da, i, -get(dg, i) * expf(get(a_log, i % n)) * sigmoid(x));
    });
}

static int64_t gates_w_bytes(const op *o)
{
    return columns_workspace(o->dim[0], o->dim[1]);
}

static void gates_w(const cuda_call *c)
{
    const int64_t n_t = c->o->dim[0], n = c->o->dim[1];
    const numbers dg = in_of(c, 0), a = in_of(c, 1), a_log = in_of(c, 2), dt_bias = in_of(c, 3);
    add_columns(c, n_t, n, c->workspace, floats_out(c, 0), [=] __device__(int64_t t, int64_t h) {
        const float x = get(a, t * n + h) + get(dt_bias, h);
        return -get(dg, t * n + h) * expf(get(a_log, h)) * softplus(x);
    });
    add_columns(c, n_t, n, c->workspace, floats_out(c, 1), [=] __device__(int64_t t, int64_t h) {
        const float x = get(a, t * n + h) + get(dt_bias, h);
        return -get(dg, t * n + h) * expf(get(a_log, h)) * sigmoid(x);
    });
}

extern "C" cuda_part cuda_gdn(void)
{
    static const cuda_row rows[] = {
        {OP_CONV, "plain", "nn", "n", conv_y, NULL, NULL},
        {OP_CONV_D, "plain", "nnn", "n", conv_d, NULL, NULL},
        {OP_CONV_W, "plain", "nnn", "f", conv_w, conv_w_bytes, NULL},
        {OP_GDN_GATES, "plain", "nnnn", "nn", gates, NULL, NULL},
        {OP_GDN_GATES_D, "plain", "nnnnnn", "nn", gates_d, NULL, NULL},
        {OP_GDN_GATES_W, "plain", "nnnn", "ff", gates_w, gates_w_bytes, NULL},
    };
    return PART(rows);
}

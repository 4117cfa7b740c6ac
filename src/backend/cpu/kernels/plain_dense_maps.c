/* plain_dense_maps.c - row 0 of what works element by element: sums, gates, activations. */
#include "backend/cpu/kernels/bytes.h"
#include "backend/cpu/kernels/plain_dense.h"

#include <math.h>
#include <string.h>

#include "backend/cpu/kernels/real.h"

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static void add(const op *o, void *const *in, void *const *out)
{
    const real *a = in[IN_ADD_a]; /* [N] */
    const real *b = in[IN_ADD_b]; /* [N] */
    real *y = out[OUT_ADD_y];     /* [N] */
    for (int64_t i = 0; i < o->dim[DIM_ADD_N]; i++) y[i] = a[i] + b[i];
}

static void copy(const op *o, void *const *in, void *const *out)
{
    memcpy(out[OUT_COPY_y], in[IN_COPY_a], sizeof(real) * (size_t)o->dim[DIM_COPY_N]);
}

static void zero(const op *o, void *const *in, void *const *out)
{
    (void)in;
    memset(out[OUT_ZERO_y], 0, sizeof(real) * (size_t)o->dim[DIM_ZERO_N]);
}

static void gate(const op *o, void *const *in, void *const *out)
{
    const int64_t m = o->dim[DIM_GATE_M], n = o->dim[DIM_GATE_N], n_g = o->dim[DIM_GATE_G];
    const real *x = in[IN_GATE_x]; /* [M][N] */
    const real *g = in[IN_GATE_g]; /* [M][G] */
    real *y = out[OUT_GATE_y];     /* [M][N] */
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++)
            y[i * n + j] = (real)((double)x[i * n + j] * sigmoid((double)g[i * n_g + j % n_g]));
}

static void gate_d(const op *o, void *const *in, void *const *out)
{
    const int64_t m = o->dim[DIM_GATE_D_M], n = o->dim[DIM_GATE_D_N], n_g = o->dim[DIM_GATE_D_G];
    const real *dy = in[IN_GATE_D_dy]; /* [M][N] */
    const real *x = in[IN_GATE_D_x];   /* [M][N] */
    const real *g = in[IN_GATE_D_g];   /* [M][G] */
    real *dx = out[OUT_GATE_D_dx];     /* [M][N], may be missing, may be dy */
    real *dg = out[OUT_GATE_D_dg];     /* [M][G], may be missing */
    for (int64_t i = 0; i < m; i++) {
        double sum = 0;
        for (int64_t j = 0; j < n; j++) {
            double s = sigmoid((double)g[i * n_g + j % n_g]), d = (double)dy[i * n + j];
            double by_g = d * (double)x[i * n + j] * s * (1 - s);
            if (dx) dx[i * n + j] = (real)(d * s);
            if (dg && n_g == n) dg[i * n + j] = (real)by_g;
            sum += by_g;
        }
        if (dg && n_g == 1) dg[i] = (real)sum;
    }
}

/* One element of the activation, and its gradients by gate and up. */
typedef struct activation {
    double a, by_gate, by_up;
} activation;

static activation swiglu(double g, double u)
{
    double s = sigmoid(g);
    return (activation){g * s * u, u * s * (1 + g * (1 - s)), g * s};
}

static activation swiglu_clamped(double g, double u)
{
    const double limit = 7, alpha = 1.702;
    bool g_free = g <= limit, u_free = u >= -limit && u <= limit;
    g = fmin(g, limit);
    u = fmax(-limit, fmin(u, limit));
    double s = sigmoid(alpha * g);
    return (activation){
        (u + 1) * g * s,
        g_free ? (u + 1) * s * (1 + alpha * g * (1 - s)) : 0,
        u_free ? g * s : 0,
    };
}

static activation activate(const op *o, real g, real u)
{
    return o->flags & CLAMPED ? swiglu_clamped((double)g, (double)u) : swiglu((double)g, (double)u);
}

static void act(const op *o, void *const *in, void *const *out)
{
    const int64_t m = o->dim[DIM_ACT_M], f = o->dim[DIM_ACT_F];
    const real *u = in[IN_ACT_u]; /* [M][2F] */
    const real *p = in[IN_ACT_p]; /* [M], may be missing */
    real *a = out[OUT_ACT_a];     /* [M][F] */
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < f; j++) {
            activation r = activate(o, u[2 * i * f + j], u[(2 * i + 1) * f + j]);
            a[i * f + j] = (real)(r.a * (p ? (double)p[i] : 1));
        }
}

static void act_d(const op *o, void *const *in, void *const *out)
{
    const int64_t m = o->dim[DIM_ACT_D_M], f = o->dim[DIM_ACT_D_F];
    const real *da = in[IN_ACT_D_da]; /* [M][F] */
    const real *u = in[IN_ACT_D_u];   /* [M][2F] */
    const real *p = in[IN_ACT_D_p];   /* [M], may be missing */
    real *du = out[OUT_ACT_D_du];     /* [M][2F] */
    real *dp = out[OUT_ACT_D_dp];     /* [M], may be missing */
    for (int64_t i = 0; i < m; i++) {
        double sum = 0, scale = p ? (double)p[i] : 1;
        for (int64_t j = 0; j < f; j++) {
            activation r = activate(o, u[2 * i * f + j], u[(2 * i + 1) * f + j]);
            double d = (double)da[i * f + j];
            sum += d * r.a;
            du[2 * i * f + j] = (real)(d * scale * r.by_gate);
            du[(2 * i + 1) * f + j] = (real)(d * scale * r.by_up);
        }
        if (dp) dp[i] = (real)sum;
    }
}

static const kernel map_rows[] = {
    {OP_ADD, "plain", NULL, .run = add},
    {OP_COPY, "plain", NULL, .run = copy},
    {OP_CAST, "plain", NULL, .run = copy},
    {OP_ZERO, "plain", NULL, .run = zero, .launch = bytes_zero},
    {OP_GATE, "plain", NULL, .run = gate},
    {OP_GATE_D, "plain", NULL, .run = gate_d},
    {OP_ACT, "plain", NULL, .run = act},
    {OP_ACT_D, "plain", NULL, .run = act_d},
    {OP_COPY_OUT, "plain", NULL, .run = copy, .launch = bytes_copy},
    {OP_COPY_IN, "plain", NULL, .run = copy, .launch = bytes_copy},
};

kernel_rows plain_dense_maps(void)
{
    return (kernel_rows){map_rows, sizeof map_rows / sizeof map_rows[0]};
}

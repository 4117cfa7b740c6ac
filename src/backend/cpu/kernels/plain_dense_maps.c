/* plain_dense_maps.c - row 0 of what works element by element: sums, gates, activations. */
#include "backend/cpu/kernels/bytes.h"
#include "backend/cpu/kernels/plain_dense.h"

#include <math.h>
#include <string.h>

#include "backend/cpu/kernels/real.h"
#include "op/op_operands.h"

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static void add(const op *o, void *const *in, void *const *out)
{
    const op_add args = op_add_of(o, in, out);
    for (int64_t i = 0; i < args.N; i++) args.y[i] = args.a[i] + args.b[i];
}

static void copy(const op *o, void *const *in, void *const *out)
{
    const op_copy a = op_copy_of(o, in, out);
    memcpy(a.y, a.a, sizeof(real) * (size_t)a.N);
}

static void zero(const op *o, void *const *in, void *const *out)
{
    const op_zero a = op_zero_of(o, in, out);
    memset(a.y, 0, sizeof(real) * (size_t)a.N);
}

static void gate(const op *o, void *const *in, void *const *out)
{
    const op_gate a = op_gate_of(o, in, out);
    for (int64_t i = 0; i < a.M; i++)
        for (int64_t j = 0; j < a.N; j++)
            a.y[i * a.N + j] =
                (real)((double)a.x[i * a.N + j] * sigmoid((double)a.g[i * a.G + j % a.G]));
}

static void gate_d(const op *o, void *const *in, void *const *out)
{
    const op_gate_d a = op_gate_d_of(o, in, out);
    for (int64_t i = 0; i < a.M; i++) {
        double sum = 0;
        for (int64_t j = 0; j < a.N; j++) {
            double s = sigmoid((double)a.g[i * a.G + j % a.G]), d = (double)a.dy[i * a.N + j];
            double by_g = d * (double)a.x[i * a.N + j] * s * (1 - s);
            if (a.dx) a.dx[i * a.N + j] = (real)(d * s);
            if (a.dg && a.G == a.N) a.dg[i * a.N + j] = (real)by_g;
            sum += by_g;
        }
        if (a.dg && a.G == 1) a.dg[i] = (real)sum;
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
    const op_act args = op_act_of(o, in, out);
    for (int64_t i = 0; i < args.M; i++)
        for (int64_t j = 0; j < args.F; j++) {
            activation r =
                activate(o, args.u[2 * i * args.F + j], args.u[(2 * i + 1) * args.F + j]);
            args.a[i * args.F + j] = (real)(r.a * (args.p ? (double)args.p[i] : 1));
        }
}

static void act_d(const op *o, void *const *in, void *const *out)
{
    const op_act_d args = op_act_d_of(o, in, out);
    for (int64_t i = 0; i < args.M; i++) {
        double sum = 0, scale = args.p ? (double)args.p[i] : 1;
        for (int64_t j = 0; j < args.F; j++) {
            activation r =
                activate(o, args.u[2 * i * args.F + j], args.u[(2 * i + 1) * args.F + j]);
            double d = (double)args.da[i * args.F + j];
            sum += d * r.a;
            args.du[2 * i * args.F + j] = (real)(d * scale * r.by_gate);
            args.du[(2 * i + 1) * args.F + j] = (real)(d * scale * r.by_up);
        }
        if (args.dp) args.dp[i] = (real)sum;
    }
}

static const kernel map_rows[] = {
    {OP_ADD, "plain", .run = add},
    {OP_COPY, "plain", .run = copy},
    {OP_CAST, "plain", .run = copy},
    {OP_ZERO, "plain", .run = zero, .launch = bytes_zero},
    {OP_GATE, "plain", .run = gate},
    {OP_GATE_D, "plain", .run = gate_d},
    {OP_ACT, "plain", .run = act},
    {OP_ACT_D, "plain", .run = act_d},
    {OP_COPY_OUT, "plain", .run = copy, .launch = bytes_copy},
    {OP_COPY_IN, "plain", .run = copy, .launch = bytes_copy},
};

kernel_rows plain_dense_maps(void)
{
    return (kernel_rows){map_rows, sizeof map_rows / sizeof map_rows[0]};
}

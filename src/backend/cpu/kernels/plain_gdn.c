/* plain_gdn.c - row 0 of what stands around the gated delta rule: sections, convolution, gates, the
 * gated norm. One loop an operation, sums in double. */
#include "backend/cpu/kernels/plain_gdn.h"

#include <math.h>
#include <string.h>

#include "backend/cpu/kernels/real.h"
#include "backend/cpu/kernels/rows.h"
#include "op/op_operands.h"

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double silu(double x)
{
    return x * sigmoid(x);
}

static double silu_slope(double x)
{
    return sigmoid(x) * (1 + x * (1 - sigmoid(x)));
}

/* ---- sections: in[T][C + Z + 2 NV] */

static void split(const op *o, void *const *in, void *const *out)
{
    const op_gdn_split a = op_gdn_split_of(o, in, out);
    const int64_t sizes[] = {a.C, a.Z, a.NV, a.NV};
    const real *from = a.in; /* [T][C + Z + NV + NV] */
    for (int64_t t = 0; t < a.T; t++)
        for (int i = 0; i < 4; i++) {
            memcpy((real *)out[i] + t * sizes[i], from, sizeof(real) * (size_t)sizes[i]);
            from += sizes[i];
        }
}

static void join(const op *o, void *const *in, void *const *out)
{
    const op_gdn_join a = op_gdn_join_of(o, in, out);
    const int64_t sizes[] = {a.C, a.Z, a.NV, a.NV};
    real *to = a.din; /* [T][C + Z + NV + NV] */
    for (int64_t t = 0; t < a.T; t++)
        for (int i = 0; i < 4; i++) {
            memcpy(to, (const real *)in[i] + t * sizes[i], sizeof(real) * (size_t)sizes[i]);
            to += sizes[i];
        }
}

/* ---- convolution along S; what lies before a sequence is zero */

typedef struct conv {
    int64_t b, s, c, taps;
    const real *x; /* [B*S][C] */
    const real *w; /* [C][TAPS] */
} conv;

static conv conv_of(const op *o, const real *x, const real *w)
{
    return (conv){
        o->dim[DIM_CONV_B], o->dim[DIM_CONV_S], o->dim[DIM_CONV_C], o->dim[DIM_CONV_TAPS], x, w};
}

/* Before silu, at token t of the batch. */
static double conv_sum(const conv *v, int64_t t, int64_t c)
{
    double sum = 0;
    for (int64_t i = 0; i < v->taps; i++) {
        int64_t back = v->taps - 1 - i;
        if (back <= t % v->s)
            sum += (double)v->w[c * v->taps + i] * (double)v->x[(t - back) * v->c + c];
    }
    return sum;
}

static void conv_y(const op *o, void *const *in, void *const *out)
{
    const op_conv a = op_conv_of(o, in, out);
    const conv v = conv_of(o, a.x, a.w);
    for (int64_t i = 0; i < v.b * v.s * v.c; i++)
        a.y[i] = (real)silu(conv_sum(&v, i / v.c, i % v.c));
}

static void conv_d(const op *o, void *const *in, void *const *out)
{
    const op_conv_d a = op_conv_d_of(o, in, out);
    const conv v = conv_of(o, a.x, a.w);
    for (int64_t t = 0; t < v.b * v.s; t++)
        for (int64_t c = 0; c < v.c; c++) {
            double sum = 0;
            for (int64_t i = 0; i < v.taps; i++) {
                int64_t to = t + v.taps - 1 - i; /* the token that tap i carried t to */
                if (t % v.s + v.taps - 1 - i < v.s)
                    sum += (double)a.dy[to * v.c + c] * silu_slope(conv_sum(&v, to, c)) *
                           (double)v.w[c * v.taps + i];
            }
            a.dx[t * v.c + c] = (real)sum;
        }
}

static void conv_w(const op *o, void *const *in, void *const *out)
{
    const op_conv_w a = op_conv_w_of(o, in, out);
    const conv v = conv_of(o, a.x, a.w);
    for (int64_t i = 0; i < v.c * v.taps; i++) {
        const int64_t c = i / v.taps, back = v.taps - 1 - i % v.taps;
        double sum = (double)a.dw[i];
        for (int64_t t = 0; t < v.b * v.s; t++)
            if (back <= t % v.s)
                sum += (double)a.dy[t * v.c + c] * silu_slope(conv_sum(&v, t, c)) *
                       (double)v.x[(t - back) * v.c + c];
        a.dw[i] = (real)sum;
    }
}

/* ---- gates */

static double softplus(double x)
{
    return (x > 0 ? x : 0) + log1p(exp(-fabs(x)));
}

static void gates(const op *o, void *const *in, void *const *out)
{
    const op_gdn_gates args = op_gdn_gates_of(o, in, out);
    for (int64_t i = 0; i < args.T * args.NV; i++) {
        args.beta[i] = (real)sigmoid((double)args.b[i]);
        args.g[i] = (real)(-exp((double)args.a_log[i % args.NV]) *
                           softplus((double)args.a[i] + (double)args.dt_bias[i % args.NV]));
    }
}

static void gates_d(const op *o, void *const *in, void *const *out)
{
    const op_gdn_gates_d args = op_gdn_gates_d_of(o, in, out);
    for (int64_t i = 0; i < args.T * args.NV; i++) {
        const double beta = sigmoid((double)args.b[i]);
        args.db[i] = (real)((double)args.dbeta[i] * beta * (1 - beta));
        args.da[i] = (real)(-(double)args.dg[i] * exp((double)args.a_log[i % args.NV]) *
                            sigmoid((double)args.a[i] + (double)args.dt_bias[i % args.NV]));
    }
}

static void gates_w(const op *o, void *const *in, void *const *out)
{
    const op_gdn_gates_w args = op_gdn_gates_w_of(o, in, out);
    for (int64_t h = 0; h < args.NV; h++) {
        double by_log = (double)args.da_log[h], by_bias = (double)args.ddt_bias[h];
        for (int64_t i = h; i < args.T * args.NV; i += args.NV) {
            const double x = (double)args.a[i] + (double)args.dt_bias[h];
            const double scaled = -(double)args.dg[i] * exp((double)args.a_log[h]);
            by_log += scaled * softplus(x);
            by_bias += scaled * sigmoid(x);
        }
        args.da_log[h] = (real)by_log;
        args.ddt_bias[h] = (real)by_bias;
    }
}

/* ---- gated norm over rows of H */

static double norm_weight(const op *o, const real *w /* [H] */, int64_t i)
{
    return (double)w[i] + (o->flags & ZERO_CENTRED ? 1 : 0);
}

static void gated_norm(const op *o, void *const *in, void *const *out)
{
    const op_gated_norm a = op_gated_norm_of(o, in, out);
    const real *x = a.x, *z = a.z; /* [M][H] */
    real *y = a.y;                 /* [M][H] */
    for (int64_t m = 0; m < a.M; m++, x += a.H, z += a.H, y += a.H) {
        double sum = 0;
        for (int64_t i = 0; i < a.H; i++) sum += (double)x[i] * (double)x[i];
        const double r = 1 / sqrt(sum / (double)a.H + a.eps);
        for (int64_t i = 0; i < a.H; i++)
            y[i] = (real)(r * (double)x[i] * norm_weight(o, a.w, i) * silu((double)z[i]));
        a.rstd[m] = (real)r;
    }
}

static void gated_norm_d(const op *o, void *const *in, void *const *out)
{
    const op_gated_norm_d a = op_gated_norm_d_of(o, in, out);
    const real *dy = a.dy, *x = a.x, *z = a.z; /* [M][H] */
    real *dx = a.dx, *dz = a.dz;               /* [M][H] */
    for (int64_t m = 0; m < a.M; m++, dy += a.H, x += a.H, z += a.H, dx += a.H, dz += a.H) {
        const double r = (double)a.rstd[m];
        double along = 0;
        for (int64_t i = 0; i < a.H; i++)
            along += (double)dy[i] * norm_weight(o, a.w, i) * silu((double)z[i]) * (double)x[i] * r;
        for (int64_t i = 0; i < a.H; i++) {
            const double weighed = (double)dy[i] * norm_weight(o, a.w, i), n = r * (double)x[i];
            dx[i] = (real)(r * (weighed * silu((double)z[i]) - n * along / (double)a.H));
            dz[i] = (real)(weighed * n * silu_slope((double)z[i]));
        }
    }
}

static void gated_norm_w(const op *o, void *const *in, void *const *out)
{
    const op_gated_norm_w a = op_gated_norm_w_of(o, in, out);
    for (int64_t i = 0; i < a.H; i++) {
        double sum = (double)a.dw[i];
        for (int64_t m = 0; m < a.M; m++)
            sum += (double)a.dy[m * a.H + i] * (double)a.x[m * a.H + i] * (double)a.rstd[m] *
                   silu((double)a.z[m * a.H + i]);
        a.dw[i] = (real)sum;
    }
}

kernel_rows plain_gdn(void)
{
    static const kernel rows[] = {
        {OP_GDN_SPLIT, "plain", .run = split},
        {OP_GDN_JOIN, "plain", .run = join},
        {OP_CONV, "plain", .run = conv_y},
        {OP_CONV_D, "plain", .run = conv_d},
        {OP_CONV_W, "plain", .run = conv_w},
        {OP_GDN_GATES, "plain", .run = gates},
        {OP_GDN_GATES_D, "plain", .run = gates_d},
        {OP_GDN_GATES_W, "plain", .run = gates_w},
        {OP_GDN_RULE, "plain", .accepts = plain_gdn_rule_accepts, .run = plain_gdn_rule},
        {OP_GDN_RULE_D, "plain", .accepts = plain_gdn_rule_accepts, .run = plain_gdn_rule_d},
        {OP_GATED_NORM, "plain", .run = gated_norm},
        {OP_GATED_NORM_D, "plain", .run = gated_norm_d},
        {OP_GATED_NORM_W, "plain", .run = gated_norm_w},
    };
    return (kernel_rows){rows, (int)(sizeof rows / sizeof rows[0])};
}

/* fast_gdn.c - rows of the fast gated delta net, and what stands around its rule: sections, gates,
 * the gated norm. Rows are shared out between threads; the weights' gradients, which are sums over
 * rows, are cut into parts by the number of rows alone and added up in order. */
#include "backend/cpu/kernels/fast_gdn.h"

#include <math.h>
#include <string.h>

#include "backend/cpu/kernels/fast_gdn_conv.h"
#include "backend/cpu/kernels/rows.h"
#include "op/op_operands.h"

/* ---- sections: in[T][C + Z + 2 NV] */

static void split(const op *o, void *const *in, void *const *out)
{
    const op_gdn_split a = op_gdn_split_of(o, in, out);
    const int64_t sizes[] = {a.C, a.Z, a.NV, a.NV};
    const int64_t row = sizes[0] + sizes[1] + 2 * sizes[2];
#pragma omp parallel for
    for (int64_t t = 0; t < a.T; t++) {
        const float *from = a.in + t * row; /* [C + Z + NV + NV] */
        for (int i = 0; i < 4; from += sizes[i], i++)
            memcpy((float *)out[i] + t * sizes[i], from, sizeof *from * (size_t)sizes[i]);
    }
}

static void join(const op *o, void *const *in, void *const *out)
{
    const op_gdn_join a = op_gdn_join_of(o, in, out);
    const int64_t sizes[] = {a.C, a.Z, a.NV, a.NV};
    const int64_t row = sizes[0] + sizes[1] + 2 * sizes[2];
#pragma omp parallel for
    for (int64_t t = 0; t < a.T; t++) {
        float *to = a.din + t * row; /* [C + Z + NV + NV] */
        for (int i = 0; i < 4; to += sizes[i], i++)
            memcpy(to, (const float *)in[i] + t * sizes[i], sizeof *to * (size_t)sizes[i]);
    }
}

/* ---- gates: few numbers, so the library's exponentials will do */

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double softplus(double x)
{
    return (x > 0 ? x : 0) + log1p(exp(-fabs(x)));
}

static void gates(const op *o, void *const *in, void *const *out)
{
    const op_gdn_gates args = op_gdn_gates_of(o, in, out);
#pragma omp parallel for
    for (int64_t i = 0; i < args.T * args.NV; i++) {
        const double x = (double)args.a[i] + (double)args.dt_bias[i % args.NV];
        args.beta[i] = (float)sigmoid((double)args.b[i]);
        args.g[i] = (float)(-exp((double)args.a_log[i % args.NV]) * softplus(x));
    }
}

static void gates_d(const op *o, void *const *in, void *const *out)
{
    const op_gdn_gates_d args = op_gdn_gates_d_of(o, in, out);
#pragma omp parallel for
    for (int64_t i = 0; i < args.T * args.NV; i++) {
        const double beta = sigmoid((double)args.b[i]),
                     x = (double)args.a[i] + (double)args.dt_bias[i % args.NV];
        args.db[i] = (float)((double)args.dbeta[i] * beta * (1 - beta));
        args.da[i] =
            (float)(-(double)args.dg[i] * exp((double)args.a_log[i % args.NV]) * sigmoid(x));
    }
}

static void gates_w(const op *o, void *const *in, void *const *out)
{
    const op_gdn_gates_w args = op_gdn_gates_w_of(o, in, out);
#pragma omp parallel for
    for (int64_t h = 0; h < args.NV; h++) {
        const double by = -exp((double)args.a_log[h]);
        double log_sum = 0, bias_sum = 0;
        for (int64_t i = h; i < args.T * args.NV; i += args.NV) {
            const double x = (double)args.a[i] + (double)args.dt_bias[h];
            log_sum += by * (double)args.dg[i] * softplus(x);
            bias_sum += by * (double)args.dg[i] * sigmoid(x);
        }
        args.da_log[h] = (float)((double)args.da_log[h] + log_sum);
        args.ddt_bias[h] = (float)((double)args.ddt_bias[h] + bias_sum);
    }
}

/* ---- gated norm over rows of H: y = x rstd w silu(z). Outputs serve as scratch on the way. */

static float shift(const op *o)
{
    return o->flags & ZERO_CENTRED ? 1.0f : 0.0f;
}

static void gated_norm(const op *o, void *const *in, void *const *out)
{
    const op_gated_norm a = op_gated_norm_of(o, in, out);
    const lanes *use = lanes_best();
    const float one = shift(o); /* [H] */
#pragma omp parallel for
    for (int64_t m = 0; m < a.M; m++) {
        const float *x = a.x + m * a.H, *z = a.z + m * a.H; /* [H] */
        float *y = a.y + m * a.H;                           /* [H] */
        a.rstd[m] = (float)(1 / sqrt((double)use->dot(x, x, a.H) / (double)a.H + a.eps));
        use->silu(y, z, a.H);
        for (int64_t i = 0; i < a.H; i++) y[i] *= x[i] * a.rstd[m] * (one + a.w[i]);
    }
}

static void gated_norm_d(const op *o, void *const *in, void *const *out)
{
    const op_gated_norm_d a = op_gated_norm_d_of(o, in, out);
    const lanes *use = lanes_best();
    const float one = shift(o); /* [H] */
#pragma omp parallel for
    for (int64_t m = 0; m < a.M; m++) {
        const float *dy = a.dy + m * a.H, *x = a.x + m * a.H; /* [H] */
        const float *z = a.z + m * a.H, r = a.rstd[m];        /* [H] */
        float *dx = a.dx + m * a.H, *dz = a.dz + m * a.H;     /* [H] */
        use->silu(dx, z, a.H);
        use->silu_d(dz, dy, z, a.H);
        for (int64_t i = 0; i < a.H; i++) {
            dz[i] *= (one + a.w[i]) * x[i] * r;
            dx[i] *= (one + a.w[i]) * dy[i];
        }
        const float along = use->dot(dx, x, a.H) * r * r / (float)a.H;
        for (int64_t i = 0; i < a.H; i++) dx[i] = r * (dx[i] - x[i] * along);
    }
}

enum { PARTS = 32, COLUMNS = 128 };

/* sums[n] over rows first .. past-1, of columns at .. at+n-1 */
static void norm_part(const op_gated_norm_w *a, const int64_t rows[2], int64_t at, double *sums)
{
    const lanes *use = lanes_best();
    const int64_t n = a->H - at < COLUMNS ? a->H - at : COLUMNS;
    float gate[COLUMNS];
    for (int64_t i = 0; i < n; i++) sums[i] = 0;
    for (int64_t m = rows[0]; m < rows[1]; m++) {
        const int64_t from = m * a->H + at;
        use->silu(gate, a->z + from, n);
        for (int64_t i = 0; i < n; i++)
            sums[i] += (double)(a->dy[from + i] * a->x[from + i] * (a->rstd[m] * gate[i]));
    }
}

static void gated_norm_w(const op *o, void *const *in, void *const *out)
{
    const op_gated_norm_w a = op_gated_norm_w_of(o, in, out);
    for (int64_t at = 0; at < a.H; at += COLUMNS) {
        double sums[PARTS][COLUMNS];
#pragma omp parallel for
        for (int64_t part = 0; part < PARTS; part++) {
            const int64_t rows[] = {a.M * part / PARTS, a.M * (part + 1) / PARTS};
            norm_part(&a, rows, at, sums[part]);
        }
        for (int64_t i = 0; i < COLUMNS && at + i < a.H; i++) {
            double sum = (double)a.dw[at + i];
            for (int64_t part = 0; part < PARTS; part++) sum += sums[part][i];
            a.dw[at + i] = (float)sum;
        }
    }
}

kernel_rows fast_gdn(void)
{
    static const kernel rows[] = {
        {OP_GDN_SPLIT, "rows", .run = split},
        {OP_GDN_JOIN, "rows", .run = join},
        {OP_CONV, "tiles", .accepts = fast_conv_accepts, .run = fast_conv},
        {OP_CONV_D, "tiles", .accepts = fast_conv_accepts, .run = fast_conv_d},
        {OP_CONV_W, "tiles", .accepts = fast_conv_accepts, .run = fast_conv_w},
        {OP_GDN_GATES, "rows", .run = gates},
        {OP_GDN_GATES_D, "rows", .run = gates_d},
        {OP_GDN_GATES_W, "columns", .run = gates_w},
        {OP_GDN_RULE, "chunks", .accepts = gdn_rule_accepts, .run = fast_gdn_rule},
        {OP_GDN_RULE_D, "chunks", .accepts = gdn_rule_accepts, .run = fast_gdn_rule_d},
        {OP_GATED_NORM, "rows", .run = gated_norm},
        {OP_GATED_NORM_D, "rows", .run = gated_norm_d},
        {OP_GATED_NORM_W, "parts", .run = gated_norm_w},
    };
    return (kernel_rows){rows, (int)(sizeof rows / sizeof rows[0])};
}

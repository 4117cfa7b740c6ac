/* plain_layer.c - row 0 of LayerNorm, of an RMSNorm whose rows are cut over ranks, of activations
 * besides SwiGLU, and of learned positions.
 *
 * No fast row stands behind these: models that have them are planned more often than trained
 * here. Threads share rows (or columns), so their number changes no bit. */
#include "backend/cpu/kernels/rows.h"

#include <math.h>

#include "backend/cpu/kernels/real.h"
#include "op/op_operands.h"

/* ---- LayerNorm */

static double weight_used(const op *o, real w)
{
    return o->flags & ZERO_CENTRED ? 1 + (double)w : (double)w;
}

static void layer_norm(const op *o, void *const *in, void *const *out)
{
    const op_layer_norm a = op_layer_norm_of(o, in, out);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < a.M; i++) {
        const real *row = a.x + i * a.H;
        double sum = 0, squares = 0;
        for (int64_t j = 0; j < a.H; j++) sum += (double)row[j];
        double mean = sum / (double)a.H;
        for (int64_t j = 0; j < a.H; j++)
            squares += ((double)row[j] - mean) * ((double)row[j] - mean);
        double r = 1 / sqrt(squares / (double)a.H + a.eps);
        for (int64_t j = 0; j < a.H; j++)
            a.y[i * a.H + j] = (real)(((double)row[j] - mean) * r * weight_used(o, a.w[j]) +
                                      (a.b ? (double)a.b[j] : 0));
        if (!a.stats) continue;
        a.stats[2 * i] = (real)mean;
        a.stats[2 * i + 1] = (real)r;
    }
}

/* With g = dy * w, n = (x - mean) r: dx = r (g - mean(g) - n mean(g n)). */
static void layer_norm_d(const op *o, void *const *in, void *const *out)
{
    const op_layer_norm_d a = op_layer_norm_d_of(o, in, out);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < a.M; i++) {
        double mean = (double)a.stats[2 * i], r = (double)a.stats[2 * i + 1], by_one = 0, by_n = 0;
        for (int64_t j = 0; j < a.H; j++) {
            double g = (double)a.dy[i * a.H + j] * weight_used(o, a.w[j]);
            by_one += g;
            by_n += g * ((double)a.x[i * a.H + j] - mean) * r;
        }
        for (int64_t j = 0; j < a.H; j++) {
            double g = (double)a.dy[i * a.H + j] * weight_used(o, a.w[j]);
            double n = ((double)a.x[i * a.H + j] - mean) * r;
            double d = r * (g - by_one / (double)a.H - n * by_n / (double)a.H);
            a.dx[i * a.H + j] = (real)(o->flags & ACCUMULATE ? (double)a.dx[i * a.H + j] + d : d);
        }
    }
}

static void layer_norm_w(const op *o, void *const *in, void *const *out)
{
    const op_layer_norm_w a = op_layer_norm_w_of(o, in, out);
#pragma omp parallel for schedule(static)
    for (int64_t j = 0; j < a.H; j++) {
        double sum = (double)a.dw[j], bias = a.db ? (double)a.db[j] : 0;
        for (int64_t i = 0; i < a.M; i++) {
            double d = (double)a.dy[i * a.H + j];
            sum += d * ((double)a.x[i * a.H + j] - (double)a.stats[2 * i]) *
                   (double)a.stats[2 * i + 1];
            bias += d;
        }
        a.dw[j] = (real)sum;
        if (a.db) a.db[j] = (real)bias;
    }
}

/* ---- RMSNorm of rows that are cut over ranks */

static void row_dots(const op *o, void *const *in, void *const *out)
{
    const op_row_dots args = op_row_dots_of(o, in, out);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < args.M; i++) {
        double sum = 0;
        for (int64_t j = 0; j < args.H; j++)
            sum += (double)args.a[i * args.H + j] * (double)args.b[i * args.H + j] *
                   (args.w ? weight_used(o, args.w[j]) : 1);
        args.sums[i] = (real)sum;
    }
}

/* The mean over the whole row: PARTS sums of H elements each. */
static double mean_of_parts(const op *o, const real *sums /* [PARTS][M] */, int64_t row)
{
    double sum = 0;
    for (int64_t p = 0; p < o->dim[DIM_NORM_PART_PARTS]; p++)
        sum += (double)sums[p * o->dim[DIM_NORM_PART_M] + row];
    return sum / (double)(o->dim[DIM_NORM_PART_H] * o->dim[DIM_NORM_PART_PARTS]);
}

static void norm_part(const op *o, void *const *in, void *const *out)
{
    const op_norm_part a = op_norm_part_of(o, in, out);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < a.M; i++) {
        double r = 1 / sqrt(mean_of_parts(o, a.sums, i) + a.eps);
        for (int64_t j = 0; j < a.H; j++)
            a.y[i * a.H + j] = (real)((double)a.x[i * a.H + j] * r * weight_used(o, a.w[j]));
        a.rstd[i] = (real)r;
    }
}

/* With g = dy * w and r = rstd: dx = r g - x r^3 mean(g x). */
static void norm_part_d(const op *o, void *const *in, void *const *out)
{
    const op_norm_part_d a = op_norm_part_d_of(o, in, out);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < a.M; i++) {
        double r = (double)a.rstd[i], along = mean_of_parts(o, a.sums, i) * r * r * r;
        for (int64_t j = 0; j < a.H; j++) {
            double g = (double)a.dy[i * a.H + j] * weight_used(o, a.w[j]);
            double d = r * g - (double)a.x[i * a.H + j] * along;
            a.dx[i * a.H + j] = (real)(o->flags & ACCUMULATE ? (double)a.dx[i * a.H + j] + d : d);
        }
    }
}

/* ---- activations */

typedef struct slope {
    double f, by_x;
} slope;

static slope gelu(double x)
{
    double half = 0.5 * (1 + erf(x * M_SQRT1_2));
    return (slope){x * half, half + x * exp(-0.5 * x * x) * 0.5 * M_2_SQRTPI * M_SQRT1_2};
}

static slope fast_gelu(double x)
{
    const double c = M_2_SQRTPI * M_SQRT1_2, cubic = 0.044715;
    double t = tanh(c * x * (1 + cubic * x * x));
    double inner = c * (1 + 3 * cubic * x * x);
    return (slope){0.5 * x * (1 + t), 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * inner};
}

/* x sigmoid(a x) */
static slope swish(double x, double a)
{
    double s = 1 / (1 + exp(-a * x));
    return (slope){x * s, s * (1 + a * x * (1 - s))};
}

static slope function_of(act_kind kind, double x)
{
    switch (kind) {
    case ACT_GELU:
        return gelu(x);
    case ACT_FAST_GELU:
        return fast_gelu(x);
    case ACT_QUICK_GELU:
        return swish(x, 1.702);
    case ACT_SQUARED_RELU:
        return (slope){x > 0 ? x * x : 0, x > 0 ? 2 * x : 0};
    default:
        return swish(x, 1);
    }
}

/* One element, and its gradients by the one or two numbers it is made of. */
typedef struct element {
    double a, by_gate, by_up;
} element;

static element act_element(const op *o, const real *u /* a row */, int64_t j)
{
    const double offset = o->real[REAL_ACT_AS_offset], clamp = o->real[REAL_ACT_AS_clamp];
    double x = (double)u[j];
    if (!o->dim[DIM_ACT_AS_GATED]) {
        slope s = function_of((act_kind)o->dim[DIM_ACT_AS_KIND], x);
        return (element){s.f, s.by_x, 0};
    }
    double up = (double)u[o->dim[DIM_ACT_AS_F] + j];
    bool free_x = clamp <= 0 || x <= clamp, free_up = clamp <= 0 || fabs(up) <= clamp;
    if (!free_x) x = clamp;
    if (!free_up) up = up < 0 ? -clamp : clamp;
    slope s = function_of((act_kind)o->dim[DIM_ACT_AS_KIND], x);
    return (element){s.f * (up + offset), free_x ? s.by_x * (up + offset) : 0, free_up ? s.f : 0};
}

static void act_as(const op *o, void *const *in, void *const *out)
{
    const op_act_as args = op_act_as_of(o, in, out);
    const int64_t columns = (args.GATED ? 2 : 1) * args.F;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < args.M; i++)
        for (int64_t j = 0; j < args.F; j++)
            args.a[i * args.F + j] = (real)(act_element(o, args.u + i * columns, j).a *
                                            (args.p ? (double)args.p[i] : 1));
}

static void act_as_d(const op *o, void *const *in, void *const *out)
{
    const op_act_as_d args = op_act_as_d_of(o, in, out);
    const int64_t columns = (args.GATED ? 2 : 1) * args.F;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < args.M; i++) {
        double sum = 0, scale = args.p ? (double)args.p[i] : 1;
        for (int64_t j = 0; j < args.F; j++) {
            element e = act_element(o, args.u + i * columns, j);
            double d = (double)args.da[i * args.F + j];
            sum += d * e.a;
            args.du[i * columns + j] = (real)(d * scale * e.by_gate);
            if (args.GATED) args.du[i * columns + args.F + j] = (real)(d * scale * e.by_up);
        }
        if (args.dp) args.dp[i] = (real)sum;
    }
}

/* ---- learned positions */

static int64_t row_of_token(const op *o, int64_t t)
{
    const int64_t s = o->dim[DIM_POSITIONS_S], half = s / 2,
                  p = (o->dim[DIM_POSITIONS_FIRST] + t) % s;
    return p < half ? o->dim[DIM_POSITIONS_QA] + p : o->dim[DIM_POSITIONS_QB] + p - half;
}

static void positions(const op *o, void *const *in, void *const *out)
{
    const op_positions a = op_positions_of(o, in, out);
    for (int64_t t = 0; t < a.T; t++)
        for (int64_t i = 0; i < a.H; i++) a.x[t * a.H + i] += a.w[row_of_token(o, t) * a.H + i];
}

static void positions_w(const op *o, void *const *in, void *const *out)
{
    const op_positions_w a = op_positions_w_of(o, in, out);
    for (int64_t t = 0; t < a.T; t++)
        for (int64_t i = 0; i < a.H; i++) a.dw[row_of_token(o, t) * a.H + i] += a.dx[t * a.H + i];
}

kernel_rows plain_layer(void)
{
    static const kernel rows[] = {
        {OP_ROW_DOTS, "plain", .run = row_dots},
        {OP_NORM_PART, "plain", .run = norm_part},
        {OP_NORM_PART_D, "plain", .run = norm_part_d},
        {OP_LAYER_NORM, "plain", .run = layer_norm},
        {OP_LAYER_NORM_D, "plain", .run = layer_norm_d},
        {OP_LAYER_NORM_W, "plain", .run = layer_norm_w},
        {OP_ACT_AS, "plain", .run = act_as},
        {OP_ACT_AS_D, "plain", .run = act_as_d},
        {OP_POSITIONS, "plain", .run = positions},
        {OP_POSITIONS_W, "plain", .run = positions_w},
    };
    return (kernel_rows){rows, sizeof rows / sizeof rows[0]};
}

/* plain_layer.c - row 0 of LayerNorm, of an RMSNorm whose rows are cut over ranks, of activations
 * besides SwiGLU, and of learned positions.
 *
 * No fast row stands behind these: models that have them are planned more often than trained
 * here. Threads share rows (or columns), so their number changes no bit. */
#include "backend/cpu/kernels/rows.h"

#include <math.h>

#include "backend/cpu/kernels/real.h"

/* ---- LayerNorm */

static double weight_used(const op *o, real w)
{
    return o->flags & ZERO_CENTRED ? 1 + (double)w : (double)w;
}

static void layer_norm(const op *o, void *const *in, void *const *out)
{
    const int64_t m = o->dim[DIM_LAYER_NORM_M], h = o->dim[DIM_LAYER_NORM_H];
    const real *x = in[IN_LAYER_NORM_x];     /* [M][H] */
    const real *w = in[IN_LAYER_NORM_w];     /* [H] */
    const real *b = in[IN_LAYER_NORM_b];     /* [H], may be missing */
    real *y = out[OUT_LAYER_NORM_y];         /* [M][H] */
    real *stats = out[OUT_LAYER_NORM_stats]; /* [M][2], may be missing */
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < m; i++) {
        const real *row = x + i * h;
        double sum = 0, squares = 0;
        for (int64_t j = 0; j < h; j++) sum += (double)row[j];
        double mean = sum / (double)h;
        for (int64_t j = 0; j < h; j++)
            squares += ((double)row[j] - mean) * ((double)row[j] - mean);
        double r = 1 / sqrt(squares / (double)h + o->real[REAL_LAYER_NORM_eps]);
        for (int64_t j = 0; j < h; j++)
            y[i * h + j] =
                (real)(((double)row[j] - mean) * r * weight_used(o, w[j]) + (b ? (double)b[j] : 0));
        if (!stats) continue;
        stats[2 * i] = (real)mean;
        stats[2 * i + 1] = (real)r;
    }
}

/* With g = dy * w, n = (x - mean) r: dx = r (g - mean(g) - n mean(g n)). */
static void layer_norm_d(const op *o, void *const *in, void *const *out)
{
    const int64_t m = o->dim[DIM_LAYER_NORM_D_M], h = o->dim[DIM_LAYER_NORM_D_H];
    const real *dy = in[IN_LAYER_NORM_D_dy];       /* [M][H] */
    const real *x = in[IN_LAYER_NORM_D_x];         /* [M][H] */
    const real *w = in[IN_LAYER_NORM_D_w];         /* [H] */
    const real *stats = in[IN_LAYER_NORM_D_stats]; /* [M][2] */
    real *dx = out[OUT_LAYER_NORM_D_dx];           /* [M][H] */
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < m; i++) {
        double mean = (double)stats[2 * i], r = (double)stats[2 * i + 1], by_one = 0, by_n = 0;
        for (int64_t j = 0; j < h; j++) {
            double g = (double)dy[i * h + j] * weight_used(o, w[j]);
            by_one += g;
            by_n += g * ((double)x[i * h + j] - mean) * r;
        }
        for (int64_t j = 0; j < h; j++) {
            double g = (double)dy[i * h + j] * weight_used(o, w[j]);
            double n = ((double)x[i * h + j] - mean) * r;
            double d = r * (g - by_one / (double)h - n * by_n / (double)h);
            dx[i * h + j] = (real)(o->flags & ACCUMULATE ? (double)dx[i * h + j] + d : d);
        }
    }
}

static void layer_norm_w(const op *o, void *const *in, void *const *out)
{
    const int64_t m = o->dim[DIM_LAYER_NORM_W_M], h = o->dim[DIM_LAYER_NORM_W_H];
    const real *dy = in[IN_LAYER_NORM_W_dy];       /* [M][H] */
    const real *x = in[IN_LAYER_NORM_W_x];         /* [M][H] */
    const real *stats = in[IN_LAYER_NORM_W_stats]; /* [M][2] */
    real *dw = out[OUT_LAYER_NORM_W_dw];           /* [H] */
    real *db = out[OUT_LAYER_NORM_W_db];           /* [H], may be missing */
#pragma omp parallel for schedule(static)
    for (int64_t j = 0; j < h; j++) {
        double sum = (double)dw[j], bias = db ? (double)db[j] : 0;
        for (int64_t i = 0; i < m; i++) {
            double d = (double)dy[i * h + j];
            sum += d * ((double)x[i * h + j] - (double)stats[2 * i]) * (double)stats[2 * i + 1];
            bias += d;
        }
        dw[j] = (real)sum;
        if (db) db[j] = (real)bias;
    }
}

/* ---- RMSNorm of rows that are cut over ranks */

static void row_dots(const op *o, void *const *in, void *const *out)
{
    const int64_t m = o->dim[DIM_ROW_DOTS_M], h = o->dim[DIM_ROW_DOTS_H];
    const real *a = in[IN_ROW_DOTS_a];   /* [M][H] */
    const real *b = in[IN_ROW_DOTS_b];   /* [M][H] */
    const real *w = in[IN_ROW_DOTS_w];   /* [H], may be missing */
    real *sums = out[OUT_ROW_DOTS_sums]; /* [M] */
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < m; i++) {
        double sum = 0;
        for (int64_t j = 0; j < h; j++)
            sum += (double)a[i * h + j] * (double)b[i * h + j] * (w ? weight_used(o, w[j]) : 1);
        sums[i] = (real)sum;
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
    const int64_t m = o->dim[DIM_NORM_PART_M], h = o->dim[DIM_NORM_PART_H];
    const real *x = in[IN_NORM_PART_x];       /* [M][H] */
    const real *w = in[IN_NORM_PART_w];       /* [H] */
    const real *sums = in[IN_NORM_PART_sums]; /* [PARTS][M] */
    real *y = out[OUT_NORM_PART_y];           /* [M][H] */
    real *rstd = out[OUT_NORM_PART_rstd];     /* [M] */
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < m; i++) {
        double r = 1 / sqrt(mean_of_parts(o, sums, i) + o->real[REAL_NORM_PART_eps]);
        for (int64_t j = 0; j < h; j++)
            y[i * h + j] = (real)((double)x[i * h + j] * r * weight_used(o, w[j]));
        rstd[i] = (real)r;
    }
}

/* With g = dy * w and r = rstd: dx = r g - x r^3 mean(g x). */
static void norm_part_d(const op *o, void *const *in, void *const *out)
{
    const int64_t m = o->dim[DIM_NORM_PART_D_M], h = o->dim[DIM_NORM_PART_D_H];
    const real *dy = in[IN_NORM_PART_D_dy];     /* [M][H] */
    const real *x = in[IN_NORM_PART_D_x];       /* [M][H] */
    const real *w = in[IN_NORM_PART_D_w];       /* [H] */
    const real *rstd = in[IN_NORM_PART_D_rstd]; /* [M] */
    const real *sums = in[IN_NORM_PART_D_sums]; /* [PARTS][M] */
    real *dx = out[OUT_NORM_PART_D_dx];         /* [M][H] */
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < m; i++) {
        double r = (double)rstd[i], along = mean_of_parts(o, sums, i) * r * r * r;
        for (int64_t j = 0; j < h; j++) {
            double g = (double)dy[i * h + j] * weight_used(o, w[j]);
            double d = r * g - (double)x[i * h + j] * along;
            dx[i * h + j] = (real)(o->flags & ACCUMULATE ? (double)dx[i * h + j] + d : d);
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
    const int64_t m = o->dim[DIM_ACT_AS_M], f = o->dim[DIM_ACT_AS_F],
                  columns = (o->dim[DIM_ACT_AS_GATED] ? 2 : 1) * f;
    const real *u = in[IN_ACT_AS_u]; /* [M][F], or [M][2F] */
    const real *p = in[IN_ACT_AS_p]; /* [M], may be missing */
    real *a = out[OUT_ACT_AS_a];     /* [M][F] */
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < f; j++)
            a[i * f + j] = (real)(act_element(o, u + i * columns, j).a * (p ? (double)p[i] : 1));
}

static void act_as_d(const op *o, void *const *in, void *const *out)
{
    const int64_t m = o->dim[DIM_ACT_AS_D_M], f = o->dim[DIM_ACT_AS_D_F],
                  columns = (o->dim[DIM_ACT_AS_D_GATED] ? 2 : 1) * f;
    const real *da = in[IN_ACT_AS_D_da]; /* [M][F] */
    const real *u = in[IN_ACT_AS_D_u];   /* [M][F], or [M][2F] */
    const real *p = in[IN_ACT_AS_D_p];   /* [M], may be missing */
    real *du = out[OUT_ACT_AS_D_du];     /* as u */
    real *dp = out[OUT_ACT_AS_D_dp];     /* [M], may be missing */
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < m; i++) {
        double sum = 0, scale = p ? (double)p[i] : 1;
        for (int64_t j = 0; j < f; j++) {
            element e = act_element(o, u + i * columns, j);
            double d = (double)da[i * f + j];
            sum += d * e.a;
            du[i * columns + j] = (real)(d * scale * e.by_gate);
            if (o->dim[DIM_ACT_AS_D_GATED]) du[i * columns + f + j] = (real)(d * scale * e.by_up);
        }
        if (dp) dp[i] = (real)sum;
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
    const int64_t n_t = o->dim[DIM_POSITIONS_T], h = o->dim[DIM_POSITIONS_H];
    const real *w = in[IN_POSITIONS_w]; /* [positions][H] */
    real *x = out[OUT_POSITIONS_x];     /* [T][H] */
    for (int64_t t = 0; t < n_t; t++)
        for (int64_t i = 0; i < h; i++) x[t * h + i] += w[row_of_token(o, t) * h + i];
}

static void positions_w(const op *o, void *const *in, void *const *out)
{
    const int64_t n_t = o->dim[DIM_POSITIONS_W_T], h = o->dim[DIM_POSITIONS_W_H];
    const real *dx = in[IN_POSITIONS_W_dx]; /* [T][H] */
    real *dw = out[OUT_POSITIONS_W_dw];     /* [positions][H] */
    for (int64_t t = 0; t < n_t; t++)
        for (int64_t i = 0; i < h; i++) dw[row_of_token(o, t) * h + i] += dx[t * h + i];
}

kernel_rows plain_layer(void)
{
    static const kernel rows[] = {
        {OP_ROW_DOTS, "plain", NULL, .run = row_dots},
        {OP_NORM_PART, "plain", NULL, .run = norm_part},
        {OP_NORM_PART_D, "plain", NULL, .run = norm_part_d},
        {OP_LAYER_NORM, "plain", NULL, .run = layer_norm},
        {OP_LAYER_NORM_D, "plain", NULL, .run = layer_norm_d},
        {OP_LAYER_NORM_W, "plain", NULL, .run = layer_norm_w},
        {OP_ACT_AS, "plain", NULL, .run = act_as},
        {OP_ACT_AS_D, "plain", NULL, .run = act_as_d},
        {OP_POSITIONS, "plain", NULL, .run = positions},
        {OP_POSITIONS_W, "plain", NULL, .run = positions_w},
    };
    return (kernel_rows){rows, sizeof rows / sizeof rows[0]};
}

/* fast_gdn.c - rows of the fast gated delta net, and what stands around its rule: sections, gates,
 * the gated norm. Rows are shared out between threads; the weights' gradients, which are sums over
 * rows, are cut into parts by the number of rows alone and added up in order. */
#include "backend/cpu/kernels/fast_gdn.h"

#include <math.h>
#include <string.h>

#include "backend/cpu/kernels/fast_gdn_conv.h"
#include "backend/cpu/kernels/rows.h"

/* ---- sections: in[T][C + Z + 2 NV] */

static void split(const op *o, void *const *in, void *const *out)
{
    const int64_t sizes[] = {o->dim[DIM_GDN_SPLIT_C], o->dim[DIM_GDN_SPLIT_Z],
                             o->dim[DIM_GDN_SPLIT_NV], o->dim[DIM_GDN_SPLIT_NV]};
    const int64_t row = sizes[0] + sizes[1] + 2 * sizes[2];
#pragma omp parallel for
    for (int64_t t = 0; t < o->dim[DIM_GDN_SPLIT_T]; t++) {
        const float *from = (const float *)in[IN_GDN_SPLIT_in] + t * row; /* [C + Z + NV + NV] */
        for (int i = 0; i < 4; from += sizes[i], i++)
            memcpy((float *)out[i] + t * sizes[i], from, sizeof *from * (size_t)sizes[i]);
    }
}

static void join(const op *o, void *const *in, void *const *out)
{
    const int64_t sizes[] = {o->dim[DIM_GDN_JOIN_C], o->dim[DIM_GDN_JOIN_Z],
                             o->dim[DIM_GDN_JOIN_NV], o->dim[DIM_GDN_JOIN_NV]};
    const int64_t row = sizes[0] + sizes[1] + 2 * sizes[2];
#pragma omp parallel for
    for (int64_t t = 0; t < o->dim[DIM_GDN_JOIN_T]; t++) {
        float *to = (float *)out[OUT_GDN_JOIN_din] + t * row; /* [C + Z + NV + NV] */
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
    const int64_t n = o->dim[DIM_GDN_GATES_NV];
    const float *b = in[IN_GDN_GATES_b], *a = in[IN_GDN_GATES_a];                     /* [T][NV] */
    const float *a_log = in[IN_GDN_GATES_a_log], *dt_bias = in[IN_GDN_GATES_dt_bias]; /* [NV] */
    float *beta = out[OUT_GDN_GATES_beta], *g = out[OUT_GDN_GATES_g];                 /* [T][NV] */
#pragma omp parallel for
    for (int64_t i = 0; i < o->dim[DIM_GDN_GATES_T] * n; i++) {
        const double x = (double)a[i] + (double)dt_bias[i % n];
        beta[i] = (float)sigmoid((double)b[i]);
        g[i] = (float)(-exp((double)a_log[i % n]) * softplus(x));
    }
}

static void gates_d(const op *o, void *const *in, void *const *out)
{
    const int64_t n = o->dim[DIM_GDN_GATES_D_NV];
    const float *dbeta = in[IN_GDN_GATES_D_dbeta], *dg = in[IN_GDN_GATES_D_dg],
                *b = in[IN_GDN_GATES_D_b], *a = in[IN_GDN_GATES_D_a]; /* [T][NV] */
    const float *a_log = in[IN_GDN_GATES_D_a_log], *dt_bias = in[IN_GDN_GATES_D_dt_bias]; /* [NV] */
    float *db = out[OUT_GDN_GATES_D_db], *da = out[OUT_GDN_GATES_D_da]; /* [T][NV] */
#pragma omp parallel for
    for (int64_t i = 0; i < o->dim[DIM_GDN_GATES_D_T] * n; i++) {
        const double beta = sigmoid((double)b[i]), x = (double)a[i] + (double)dt_bias[i % n];
        db[i] = (float)((double)dbeta[i] * beta * (1 - beta));
        da[i] = (float)(-(double)dg[i] * exp((double)a_log[i % n]) * sigmoid(x));
    }
}

static void gates_w(const op *o, void *const *in, void *const *out)
{
    const int64_t n = o->dim[DIM_GDN_GATES_W_NV];
    const float *dg = in[IN_GDN_GATES_W_dg], *a = in[IN_GDN_GATES_W_a]; /* [T][NV] */
    const float *a_log = in[IN_GDN_GATES_W_a_log], *dt_bias = in[IN_GDN_GATES_W_dt_bias]; /* [NV] */
    float *da_log = out[OUT_GDN_GATES_W_da_log],
          *ddt_bias = out[OUT_GDN_GATES_W_ddt_bias]; /* [NV] */
#pragma omp parallel for
    for (int64_t h = 0; h < n; h++) {
        const double by = -exp((double)a_log[h]);
        double log_sum = 0, bias_sum = 0;
        for (int64_t i = h; i < o->dim[DIM_GDN_GATES_W_T] * n; i += n) {
            const double x = (double)a[i] + (double)dt_bias[h];
            log_sum += by * (double)dg[i] * softplus(x);
            bias_sum += by * (double)dg[i] * sigmoid(x);
        }
        da_log[h] = (float)((double)da_log[h] + log_sum);
        ddt_bias[h] = (float)((double)ddt_bias[h] + bias_sum);
    }
}

/* ---- gated norm over rows of H: y = x rstd w silu(z). Outputs serve as scratch on the way. */

static float shift(const op *o)
{
    return o->flags & ZERO_CENTRED ? 1.0f : 0.0f;
}

static void gated_norm(const op *o, void *const *in, void *const *out)
{
    const lanes *use = lanes_best();
    const int64_t h = o->dim[DIM_GATED_NORM_H];
    const float *w = in[IN_GATED_NORM_w], one = shift(o); /* [H] */
    float *rstd = out[OUT_GATED_NORM_rstd];               /* [M] */
#pragma omp parallel for
    for (int64_t m = 0; m < o->dim[DIM_GATED_NORM_M]; m++) {
        const float *x = (const float *)in[IN_GATED_NORM_x] + m * h,
                    *z = (const float *)in[IN_GATED_NORM_z] + m * h; /* [H] */
        float *y = (float *)out[OUT_GATED_NORM_y] + m * h;           /* [H] */
        rstd[m] =
            (float)(1 / sqrt((double)use->dot(x, x, h) / (double)h + o->real[REAL_GATED_NORM_eps]));
        use->silu(y, z, h);
        for (int64_t i = 0; i < h; i++) y[i] *= x[i] * rstd[m] * (one + w[i]);
    }
}

static void gated_norm_d(const op *o, void *const *in, void *const *out)
{
    const lanes *use = lanes_best();
    const int64_t h = o->dim[DIM_GATED_NORM_D_H];
    const float *w = in[IN_GATED_NORM_D_w], one = shift(o); /* [H] */
    const float *rstd = in[IN_GATED_NORM_D_rstd];           /* [M] */
#pragma omp parallel for
    for (int64_t m = 0; m < o->dim[DIM_GATED_NORM_D_M]; m++) {
        const float *dy = (const float *)in[IN_GATED_NORM_D_dy] + m * h,
                    *x = (const float *)in[IN_GATED_NORM_D_x] + m * h;              /* [H] */
        const float *z = (const float *)in[IN_GATED_NORM_D_z] + m * h, r = rstd[m]; /* [H] */
        float *dx = (float *)out[OUT_GATED_NORM_D_dx] + m * h,
              *dz = (float *)out[OUT_GATED_NORM_D_dz] + m * h; /* [H] */
        use->silu(dx, z, h);
        use->silu_d(dz, dy, z, h);
        for (int64_t i = 0; i < h; i++) {
            dz[i] *= (one + w[i]) * x[i] * r;
            dx[i] *= (one + w[i]) * dy[i];
        }
        const float along = use->dot(dx, x, h) * r * r / (float)h;
        for (int64_t i = 0; i < h; i++) dx[i] = r * (dx[i] - x[i] * along);
    }
}

enum { PARTS = 32, COLUMNS = 128 };

/* sums[n] over rows first .. past-1, of columns at .. at+n-1 */
static void norm_part(const op *o, void *const *in, const int64_t rows[2], int64_t at, double *sums)
{
    const lanes *use = lanes_best();
    const int64_t h = o->dim[DIM_GATED_NORM_W_H], n = h - at < COLUMNS ? h - at : COLUMNS;
    const float *dy = in[IN_GATED_NORM_W_dy], *x = in[IN_GATED_NORM_W_x],
                *z = in[IN_GATED_NORM_W_z];       /* [M][H] */
    const float *rstd = in[IN_GATED_NORM_W_rstd]; /* [M] */
    float gate[COLUMNS];
    for (int64_t i = 0; i < n; i++) sums[i] = 0;
    for (int64_t m = rows[0]; m < rows[1]; m++) {
        const int64_t from = m * h + at;
        use->silu(gate, z + from, n);
        for (int64_t i = 0; i < n; i++)
            sums[i] += (double)(dy[from + i] * x[from + i] * (rstd[m] * gate[i]));
    }
}

static void gated_norm_w(const op *o, void *const *in, void *const *out)
{
    float *dw = out[OUT_GATED_NORM_W_dw]; /* [H] */
    for (int64_t at = 0; at < o->dim[DIM_GATED_NORM_W_H]; at += COLUMNS) {
        double sums[PARTS][COLUMNS];
#pragma omp parallel for
        for (int64_t part = 0; part < PARTS; part++) {
            const int64_t m = o->dim[DIM_GATED_NORM_W_M],
                          rows[] = {m * part / PARTS, m * (part + 1) / PARTS};
            norm_part(o, in, rows, at, sums[part]);
        }
        for (int64_t i = 0; i < COLUMNS && at + i < o->dim[DIM_GATED_NORM_W_H]; i++) {
            double sum = (double)dw[at + i];
            for (int64_t part = 0; part < PARTS; part++) sum += sums[part][i];
            dw[at + i] = (float)sum;
        }
    }
}

kernel_rows fast_gdn(void)
{
    static const kernel rows[] = {
        {OP_GDN_SPLIT, "rows", NULL, .run = split},
        {OP_GDN_JOIN, "rows", NULL, .run = join},
        {OP_CONV, "tiles", fast_conv_accepts, .run = fast_conv},
        {OP_CONV_D, "tiles", fast_conv_accepts, .run = fast_conv_d},
        {OP_CONV_W, "tiles", fast_conv_accepts, .run = fast_conv_w},
        {OP_GDN_GATES, "rows", NULL, .run = gates},
        {OP_GDN_GATES_D, "rows", NULL, .run = gates_d},
        {OP_GDN_GATES_W, "columns", NULL, .run = gates_w},
        {OP_GDN_RULE, "chunks", gdn_rule_accepts, .run = fast_gdn_rule},
        {OP_GDN_RULE_D, "chunks", gdn_rule_accepts, .run = fast_gdn_rule_d},
        {OP_GATED_NORM, "rows", NULL, .run = gated_norm},
        {OP_GATED_NORM_D, "rows", NULL, .run = gated_norm_d},
        {OP_GATED_NORM_W, "parts", NULL, .run = gated_norm_w},
    };
    return (kernel_rows){rows, (int)(sizeof rows / sizeof rows[0])};
}

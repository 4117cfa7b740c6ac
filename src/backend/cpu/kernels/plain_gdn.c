/* plain_gdn.c - row 0 of what stands around the gated delta rule: sections, convolution, gates, the
 * gated norm. One loop an operation, sums in double. */
#include "backend/cpu/kernels/plain_gdn.h"

#include <math.h>
#include <string.h>

#include "backend/cpu/kernels/real.h"
#include "backend/cpu/kernels/rows.h"

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
    const int64_t sizes[] = {o->dim[DIM_GDN_SPLIT_C], o->dim[DIM_GDN_SPLIT_Z],
                             o->dim[DIM_GDN_SPLIT_NV], o->dim[DIM_GDN_SPLIT_NV]};
    const real *from = in[IN_GDN_SPLIT_in]; /* [T][C + Z + NV + NV] */
    for (int64_t t = 0; t < o->dim[DIM_GDN_SPLIT_T]; t++)
        for (int i = 0; i < 4; i++) {
            memcpy((real *)out[i] + t * sizes[i], from, sizeof(real) * (size_t)sizes[i]);
            from += sizes[i];
        }
}

static void join(const op *o, void *const *in, void *const *out)
{
    const int64_t sizes[] = {o->dim[DIM_GDN_JOIN_C], o->dim[DIM_GDN_JOIN_Z],
                             o->dim[DIM_GDN_JOIN_NV], o->dim[DIM_GDN_JOIN_NV]};
    real *to = out[OUT_GDN_JOIN_din]; /* [T][C + Z + NV + NV] */
    for (int64_t t = 0; t < o->dim[DIM_GDN_JOIN_T]; t++)
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
    const conv v = conv_of(o, in[IN_CONV_x], in[IN_CONV_w]);
    real *y = out[OUT_CONV_y]; /* [B*S][C] */
    for (int64_t i = 0; i < v.b * v.s * v.c; i++) y[i] = (real)silu(conv_sum(&v, i / v.c, i % v.c));
}

static void conv_d(const op *o, void *const *in, void *const *out)
{
    const conv v = conv_of(o, in[IN_CONV_D_x], in[IN_CONV_D_w]);
    const real *dy = in[IN_CONV_D_dy]; /* [B*S][C] */
    real *dx = out[OUT_CONV_D_dx];     /* [B*S][C] */
    for (int64_t t = 0; t < v.b * v.s; t++)
        for (int64_t c = 0; c < v.c; c++) {
            double sum = 0;
            for (int64_t i = 0; i < v.taps; i++) {
                int64_t to = t + v.taps - 1 - i; /* the token that tap i carried t to */
                if (t % v.s + v.taps - 1 - i < v.s)
                    sum += (double)dy[to * v.c + c] * silu_slope(conv_sum(&v, to, c)) *
                           (double)v.w[c * v.taps + i];
            }
            dx[t * v.c + c] = (real)sum;
        }
}

static void conv_w(const op *o, void *const *in, void *const *out)
{
    const conv v = conv_of(o, in[IN_CONV_W_x], in[IN_CONV_W_w]);
    const real *dy = in[IN_CONV_W_dy]; /* [B*S][C] */
    real *dw = out[OUT_CONV_W_dw];     /* [C][TAPS] */
    for (int64_t i = 0; i < v.c * v.taps; i++) {
        const int64_t c = i / v.taps, back = v.taps - 1 - i % v.taps;
        double sum = (double)dw[i];
        for (int64_t t = 0; t < v.b * v.s; t++)
            if (back <= t % v.s)
                sum += (double)dy[t * v.c + c] * silu_slope(conv_sum(&v, t, c)) *
                       (double)v.x[(t - back) * v.c + c];
        dw[i] = (real)sum;
    }
}

/* ---- gates */

static double softplus(double x)
{
    return (x > 0 ? x : 0) + log1p(exp(-fabs(x)));
}

static void gates(const op *o, void *const *in, void *const *out)
{
    const int64_t n = o->dim[DIM_GDN_GATES_NV];
    const real *b = in[IN_GDN_GATES_b], *a = in[IN_GDN_GATES_a];                     /* [T][NV] */
    const real *a_log = in[IN_GDN_GATES_a_log], *dt_bias = in[IN_GDN_GATES_dt_bias]; /* [NV] */
    real *beta = out[OUT_GDN_GATES_beta], *g = out[OUT_GDN_GATES_g];                 /* [T][NV] */
    for (int64_t i = 0; i < o->dim[DIM_GDN_GATES_T] * n; i++) {
        beta[i] = (real)sigmoid((double)b[i]);
        g[i] = (real)(-exp((double)a_log[i % n]) * softplus((double)a[i] + (double)dt_bias[i % n]));
    }
}

static void gates_d(const op *o, void *const *in, void *const *out)
{
    const int64_t n = o->dim[DIM_GDN_GATES_D_NV];
    const real *dbeta = in[IN_GDN_GATES_D_dbeta], *dg = in[IN_GDN_GATES_D_dg],
               *b = in[IN_GDN_GATES_D_b], *a = in[IN_GDN_GATES_D_a]; /* [T][NV] */
    const real *a_log = in[IN_GDN_GATES_D_a_log], *dt_bias = in[IN_GDN_GATES_D_dt_bias]; /* [NV] */
    real *db = out[OUT_GDN_GATES_D_db], *da = out[OUT_GDN_GATES_D_da]; /* [T][NV] */
    for (int64_t i = 0; i < o->dim[DIM_GDN_GATES_D_T] * n; i++) {
        const double beta = sigmoid((double)b[i]);
        db[i] = (real)((double)dbeta[i] * beta * (1 - beta));
        da[i] = (real)(-(double)dg[i] * exp((double)a_log[i % n]) *
                       sigmoid((double)a[i] + (double)dt_bias[i % n]));
    }
}

static void gates_w(const op *o, void *const *in, void *const *out)
{
    const int64_t n = o->dim[DIM_GDN_GATES_W_NV];
    const real *dg = in[IN_GDN_GATES_W_dg], *a = in[IN_GDN_GATES_W_a]; /* [T][NV] */
    const real *a_log = in[IN_GDN_GATES_W_a_log], *dt_bias = in[IN_GDN_GATES_W_dt_bias]; /* [NV] */
    real *da_log = out[OUT_GDN_GATES_W_da_log],
         *ddt_bias = out[OUT_GDN_GATES_W_ddt_bias]; /* [NV] */
    for (int64_t h = 0; h < n; h++) {
        double by_log = (double)da_log[h], by_bias = (double)ddt_bias[h];
        for (int64_t i = h; i < o->dim[DIM_GDN_GATES_W_T] * n; i += n) {
            const double x = (double)a[i] + (double)dt_bias[h];
            const double scaled = -(double)dg[i] * exp((double)a_log[h]);
            by_log += scaled * softplus(x);
            by_bias += scaled * sigmoid(x);
        }
        da_log[h] = (real)by_log;
        ddt_bias[h] = (real)by_bias;
    }
}

/* ---- gated norm over rows of H */

static double norm_weight(const op *o, const real *w /* [H] */, int64_t i)
{
    return (double)w[i] + (o->flags & ZERO_CENTRED ? 1 : 0);
}

static void gated_norm(const op *o, void *const *in, void *const *out)
{
    const int64_t h = o->dim[DIM_GATED_NORM_H];
    const real *x = in[IN_GATED_NORM_x], *z = in[IN_GATED_NORM_z]; /* [M][H] */
    const real *w = in[IN_GATED_NORM_w];                           /* [H] */
    real *y = out[OUT_GATED_NORM_y];                               /* [M][H] */
    real *rstd = out[OUT_GATED_NORM_rstd];                         /* [M] */
    for (int64_t m = 0; m < o->dim[DIM_GATED_NORM_M]; m++, x += h, z += h, y += h) {
        double sum = 0;
        for (int64_t i = 0; i < h; i++) sum += (double)x[i] * (double)x[i];
        const double r = 1 / sqrt(sum / (double)h + o->real[REAL_GATED_NORM_eps]);
        for (int64_t i = 0; i < h; i++)
            y[i] = (real)(r * (double)x[i] * norm_weight(o, w, i) * silu((double)z[i]));
        rstd[m] = (real)r;
    }
}

static void gated_norm_d(const op *o, void *const *in, void *const *out)
{
    const int64_t h = o->dim[DIM_GATED_NORM_D_H];
    const real *dy = in[IN_GATED_NORM_D_dy], *x = in[IN_GATED_NORM_D_x],
               *z = in[IN_GATED_NORM_D_z];                               /* [M][H] */
    const real *w = in[IN_GATED_NORM_D_w];                               /* [H] */
    const real *rstd = in[IN_GATED_NORM_D_rstd];                         /* [M] */
    real *dx = out[OUT_GATED_NORM_D_dx], *dz = out[OUT_GATED_NORM_D_dz]; /* [M][H] */
    for (int64_t m = 0; m < o->dim[DIM_GATED_NORM_D_M];
         m++, dy += h, x += h, z += h, dx += h, dz += h) {
        const double r = (double)rstd[m];
        double along = 0;
        for (int64_t i = 0; i < h; i++)
            along += (double)dy[i] * norm_weight(o, w, i) * silu((double)z[i]) * (double)x[i] * r;
        for (int64_t i = 0; i < h; i++) {
            const double weighed = (double)dy[i] * norm_weight(o, w, i), n = r * (double)x[i];
            dx[i] = (real)(r * (weighed * silu((double)z[i]) - n * along / (double)h));
            dz[i] = (real)(weighed * n * silu_slope((double)z[i]));
        }
    }
}

static void gated_norm_w(const op *o, void *const *in, void *const *out)
{
    const int64_t h = o->dim[DIM_GATED_NORM_W_H];
    const real *dy = in[IN_GATED_NORM_W_dy], *x = in[IN_GATED_NORM_W_x],
               *z = in[IN_GATED_NORM_W_z];       /* [M][H] */
    const real *rstd = in[IN_GATED_NORM_W_rstd]; /* [M] */
    real *dw = out[OUT_GATED_NORM_W_dw];         /* [H] */
    for (int64_t i = 0; i < h; i++) {
        double sum = (double)dw[i];
        for (int64_t m = 0; m < o->dim[DIM_GATED_NORM_W_M]; m++)
            sum += (double)dy[m * h + i] * (double)x[m * h + i] * (double)rstd[m] *
                   silu((double)z[m * h + i]);
        dw[i] = (real)sum;
    }
}

kernel_rows plain_gdn(void)
{
    static const kernel rows[] = {
        {OP_GDN_SPLIT, "plain", NULL, .run = split},
        {OP_GDN_JOIN, "plain", NULL, .run = join},
        {OP_CONV, "plain", NULL, .run = conv_y},
        {OP_CONV_D, "plain", NULL, .run = conv_d},
        {OP_CONV_W, "plain", NULL, .run = conv_w},
        {OP_GDN_GATES, "plain", NULL, .run = gates},
        {OP_GDN_GATES_D, "plain", NULL, .run = gates_d},
        {OP_GDN_GATES_W, "plain", NULL, .run = gates_w},
        {OP_GDN_RULE, "plain", plain_gdn_rule_accepts, .run = plain_gdn_rule},
        {OP_GDN_RULE_D, "plain", plain_gdn_rule_accepts, .run = plain_gdn_rule_d},
        {OP_GATED_NORM, "plain", NULL, .run = gated_norm},
        {OP_GATED_NORM_D, "plain", NULL, .run = gated_norm_d},
        {OP_GATED_NORM_W, "plain", NULL, .run = gated_norm_w},
    };
    return (kernel_rows){rows, (int)(sizeof rows / sizeof rows[0])};
}

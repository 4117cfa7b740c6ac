/* plain_gdn.c - row 0 of what stands around the gated delta rule: sections, convolution, gates, the
 * gated norm. One loop an operation, sums in double. */
#include "kernels/cpu/plain_gdn.h"

#include <math.h>
#include <string.h>

#include "kernels/cpu/real.h"
#include "kernels/cpu/rows.h"

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
    const int64_t sizes[] = {o->dim[1], o->dim[2], o->dim[3], o->dim[3]};
    const real *from = in[0]; /* [T][C + Z + NV + NV] */
    for (int64_t t = 0; t < o->dim[0]; t++)
        for (int i = 0; i < 4; i++) {
            memcpy((real *)out[i] + t * sizes[i], from, sizeof(real) * (size_t)sizes[i]);
            from += sizes[i];
        }
}

static void join(const op *o, void *const *in, void *const *out)
{
    const int64_t sizes[] = {o->dim[1], o->dim[2], o->dim[3], o->dim[3]};
    real *to = out[0]; /* [T][C + Z + NV + NV] */
    for (int64_t t = 0; t < o->dim[0]; t++)
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
    return (conv){o->dim[0], o->dim[1], o->dim[2], o->dim[3], x, w};
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
    const conv v = conv_of(o, in[0], in[1]);
    real *y = out[0]; /* [B*S][C] */
    for (int64_t i = 0; i < v.b * v.s * v.c; i++) y[i] = (real)silu(conv_sum(&v, i / v.c, i % v.c));
}

static void conv_d(const op *o, void *const *in, void *const *out)
{
    const conv v = conv_of(o, in[1], in[2]);
    const real *dy = in[0]; /* [B*S][C] */
    real *dx = out[0];      /* [B*S][C] */
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
    const conv v = conv_of(o, in[1], in[2]);
    const real *dy = in[0]; /* [B*S][C] */
    real *dw = out[0];      /* [C][TAPS] */
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
    const int64_t n = o->dim[1];
    const real *b = in[0], *a = in[1];           /* [T][NV] */
    const real *a_log = in[2], *dt_bias = in[3]; /* [NV] */
    real *beta = out[0], *g = out[1];            /* [T][NV] */
    for (int64_t i = 0; i < o->dim[0] * n; i++) {
        beta[i] = (real)sigmoid((double)b[i]);
        g[i] = (real)(-exp((double)a_log[i % n]) * softplus((double)a[i] + (double)dt_bias[i % n]));
    }
}

static void gates_d(const op *o, void *const *in, void *const *out)
{
    const int64_t n = o->dim[1];
    const real *dbeta = in[0], *dg = in[1], *b = in[2], *a = in[3]; /* [T][NV] */
    const real *a_log = in[4], *dt_bias = in[5];                    /* [NV] */
    real *db = out[0], *da = out[1];                                /* [T][NV] */
    for (int64_t i = 0; i < o->dim[0] * n; i++) {
        const double beta = sigmoid((double)b[i]);
        db[i] = (real)((double)dbeta[i] * beta * (1 - beta));
        da[i] = (real)(-(double)dg[i] * exp((double)a_log[i % n]) *
                       sigmoid((double)a[i] + (double)dt_bias[i % n]));
    }
}

static void gates_w(const op *o, void *const *in, void *const *out)
{
    const int64_t n = o->dim[1];
    const real *dg = in[0], *a = in[1];          /* [T][NV] */
    const real *a_log = in[2], *dt_bias = in[3]; /* [NV] */
    real *da_log = out[0], *ddt_bias = out[1];   /* [NV] */
    for (int64_t h = 0; h < n; h++) {
        double by_log = (double)da_log[h], by_bias = (double)ddt_bias[h];
        for (int64_t i = h; i < o->dim[0] * n; i += n) {
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
    const int64_t h = o->dim[1];
    const real *x = in[0], *z = in[1]; /* [M][H] */
    const real *w = in[2];             /* [H] */
    real *y = out[0];                  /* [M][H] */
    real *rstd = out[1];               /* [M] */
    for (int64_t m = 0; m < o->dim[0]; m++, x += h, z += h, y += h) {
        double sum = 0;
        for (int64_t i = 0; i < h; i++) sum += (double)x[i] * (double)x[i];
        const double r = 1 / sqrt(sum / (double)h + o->real[0]);
        for (int64_t i = 0; i < h; i++)
            y[i] = (real)(r * (double)x[i] * norm_weight(o, w, i) * silu((double)z[i]));
        rstd[m] = (real)r;
    }
}

static void gated_norm_d(const op *o, void *const *in, void *const *out)
{
    const int64_t h = o->dim[1];
    const real *dy = in[0], *x = in[1], *z = in[2]; /* [M][H] */
    const real *w = in[3];                          /* [H] */
    const real *rstd = in[4];                       /* [M] */
    real *dx = out[0], *dz = out[1];                /* [M][H] */
    for (int64_t m = 0; m < o->dim[0]; m++, dy += h, x += h, z += h, dx += h, dz += h) {
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
    const int64_t h = o->dim[1];
    const real *dy = in[0], *x = in[1], *z = in[2]; /* [M][H] */
    const real *rstd = in[3];                       /* [M] */
    real *dw = out[0];                              /* [H] */
    for (int64_t i = 0; i < h; i++) {
        double sum = (double)dw[i];
        for (int64_t m = 0; m < o->dim[0]; m++)
            sum += (double)dy[m * h + i] * (double)x[m * h + i] * (double)rstd[m] *
                   silu((double)z[m * h + i]);
        dw[i] = (real)sum;
    }
}

kernel_rows plain_gdn(void)
{
    static const kernel rows[] = {
        {OP_GDN_SPLIT, "plain", NULL, split},
        {OP_GDN_JOIN, "plain", NULL, join},
        {OP_CONV, "plain", NULL, conv_y},
        {OP_CONV_D, "plain", NULL, conv_d},
        {OP_CONV_W, "plain", NULL, conv_w},
        {OP_GDN_GATES, "plain", NULL, gates},
        {OP_GDN_GATES_D, "plain", NULL, gates_d},
        {OP_GDN_GATES_W, "plain", NULL, gates_w},
        {OP_GDN_RULE, "plain", plain_gdn_rule_accepts, plain_gdn_rule},
        {OP_GDN_RULE_D, "plain", plain_gdn_rule_accepts, plain_gdn_rule_d},
        {OP_GATED_NORM, "plain", NULL, gated_norm},
        {OP_GATED_NORM_D, "plain", NULL, gated_norm_d},
        {OP_GATED_NORM_W, "plain", NULL, gated_norm_w},
    };
    return (kernel_rows){rows, (int)(sizeof rows / sizeof rows[0])};
}

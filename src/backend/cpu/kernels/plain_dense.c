/* plain_dense.c - row 0 of GEMMs, biases, embedding, norms; and the table of all plain_dense*.c.
 *
 * Written to be read beside ops.def, and to be right: sums are kept in double, nothing is shared or
 * reordered. A test compiles these files for double (real.h) and checks every gradient against
 * differences. Operands are named as in ops.def. */
#include "backend/cpu/kernels/plain_dense.h"

#include <math.h>
#include <string.h>

#include "backend/cpu/kernels/real.h"

static double with_weight(const op *o, real w)
{
    return o->flags & ZERO_CENTRED ? 1 + (double)w : (double)w;
}

/* ---- GEMMs */

static void gemm(const op *o, void *const *in, void *const *out)
{
    const int64_t m = o->dim[DIM_GEMM_M], n = o->dim[DIM_GEMM_N], k = o->dim[DIM_GEMM_K];
    const real *x = in[IN_GEMM_x]; /* [M][K] */
    const real *w = in[IN_GEMM_w]; /* [N][K] */
    real *y = out[OUT_GEMM_y];     /* [M][N] */
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = o->flags & ACCUMULATE ? (double)y[i * n + j] : 0;
            for (int64_t l = 0; l < k; l++) sum += (double)x[i * k + l] * (double)w[j * k + l];
            y[i * n + j] = (real)sum;
        }
}

static void gemm_d(const op *o, void *const *in, void *const *out)
{
    const int64_t m = o->dim[DIM_GEMM_D_M], n = o->dim[DIM_GEMM_D_N], k = o->dim[DIM_GEMM_D_K];
    const real *dy = in[IN_GEMM_D_dy]; /* [M][N] */
    const real *w = in[IN_GEMM_D_w];   /* [N][K] */
    real *dx = out[OUT_GEMM_D_dx];     /* [M][K] */
    for (int64_t i = 0; i < m; i++)
        for (int64_t l = 0; l < k; l++) {
            double sum = o->flags & ACCUMULATE ? (double)dx[i * k + l] : 0;
            for (int64_t j = 0; j < n; j++) sum += (double)dy[i * n + j] * (double)w[j * k + l];
            dx[i * k + l] = (real)sum;
        }
}

static void gemm_w(const op *o, void *const *in, void *const *out)
{
    const int64_t m = o->dim[DIM_GEMM_W_M], n = o->dim[DIM_GEMM_W_N], k = o->dim[DIM_GEMM_W_K];
    const real *dy = in[IN_GEMM_W_dy]; /* [M][N] */
    const real *x = in[IN_GEMM_W_x];   /* [M][K] */
    real *dw = out[OUT_GEMM_W_dw];     /* [N][K] */
    for (int64_t j = 0; j < n; j++)
        for (int64_t l = 0; l < k; l++) {
            double sum = o->flags & OVERWRITE ? 0 : (double)dw[j * k + l];
            for (int64_t i = 0; i < m; i++) sum += (double)dy[i * n + j] * (double)x[i * k + l];
            dw[j * k + l] = (real)sum;
        }
}

static void bias(const op *o, void *const *in, void *const *out)
{
    const int64_t m = o->dim[DIM_BIAS_M], n = o->dim[DIM_BIAS_N];
    const real *b = in[IN_BIAS_b]; /* [N] */
    real *y = out[OUT_BIAS_y];     /* [M][N] */
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) y[i * n + j] += b[j];
}

static void bias_w(const op *o, void *const *in, void *const *out)
{
    const int64_t m = o->dim[DIM_BIAS_W_M], n = o->dim[DIM_BIAS_W_N];
    const real *dy = in[IN_BIAS_W_dy]; /* [M][N] */
    real *db = out[OUT_BIAS_W_db];     /* [N] */
    for (int64_t j = 0; j < n; j++) {
        double sum = (double)db[j];
        for (int64_t i = 0; i < m; i++) sum += (double)dy[i * n + j];
        db[j] = (real)sum;
    }
}

/* ---- embedding */

static void embed(const op *o, void *const *in, void *const *out)
{
    const int64_t n_t = o->dim[DIM_EMBED_T], h = o->dim[DIM_EMBED_H], n_v = o->dim[DIM_EMBED_V],
                  first = o->dim[DIM_EMBED_FIRST];
    const real *w = in[IN_EMBED_w];        /* [V][H] */
    const int32_t *ids = in[IN_EMBED_ids]; /* [T] */
    real *x = out[OUT_EMBED_x];            /* [T][H] */
    for (int64_t t = 0; t < n_t; t++) {
        int64_t v = ids[t] - first;
        for (int64_t i = 0; i < h; i++) x[t * h + i] = v < 0 || v >= n_v ? 0 : w[v * h + i];
    }
}

static void embed_w(const op *o, void *const *in, void *const *out)
{
    const int64_t n_t = o->dim[DIM_EMBED_W_T], h = o->dim[DIM_EMBED_W_H],
                  n_v = o->dim[DIM_EMBED_W_V], first = o->dim[DIM_EMBED_W_FIRST];
    const real *dx = in[IN_EMBED_W_dx];      /* [T][H] */
    const int32_t *ids = in[IN_EMBED_W_ids]; /* [T] */
    real *dw = out[OUT_EMBED_W_dw];          /* [V][H] */
    for (int64_t i = 0; (o->flags & OVERWRITE) && i < n_v * h; i++) dw[i] = 0;
    for (int64_t t = 0; t < n_t; t++) {
        int64_t v = ids[t] - first;
        if (v < 0 || v >= n_v) continue;
        for (int64_t i = 0; i < h; i++) dw[v * h + i] += dx[t * h + i];
    }
}

/* ---- norms */

static void norm(const op *o, void *const *in, void *const *out)
{
    const int64_t m = o->dim[DIM_NORM_M], h = o->dim[DIM_NORM_H];
    const real *x = in[IN_NORM_x];   /* [M][H] */
    const real *w = in[IN_NORM_w];   /* [H] */
    real *y = out[OUT_NORM_y];       /* [M][H] */
    real *rstd = out[OUT_NORM_rstd]; /* [M], may be missing */
    for (int64_t i = 0; i < m; i++) {
        double sum = 0;
        for (int64_t j = 0; j < h; j++) sum += (double)x[i * h + j] * (double)x[i * h + j];
        double r = 1 / sqrt(sum / (double)h + o->real[REAL_NORM_eps]);
        for (int64_t j = 0; j < h; j++)
            y[i * h + j] = (real)((double)x[i * h + j] * r * with_weight(o, w[j]));
        if (rstd) rstd[i] = (real)r;
    }
}

/* With g = dy * w and r = rstd: dx = r g - x r^3 mean(g x), since r depends on each x too. */
static void norm_d(const op *o, void *const *in, void *const *out)
{
    const int64_t m = o->dim[DIM_NORM_D_M], h = o->dim[DIM_NORM_D_H];
    const real *dy = in[IN_NORM_D_dy];     /* [M][H] */
    const real *x = in[IN_NORM_D_x];       /* [M][H] */
    const real *w = in[IN_NORM_D_w];       /* [H] */
    const real *rstd = in[IN_NORM_D_rstd]; /* [M] */
    real *dx = out[OUT_NORM_D_dx];         /* [M][H] */
    for (int64_t i = 0; i < m; i++) {
        double r = (double)rstd[i], sum = 0;
        for (int64_t j = 0; j < h; j++)
            sum += (double)dy[i * h + j] * with_weight(o, w[j]) * (double)x[i * h + j];
        for (int64_t j = 0; j < h; j++) {
            double g = (double)dy[i * h + j] * with_weight(o, w[j]);
            double d = r * g - (double)x[i * h + j] * r * r * r * sum / (double)h;
            dx[i * h + j] = (real)(o->flags & ACCUMULATE ? (double)dx[i * h + j] + d : d);
        }
    }
}

static void norm_w(const op *o, void *const *in, void *const *out)
{
    const int64_t m = o->dim[DIM_NORM_W_M], h = o->dim[DIM_NORM_W_H];
    const real *dy = in[IN_NORM_W_dy];     /* [M][H] */
    const real *x = in[IN_NORM_W_x];       /* [M][H] */
    const real *rstd = in[IN_NORM_W_rstd]; /* [M] */
    real *dw = out[OUT_NORM_W_dw];         /* [H] */
    for (int64_t j = 0; j < h; j++) {
        double sum = (double)dw[j];
        for (int64_t i = 0; i < m; i++)
            sum += (double)dy[i * h + j] * (double)x[i * h + j] * (double)rstd[i];
        dw[j] = (real)sum;
    }
}

/* ---- the table */

static const kernel own_rows[] = {
    {OP_GEMM, "plain", NULL, .run = gemm},       {OP_GEMM_D, "plain", NULL, .run = gemm_d},
    {OP_GEMM_W, "plain", NULL, .run = gemm_w},   {OP_BIAS, "plain", NULL, .run = bias},
    {OP_BIAS_W, "plain", NULL, .run = bias_w},   {OP_EMBED, "plain", NULL, .run = embed},
    {OP_EMBED_W, "plain", NULL, .run = embed_w}, {OP_NORM, "plain", NULL, .run = norm},
    {OP_NORM_D, "plain", NULL, .run = norm_d},   {OP_NORM_W, "plain", NULL, .run = norm_w},
};

kernel_rows plain_dense(void)
{
    enum { ROOM = 64 };
    static kernel rows[ROOM];
    const kernel_rows parts[] = {
        {own_rows, sizeof own_rows / sizeof own_rows[0]},
        plain_dense_maps(),
        plain_dense_heads(),
        plain_dense_loss(),
    };
    return kernel_rows_joined(rows, ROOM, parts, sizeof parts / sizeof parts[0]);
}

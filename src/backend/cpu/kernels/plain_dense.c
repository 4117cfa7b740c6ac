/* plain_dense.c - row 0 of GEMMs, biases, embedding, norms; and the table of all plain_dense*.c.
 *
 * Written to be read beside ops.def, and to be right: sums are kept in double, nothing is shared or
 * reordered. A test compiles these files for double (real.h) and checks every gradient against
 * differences. Operands are named as in ops.def. */
#include "backend/cpu/kernels/plain_dense.h"

#include <math.h>
#include <string.h>

#include "backend/cpu/kernels/real.h"
#include "op/op_operands.h"

static double with_weight(const op *o, real w)
{
    return o->flags & ZERO_CENTRED ? 1 + (double)w : (double)w;
}

/* ---- GEMMs */

static void gemm(const op *o, void *const *in, void *const *out)
{
    const op_gemm a = op_gemm_of(o, in, out);
    for (int64_t i = 0; i < a.M; i++)
        for (int64_t j = 0; j < a.N; j++) {
            double sum = o->flags & ACCUMULATE ? (double)a.y[i * a.N + j] : 0;
            for (int64_t l = 0; l < a.K; l++)
                sum += (double)a.x[i * a.K + l] * (double)a.w[j * a.K + l];
            a.y[i * a.N + j] = (real)sum;
        }
}

static void gemm_d(const op *o, void *const *in, void *const *out)
{
    const op_gemm_d a = op_gemm_d_of(o, in, out);
    for (int64_t i = 0; i < a.M; i++)
        for (int64_t l = 0; l < a.K; l++) {
            double sum = o->flags & ACCUMULATE ? (double)a.dx[i * a.K + l] : 0;
            for (int64_t j = 0; j < a.N; j++)
                sum += (double)a.dy[i * a.N + j] * (double)a.w[j * a.K + l];
            a.dx[i * a.K + l] = (real)sum;
        }
}

static void gemm_w(const op *o, void *const *in, void *const *out)
{
    const op_gemm_w a = op_gemm_w_of(o, in, out);
    for (int64_t j = 0; j < a.N; j++)
        for (int64_t l = 0; l < a.K; l++) {
            double sum = o->flags & OVERWRITE ? 0 : (double)a.dw[j * a.K + l];
            for (int64_t i = 0; i < a.M; i++)
                sum += (double)a.dy[i * a.N + j] * (double)a.x[i * a.K + l];
            a.dw[j * a.K + l] = (real)sum;
        }
}

static void bias(const op *o, void *const *in, void *const *out)
{
    const op_bias a = op_bias_of(o, in, out);
    for (int64_t i = 0; i < a.M; i++)
        for (int64_t j = 0; j < a.N; j++) a.y[i * a.N + j] += a.b[j];
}

static void bias_w(const op *o, void *const *in, void *const *out)
{
    const op_bias_w a = op_bias_w_of(o, in, out);
    for (int64_t j = 0; j < a.N; j++) {
        double sum = (double)a.db[j];
        for (int64_t i = 0; i < a.M; i++) sum += (double)a.dy[i * a.N + j];
        a.db[j] = (real)sum;
    }
}

/* ---- embedding */

static void embed(const op *o, void *const *in, void *const *out)
{
    const op_embed a = op_embed_of(o, in, out);
    for (int64_t t = 0; t < a.T; t++) {
        int64_t v = a.ids[t] - a.FIRST;
        for (int64_t i = 0; i < a.H; i++)
            a.x[t * a.H + i] = v < 0 || v >= a.V ? 0 : a.w[v * a.H + i];
    }
}

static void embed_w(const op *o, void *const *in, void *const *out)
{
    const op_embed_w a = op_embed_w_of(o, in, out);
    for (int64_t i = 0; (o->flags & OVERWRITE) && i < a.V * a.H; i++) a.dw[i] = 0;
    for (int64_t t = 0; t < a.T; t++) {
        int64_t v = a.ids[t] - a.FIRST;
        if (v < 0 || v >= a.V) continue;
        for (int64_t i = 0; i < a.H; i++) a.dw[v * a.H + i] += a.dx[t * a.H + i];
    }
}

/* ---- norms */

static void norm(const op *o, void *const *in, void *const *out)
{
    const op_norm a = op_norm_of(o, in, out);
    for (int64_t i = 0; i < a.M; i++) {
        double sum = 0;
        for (int64_t j = 0; j < a.H; j++)
            sum += (double)a.x[i * a.H + j] * (double)a.x[i * a.H + j];
        double r = 1 / sqrt(sum / (double)a.H + a.eps);
        for (int64_t j = 0; j < a.H; j++)
            a.y[i * a.H + j] = (real)((double)a.x[i * a.H + j] * r * with_weight(o, a.w[j]));
        if (a.rstd) a.rstd[i] = (real)r;
    }
}

/* With g = dy * w and r = rstd: dx = r g - x r^3 mean(g x), since r depends on each x too. */
static void norm_d(const op *o, void *const *in, void *const *out)
{
    const op_norm_d a = op_norm_d_of(o, in, out);
    for (int64_t i = 0; i < a.M; i++) {
        double r = (double)a.rstd[i], sum = 0;
        for (int64_t j = 0; j < a.H; j++)
            sum += (double)a.dy[i * a.H + j] * with_weight(o, a.w[j]) * (double)a.x[i * a.H + j];
        for (int64_t j = 0; j < a.H; j++) {
            double g = (double)a.dy[i * a.H + j] * with_weight(o, a.w[j]);
            double d = r * g - (double)a.x[i * a.H + j] * r * r * r * sum / (double)a.H;
            a.dx[i * a.H + j] = (real)(o->flags & ACCUMULATE ? (double)a.dx[i * a.H + j] + d : d);
        }
    }
}

static void norm_w(const op *o, void *const *in, void *const *out)
{
    const op_norm_w a = op_norm_w_of(o, in, out);
    for (int64_t j = 0; j < a.H; j++) {
        double sum = (double)a.dw[j];
        for (int64_t i = 0; i < a.M; i++)
            sum += (double)a.dy[i * a.H + j] * (double)a.x[i * a.H + j] * (double)a.rstd[i];
        a.dw[j] = (real)sum;
    }
}

/* ---- the table */

static const kernel own_rows[] = {
    {OP_GEMM, "plain", .run = gemm},       {OP_GEMM_D, "plain", .run = gemm_d},
    {OP_GEMM_W, "plain", .run = gemm_w},   {OP_BIAS, "plain", .run = bias},
    {OP_BIAS_W, "plain", .run = bias_w},   {OP_EMBED, "plain", .run = embed},
    {OP_EMBED_W, "plain", .run = embed_w}, {OP_NORM, "plain", .run = norm},
    {OP_NORM_D, "plain", .run = norm_d},   {OP_NORM_W, "plain", .run = norm_w},
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

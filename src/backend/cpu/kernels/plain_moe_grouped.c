/* plain_moe_grouped.c - GEMMs of every expert with its own rows.
 *
 * G1  Rows offsets[e] .. offsets[e+1]-1 are expert e's; none at all is ordinary.
 * G2  Rows past offsets[E] of an output that is written are zero.
 * G3  Sums are in double, so that this row is a measure of the others. */
#include "backend/cpu/kernels/plain_moe.h"
#include "op/op_operands.h"

#include <string.h>

static void zero_rows(real *y, int64_t begin, int64_t end, int64_t n)
{
    if (begin < end) memset(y + begin * n, 0, (size_t)((end - begin) * n) * sizeof *y);
}

static void plain_grouped(const op *o, void *const *in, void *const *out)
{
    const op_grouped a = op_grouped_of(o, in, out);
    for (int64_t e = 0; e < a.E; e++) {
        span s = expert_rows(a.offsets, e, a.ROOM);
        for (int64_t r = s.begin; r < s.end; r++)
            for (int64_t n = 0; n < a.N; n++) {
                const real *wn = a.w + (e * a.N + n) * a.K; /* [K] */
                double sum = 0;
                for (int64_t k = 0; k < a.K; k++) sum += (double)a.x[r * a.K + k] * (double)wn[k];
                a.y[r * a.N + n] = (real)sum;
            }
    }
    zero_rows(a.y, a.offsets[a.E], a.ROOM, a.N); /* G2 */
}

static void plain_grouped_d(const op *o, void *const *in, void *const *out)
{
    const op_grouped_d a = op_grouped_d_of(o, in, out);
    for (int64_t e = 0; e < a.E; e++) {
        span s = expert_rows(a.offsets, e, a.ROOM);
        for (int64_t r = s.begin; r < s.end; r++)
            for (int64_t k = 0; k < a.K; k++) {
                const real *wk = a.w + e * a.N * a.K + k; /* [N], every K-th */
                double sum = 0;
                for (int64_t n = 0; n < a.N; n++)
                    sum += (double)a.dy[r * a.N + n] * (double)wk[n * a.K];
                a.dx[r * a.K + k] = (real)sum;
            }
    }
    zero_rows(a.dx, a.offsets[a.E], a.ROOM, a.K); /* G2 */
}

static void plain_grouped_w(const op *o, void *const *in, void *const *out)
{
    const op_grouped_w a = op_grouped_w_of(o, in, out);
    for (int64_t e = 0; e < a.E; e++) {
        span s = expert_rows(a.offsets, e, a.ROOM);
        for (int64_t i = 0; i < a.N * a.K; i++) {
            int64_t n = i / a.K, k = i % a.K;
            double sum = 0;
            for (int64_t r = s.begin; r < s.end; r++)
                sum += (double)a.dy[r * a.N + n] * (double)a.x[r * a.K + k];
            a.dw[e * a.N * a.K + i] =
                (o->flags & OVERWRITE ? 0 : a.dw[e * a.N * a.K + i]) + (real)sum;
        }
    }
}

static void plain_grouped_bias(const op *o, void *const *in, void *const *out)
{
    const op_grouped_bias a = op_grouped_bias_of(o, in, out);
    for (int64_t e = 0; e < a.E; e++) {
        span s = expert_rows(a.offsets, e, a.ROOM);
        for (int64_t r = s.begin; r < s.end; r++)
            for (int64_t n = 0; n < a.N; n++)
                a.y[r * a.N + n] += a.b[e * a.N + n] * ((a.p ? a.p[r] : 1) * (real)a.scale);
    }
}

static void plain_grouped_bias_w(const op *o, void *const *in, void *const *out)
{
    const op_grouped_bias_w a = op_grouped_bias_w_of(o, in, out);
    for (int64_t e = 0; e < a.E; e++) {
        span s = expert_rows(a.offsets, e, a.ROOM);
        for (int64_t n = 0; n < a.N; n++) {
            double sum = 0;
            for (int64_t r = s.begin; r < s.end; r++)
                sum += (double)a.dy[r * a.N + n] * (a.p ? (double)a.p[r] : 1);
            a.db[e * a.N + n] += (real)sum;
        }
    }
}

static void plain_grouped_bias_p(const op *o, void *const *in, void *const *out)
{
    const op_grouped_bias_p a = op_grouped_bias_p_of(o, in, out);
    for (int64_t e = 0; e < a.E; e++) {
        span s = expert_rows(a.offsets, e, a.ROOM);
        for (int64_t r = s.begin; r < s.end; r++) {
            double sum = 0;
            for (int64_t n = 0; n < a.N; n++)
                sum += (double)a.dy[r * a.N + n] * (double)a.b[e * a.N + n];
            a.dp[r] += (real)(a.scale * sum);
        }
    }
}

kernel_rows plain_moe_grouped(void)
{
    static const kernel rows[] = {
        {OP_GROUPED, "plain", .run = plain_grouped},
        {OP_GROUPED_D, "plain", .run = plain_grouped_d},
        {OP_GROUPED_W, "plain", .run = plain_grouped_w},
        {OP_GROUPED_BIAS, "plain", .run = plain_grouped_bias},
        {OP_GROUPED_BIAS_W, "plain", .run = plain_grouped_bias_w},
        {OP_GROUPED_BIAS_P, "plain", .run = plain_grouped_bias_p},
    };
    return (kernel_rows){rows, sizeof rows / sizeof rows[0]};
}

/* plain_moe_grouped.c - GEMMs of every expert with its own rows.
 *
 * G1  Rows offsets[e] .. offsets[e+1]-1 are expert e's; none at all is ordinary.
 * G2  Rows past offsets[E] of an output that is written are zero.
 * G3  Sums are in double, so that this row is a measure of the others. */
#include "backend/cpu/kernels/plain_moe.h"

#include <string.h>

static void zero_rows(real *y, int64_t begin, int64_t end, int64_t n)
{
    if (begin < end) memset(y + begin * n, 0, (size_t)((end - begin) * n) * sizeof *y);
}

static void plain_grouped(const op *o, void *const *in, void *const *out)
{
    const real *x = in[IN_GROUPED_x];                /* [ROOM][K] */
    const real *w = in[IN_GROUPED_w];                /* [E][N][K] */
    const int32_t *offsets = in[IN_GROUPED_offsets]; /* [E+1] */
    real *y = out[OUT_GROUPED_y];                    /* [ROOM][N] */
    int64_t room = o->dim[DIM_GROUPED_ROOM], E = o->dim[DIM_GROUPED_E], N = o->dim[DIM_GROUPED_N],
            K = o->dim[DIM_GROUPED_K];
    for (int64_t e = 0; e < E; e++) {
        span s = expert_rows(offsets, e, room);
        for (int64_t r = s.begin; r < s.end; r++)
            for (int64_t n = 0; n < N; n++) {
                const real *wn = w + (e * N + n) * K; /* [K] */
                double sum = 0;
                for (int64_t k = 0; k < K; k++) sum += (double)x[r * K + k] * (double)wn[k];
                y[r * N + n] = (real)sum;
            }
    }
    zero_rows(y, offsets[E], room, N); /* G2 */
}

static void plain_grouped_d(const op *o, void *const *in, void *const *out)
{
    const real *dy = in[IN_GROUPED_D_dy];              /* [ROOM][N] */
    const real *w = in[IN_GROUPED_D_w];                /* [E][N][K] */
    const int32_t *offsets = in[IN_GROUPED_D_offsets]; /* [E+1] */
    real *dx = out[OUT_GROUPED_D_dx];                  /* [ROOM][K] */
    int64_t room = o->dim[DIM_GROUPED_D_ROOM], E = o->dim[DIM_GROUPED_D_E],
            N = o->dim[DIM_GROUPED_D_N], K = o->dim[DIM_GROUPED_D_K];
    for (int64_t e = 0; e < E; e++) {
        span s = expert_rows(offsets, e, room);
        for (int64_t r = s.begin; r < s.end; r++)
            for (int64_t k = 0; k < K; k++) {
                const real *wk = w + e * N * K + k; /* [N], every K-th */
                double sum = 0;
                for (int64_t n = 0; n < N; n++) sum += (double)dy[r * N + n] * (double)wk[n * K];
                dx[r * K + k] = (real)sum;
            }
    }
    zero_rows(dx, offsets[E], room, K); /* G2 */
}

static void plain_grouped_w(const op *o, void *const *in, void *const *out)
{
    const real *dy = in[IN_GROUPED_W_dy];              /* [ROOM][N] */
    const real *x = in[IN_GROUPED_W_x];                /* [ROOM][K] */
    const int32_t *offsets = in[IN_GROUPED_W_offsets]; /* [E+1] */
    real *dw = out[OUT_GROUPED_W_dw];                  /* [E][N][K] */
    int64_t room = o->dim[DIM_GROUPED_W_ROOM], E = o->dim[DIM_GROUPED_W_E],
            N = o->dim[DIM_GROUPED_W_N], K = o->dim[DIM_GROUPED_W_K];
    for (int64_t e = 0; e < E; e++) {
        span s = expert_rows(offsets, e, room);
        for (int64_t i = 0; i < N * K; i++) {
            int64_t n = i / K, k = i % K;
            double sum = 0;
            for (int64_t r = s.begin; r < s.end; r++)
                sum += (double)dy[r * N + n] * (double)x[r * K + k];
            dw[e * N * K + i] = (o->flags & OVERWRITE ? 0 : dw[e * N * K + i]) + (real)sum;
        }
    }
}

static void plain_grouped_bias(const op *o, void *const *in, void *const *out)
{
    const real *b = in[IN_GROUPED_BIAS_b];                /* [E][N] */
    const real *p = in[IN_GROUPED_BIAS_p];                /* [ROOM] or none */
    const int32_t *offsets = in[IN_GROUPED_BIAS_offsets]; /* [E+1] */
    real *y = out[OUT_GROUPED_BIAS_y];                    /* [ROOM][N] */
    int64_t room = o->dim[DIM_GROUPED_BIAS_ROOM], E = o->dim[DIM_GROUPED_BIAS_E],
            N = o->dim[DIM_GROUPED_BIAS_N];
    for (int64_t e = 0; e < E; e++) {
        span s = expert_rows(offsets, e, room);
        for (int64_t r = s.begin; r < s.end; r++)
            for (int64_t n = 0; n < N; n++)
                y[r * N + n] +=
                    b[e * N + n] * ((p ? p[r] : 1) * (real)o->real[REAL_GROUPED_BIAS_scale]);
    }
}

static void plain_grouped_bias_w(const op *o, void *const *in, void *const *out)
{
    const real *dy = in[IN_GROUPED_BIAS_W_dy];              /* [ROOM][N] */
    const real *p = in[IN_GROUPED_BIAS_W_p];                /* [ROOM] or none */
    const int32_t *offsets = in[IN_GROUPED_BIAS_W_offsets]; /* [E+1] */
    real *db = out[OUT_GROUPED_BIAS_W_db];                  /* [E][N] */
    int64_t room = o->dim[DIM_GROUPED_BIAS_W_ROOM], E = o->dim[DIM_GROUPED_BIAS_W_E],
            N = o->dim[DIM_GROUPED_BIAS_W_N];
    for (int64_t e = 0; e < E; e++) {
        span s = expert_rows(offsets, e, room);
        for (int64_t n = 0; n < N; n++) {
            double sum = 0;
            for (int64_t r = s.begin; r < s.end; r++)
                sum += (double)dy[r * N + n] * (p ? (double)p[r] : 1);
            db[e * N + n] += (real)sum;
        }
    }
}

static void plain_grouped_bias_p(const op *o, void *const *in, void *const *out)
{
    const real *dy = in[IN_GROUPED_BIAS_P_dy];              /* [ROOM][N] */
    const real *b = in[IN_GROUPED_BIAS_P_b];                /* [E][N] */
    const int32_t *offsets = in[IN_GROUPED_BIAS_P_offsets]; /* [E+1] */
    real *dp = out[OUT_GROUPED_BIAS_P_dp];                  /* [ROOM] */
    int64_t room = o->dim[DIM_GROUPED_BIAS_P_ROOM], E = o->dim[DIM_GROUPED_BIAS_P_E],
            N = o->dim[DIM_GROUPED_BIAS_P_N];
    for (int64_t e = 0; e < E; e++) {
        span s = expert_rows(offsets, e, room);
        for (int64_t r = s.begin; r < s.end; r++) {
            double sum = 0;
            for (int64_t n = 0; n < N; n++) sum += (double)dy[r * N + n] * (double)b[e * N + n];
            dp[r] += (real)(o->real[REAL_GROUPED_BIAS_P_scale] * sum);
        }
    }
}

kernel_rows plain_moe_grouped(void)
{
    static const kernel rows[] = {
        {OP_GROUPED, "plain", NULL, .run = plain_grouped},
        {OP_GROUPED_D, "plain", NULL, .run = plain_grouped_d},
        {OP_GROUPED_W, "plain", NULL, .run = plain_grouped_w},
        {OP_GROUPED_BIAS, "plain", NULL, .run = plain_grouped_bias},
        {OP_GROUPED_BIAS_W, "plain", NULL, .run = plain_grouped_bias_w},
        {OP_GROUPED_BIAS_P, "plain", NULL, .run = plain_grouped_bias_p},
    };
    return (kernel_rows){rows, sizeof rows / sizeof rows[0]};
}

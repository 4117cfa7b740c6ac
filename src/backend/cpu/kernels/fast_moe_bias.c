/* fast_moe_bias.c - biases of experts on all threads.
 *
 * Rows of an expert are added in an order of their own; threads share columns, never the rows of
 * one column. */
#include "backend/cpu/kernels/fast_moe.h"

#include "backend/cpu/kernels/plain_moe.h"
#include "op/op_operands.h"

static void fast_grouped_bias(const op *o, void *const *in, void *const *out)
{
    const op_grouped_bias a = op_grouped_bias_of(o, in, out);
    int64_t e = 0, n_rows = a.offsets[a.E] < a.ROOM ? a.offsets[a.E] : a.ROOM;
#pragma omp parallel for schedule(static) firstprivate(e)
    for (int64_t r = 0; r < n_rows; r++) {
        while (a.offsets[e + 1] <= r) e++;          /* a thread's rows ascend */
        const float *restrict from = a.b + e * a.N; /* [N] */
        float *restrict to = a.y + r * a.N;         /* [N] */
        float weight = (a.p ? a.p[r] : 1) * (float)a.scale;
        for (int64_t n = 0; n < a.N; n++) to[n] += from[n] * weight;
    }
}

enum { COLUMNS = 128, TOGETHER = 4 }; /* columns whose sums stay in the first cache; rows a visit */

/* sums[n] += columns of TOGETHER rows of dy times their weights. */
static void add_rows(double *restrict sums, const float *restrict dy, int64_t N, const float *w,
                     int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        sums[i] += (double)(dy[i] * w[0] + dy[N + i] * w[1] +
                            (dy[2 * N + i] * w[2] + dy[3 * N + i] * w[3]));
}

/* db[n] += sum over the rows of dy[row][n] * p[row], for n columns of one expert. */
static void add_columns(const float *dy, const float *p, span s, int64_t N, int64_t n, float *db)
{
    static const float ones[TOGETHER] = {1, 1, 1, 1};
    double sums[COLUMNS] = {0};
    int64_t r = s.begin;
    for (; r + TOGETHER <= s.end; r += TOGETHER) add_rows(sums, dy + r * N, N, p ? p + r : ones, n);
    for (; r < s.end; r++)
        for (int64_t i = 0; i < n; i++) sums[i] += (double)(dy[r * N + i] * (p ? p[r] : 1));
    for (int64_t i = 0; i < n; i++) db[i] += (float)sums[i];
}

static void fast_grouped_bias_w(const op *o, void *const *in, void *const *out)
{
    const op_grouped_bias_w a = op_grouped_bias_w_of(o, in, out);
#pragma omp parallel for collapse(2) schedule(dynamic)
    for (int64_t e = 0; e < a.E; e++)
        for (int64_t c = 0; c < a.N; c += COLUMNS) {
            int64_t n = a.N - c < COLUMNS ? a.N - c : COLUMNS;
            add_columns(a.dy + c, a.p, expert_rows(a.offsets, e, a.ROOM), a.N, n,
                        a.db + e * a.N + c);
        }
}

enum { LANES = 16 }; /* sums side by side, so that a compiler can use vectors */

static float dot(const float *restrict a /* [n] */, const float *restrict b /* [n] */, int64_t n)
{
    float sums[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++) sums[j] += a[i + j] * b[i + j];
    for (int j = 0; i + j < n; j++) sums[j] += a[i + j] * b[i + j];
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int j = 0; j < half; j++) sums[j] += sums[j + half];
    return sums[0];
}

static void fast_grouped_bias_p(const op *o, void *const *in, void *const *out)
{
    const op_grouped_bias_p a = op_grouped_bias_p_of(o, in, out);
    int64_t e = 0, n_rows = a.offsets[a.E] < a.ROOM ? a.offsets[a.E] : a.ROOM;
#pragma omp parallel for schedule(static) firstprivate(e)
    for (int64_t r = 0; r < n_rows; r++) {
        while (a.offsets[e + 1] <= r) e++; /* a thread's rows ascend */
        a.dp[r] += (float)a.scale * dot(a.dy + r * a.N, a.b + e * a.N, a.N);
    }
}

kernel_rows fast_moe_bias(void)
{
    static const kernel rows[] = {
        {OP_GROUPED_BIAS, "threads", .run = fast_grouped_bias},
        {OP_GROUPED_BIAS_W, "threads", .run = fast_grouped_bias_w},
        {OP_GROUPED_BIAS_P, "threads", .run = fast_grouped_bias_p},
    };
    return (kernel_rows){rows, sizeof rows / sizeof rows[0]};
}

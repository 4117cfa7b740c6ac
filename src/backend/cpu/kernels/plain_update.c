/* plain_update.c - rows of a step's begin and end: copies and zeros of any format, sums, verdict,
 * update. They take numbers as they are kept, so they have launches of their own. */
#include <string.h>

#include "base/maths.h"
#include "backend/cpu/kernels/bytes.h"
#include "backend/cpu/kernels/rows.h"
#include "backend/cpu/kernels/update.h"

/* ---- bytes */

enum { BYTES_TOGETHER = 1 << 18 };

void bytes_copy(const kernel_call *c)
{
    const unsigned char *x = c->in[IN_COPY_a];
    unsigned char *y = c->out[OUT_COPY_y];
    int64_t n = dtype_bytes(c->types->in[IN_COPY_a], c->o->dim[DIM_COPY_N]);
#pragma omp parallel for schedule(static) if (n > BYTES_TOGETHER)
    for (int64_t i = 0; i < n; i += BYTES_TOGETHER)
        memcpy(y + i, x + i, (size_t)(n - i < BYTES_TOGETHER ? n - i : BYTES_TOGETHER));
}

/* Zero is all bits zero in every format. */
void bytes_zero(const kernel_call *c)
{
    unsigned char *y = c->out[OUT_ZERO_y];
    int64_t n = dtype_bytes(c->types->out[OUT_ZERO_y], c->o->dim[DIM_ZERO_N]);
#pragma omp parallel for schedule(static) if (n > BYTES_TOGETHER)
    for (int64_t i = 0; i < n; i += BYTES_TOGETHER)
        memset(y + i, 0, (size_t)(n - i < BYTES_TOGETHER ? n - i : BYTES_TOGETHER));
}

/* ---- sums */

static void squares(const kernel_call *c)
{
    update_table t = {c->in[IN_SQUARES_table], c->o->dim[DIM_SQUARES_ROWS]};
    typed x = {c->types->in[IN_SQUARES_x], c->in[IN_SQUARES_x]};
    *(double *)c->out[OUT_SQUARES_sum] = update_squares(t, x);
}

static void tally(const kernel_call *c)
{
    const tally_operands x = {.loss = c->in[IN_TALLY_loss],
                              .mtp = c->in[IN_TALLY_mtp],
                              .aux = c->in[IN_TALLY_aux],
                              .z = c->in[IN_TALLY_z],
                              .rows = c->in[IN_TALLY_rows],
                              .counts = c->in[IN_TALLY_counts],
                              .given = c->in[IN_TALLY_given],
                              .squares = c->in[IN_TALLY_squares],
                              .micros = c->o->dim[DIM_TALLY_MICROS],
                              .layers = c->o->dim[DIM_TALLY_LAYERS]};
    update_tally(c->out[OUT_TALLY_tally], &x);
}

static void sum(const kernel_call *c)
{
    const double *x = c->in[IN_SUM_x]; /* [P][N] */
    double *y = c->out[OUT_SUM_y];     /* [N] */
    int64_t p = c->o->dim[DIM_SUM_P], n = c->o->dim[DIM_SUM_N];
    for (int64_t i = 0; i < n; i++) {
        double all = x[i];
        for (int64_t k = 1; k < p; k++) all += x[k * n + i];
        y[i] = all;
    }
}

/* ---- verdict and update */

static void verdict(const kernel_call *c)
{
    const double *r = c->o->real;
    verdict_limits l = {r[REAL_VERDICT_clip], r[REAL_VERDICT_skip], r[REAL_VERDICT_beta1],
                        r[REAL_VERDICT_beta2]};
    update_verdict(c->out[OUT_VERDICT_verdict], c->in[IN_VERDICT_sums], c->in[IN_VERDICT_given],
                   &l);
}

static void adamw(const kernel_call *c)
{
    update_run(c->o, c->types, c->in, c->out);
}

static void bias_update(const kernel_call *c)
{
    const double *v = c->in[IN_BIAS_UPDATE_verdict];
    if (v[VERDICT_OUTCOME] != STEP_TAKEN) return;
    update_bias(c->out[OUT_BIAS_UPDATE_bias], c->in[IN_BIAS_UPDATE_load],
                c->o->dim[DIM_BIAS_UPDATE_E], c->o->real[REAL_BIAS_UPDATE_rate]);
}

kernel_rows plain_update(void)
{
    static const kernel rows[] = {
        {OP_SQUARES, "plain", NULL, .launch = squares},
        {OP_TALLY, "plain", NULL, .launch = tally},
        {OP_SUM, "plain", NULL, .launch = sum},
        {OP_VERDICT, "plain", NULL, .launch = verdict},
        {OP_ADAMW, "plain", NULL, .launch = adamw},
        {OP_HOST_ADAMW, "plain", NULL, .launch = adamw},
        {OP_BIAS_UPDATE, "plain", NULL, .launch = bias_update},
    };
    return (kernel_rows){rows, (int)(sizeof rows / sizeof rows[0])};
}

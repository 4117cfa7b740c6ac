/* plain_update.c - rows of a step's begin and end: copies and zeros of any format, sums, verdict,
 * update. They take numbers as they are kept, so they have launches of their own. */
#include <string.h>

#include "base/maths.h"
#include "backend/cpu/kernels/bytes.h"
#include "backend/cpu/kernels/rows.h"
#include "backend/cpu/kernels/update.h"
#include "op/op_operands.h"

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
    const op_squares a = op_squares_of(c->o, c->in, c->out);
    typed x = {c->types->in[IN_SQUARES_x], c->in[IN_SQUARES_x]};
    *a.sum = update_squares(table_of(a.table, a.ROWS), x);
}

static void tally(const kernel_call *c)
{
    const op_tally a = op_tally_of(c->o, c->in, c->out);
    const tally_operands x = {.loss = a.loss,
                              .mtp = a.mtp,
                              .aux = a.aux,
                              .z = a.z,
                              .rows = a.rows,
                              .counts = a.counts,
                              .given = a.given,
                              .squares = a.squares,
                              .micros = a.MICROS,
                              .layers = a.LAYERS};
    update_tally(a.tally, &x);
}

static void sum(const kernel_call *c)
{
    const op_sum a = op_sum_of(c->o, c->in, c->out);
    for (int64_t i = 0; i < a.N; i++) {
        double all = a.x[i];
        for (int64_t k = 1; k < a.P; k++) all += a.x[k * a.N + i];
        a.y[i] = all;
    }
}

/* ---- verdict and update */

static void verdict(const kernel_call *c)
{
    const op_verdict a = op_verdict_of(c->o, c->in, c->out);
    verdict_limits l = {a.clip, a.skip, a.beta1, a.beta2};
    update_verdict(a.verdict, a.sums, a.given, &l);
}

/* HOST_ADAMW has the positions of ADAMW, and one more. */
static void adamw(const kernel_call *c)
{
    const op_adamw a = op_adamw_of(c->o, c->in, c->out);
    const op_types *t = c->types;
    update_arrays x = {.weights = {t->out[OUT_ADAMW_weight], a.weight},
                       .gradients = {t->in[IN_ADAMW_gradient], c->in[IN_ADAMW_gradient]},
                       .masters = {t->out[OUT_ADAMW_master], a.master},
                       .first = {t->out[OUT_ADAMW_first], a.first},
                       .second = {t->out[OUT_ADAMW_second], a.second}};
    adam_numbers k = adam_of(a.beta1, a.beta2, a.eps, (c->o->flags & DECAY_L2) != 0);
    bool apart = c->o->kind == OP_HOST_ADAMW;
    update_window of = {a.FROM, a.COUNT, apart ? c->o->dim[DIM_HOST_ADAMW_AT] : 0};
    (apart ? update_adamw_apart : update_adamw)(&k, a.verdict, table_of(a.table, a.ROWS), &x, &of);
}

static void bias_update(const kernel_call *c)
{
    const op_bias_update a = op_bias_update_of(c->o, c->in, c->out);
    if (a.verdict[VERDICT_OUTCOME] == STEP_TAKEN) update_bias(a.bias, a.load, a.E, a.rate);
}

kernel_rows plain_update(void)
{
    static const kernel rows[] = {
        {OP_SQUARES, "plain", .launch = squares},
        {OP_TALLY, "plain", .launch = tally},
        {OP_SUM, "plain", .launch = sum},
        {OP_VERDICT, "plain", .launch = verdict},
        {OP_ADAMW, "plain", .launch = adamw},
        {OP_HOST_ADAMW, "plain", .launch = adamw},
        {OP_BIAS_UPDATE, "plain", .launch = bias_update},
    };
    return (kernel_rows){rows, (int)(sizeof rows / sizeof rows[0])};
}

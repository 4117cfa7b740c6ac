/* fill_update.c - inputs of what a step ends with: tables of weights, tallies, verdicts. */
#include <math.h>
#include <string.h>

#include "cuda/cases.h"
#include "op/update.h"

/* ROWS weights, some empty, with gaps in the flat arrays; the last one takes what is left of N. */
static int64_t make_table(trial *t, tensor *table, int64_t n, int64_t rows)
{
    int64_t pieces = 0, offset = 0, moments = 0;
    tensor_doubles(t, table, rows * TABLE_COLUMNS);
    for (int64_t i = 0; i < rows; i++) {
        const int64_t left = n - moments, some = next_below(t, 2 * n / rows + 1);
        const int64_t own = i == rows - 1 ? left : i % 5 == 3 ? 0 : some < left ? some : left;
        ((update_row *)table->d)[i] = (update_row){.piece = pieces,
                                                   .offset = offset,
                                                   .n = own,
                                                   .moments = moments,
                                                   .decays = i % 2,
                                                   .embedding = i % 3 == 0,
                                                   .answers = i % 4 != 1};
        pieces += (own + UPDATE_PIECE - 1) / UPDATE_PIECE;
        offset += own + next_below(t, 9);
        moments += own;
    }
    return offset;
}

static void make_verdict(trial *t, tensor *x)
{
    static const double values[VERDICT_COUNT] = {
        [VERDICT_NORM] = 2,     [VERDICT_CLIP] = 0.5,         [VERDICT_SCALE] = 0.25,
        [VERDICT_LR] = 0.01,    [VERDICT_EMBEDDING_LR] = 0.1, [VERDICT_DECAY] = 0.3,
        [VERDICT_CORRECT1] = 3, [VERDICT_CORRECT2] = 5};
    tensor_doubles(t, x, VERDICT_COUNT);
    memcpy(x->d, values, sizeof values);
    x->d[VERDICT_OUTCOME] = t->way == 1 ? STEP_TOO_LARGE : STEP_TAKEN;
}

void fill_update(trial *t)
{
    const bool squares = t->o.kind == OP_SQUARES;
    const int64_t held = make_table(t, &t->in[1], t->o.dim[0], t->o.dim[1]);
    const int64_t n = squares ? 0 : t->o.dim[DIM_ADAMW_COUNT];
    const int64_t all = t->o.kind == OP_HOST_ADAMW ? n : held; /* where it is one row's part */
    tensor_reals(t, &t->in[0], all);
    if (squares) return;
    make_verdict(t, &t->in[IN_ADAMW_verdict]);
    tensor_reals(t, &t->out[OUT_ADAMW_weight], all);
    for (int i = OUT_ADAMW_master; i <= OUT_ADAMW_second; i++) tensor_reals(t, &t->out[i], n);
    tensor_scale(&t->out[OUT_ADAMW_second], 0.5, 0.6);
    t->o.real[REAL_ADAMW_beta1] = 0.9;
    t->o.real[REAL_ADAMW_beta2] = 0.95;
    t->o.real[REAL_ADAMW_eps] = 1e-8;
}

void fill_tally(trial *t)
{
    const int64_t micros = t->o.dim[0], layers = t->o.dim[1];
    tensor_reals(t, &t->in[IN_TALLY_loss], 2 * micros);
    tensor_reals(t, &t->in[IN_TALLY_mtp], 2 * micros);
    tensor_reals(t, &t->in[IN_TALLY_rows], 2 * layers);
    for (int64_t i = 0; i < layers; i++) t->in[IN_TALLY_rows].f[2 * i + 1] = 2;
    if (t->way == 1) t->in[IN_TALLY_rows].f[2] = 3;
    tensor_doubles(t, &t->in[IN_TALLY_counts], micros * COUNTS_COUNT);
    tensor_doubles(t, &t->in[IN_TALLY_given], GIVEN_COUNT);
    tensor_doubles(t, &t->out[OUT_TALLY_tally], SUM_COUNT);
}

/* Ways of a verdict: taken, skipped for its norm, and for each thing that is not finite. */
void fill_verdict(trial *t)
{
    if (t->o.kind == OP_BIAS_UPDATE) {
        make_verdict(t, &t->in[IN_BIAS_UPDATE_verdict]);
        return;
    }
    tensor_doubles(t, &t->in[IN_VERDICT_sums], SUM_COUNT);
    tensor_doubles(t, &t->in[IN_VERDICT_given], GIVEN_COUNT);
    tensor_doubles(t, &t->out[OUT_VERDICT_verdict], VERDICT_COUNT);
    double *sums = t->in[IN_VERDICT_sums].d, *given = t->in[IN_VERDICT_given].d;
    sums[SUM_SQUARES] = 9;
    sums[SUM_OVERFLOWS] = t->way == 2;
    sums[SUM_FAILED] = t->way == 3;
    if (t->way == 4) sums[SUM_AUX] = INFINITY;
    if (t->way == 5) sums[SUM_SQUARES] = NAN;
    given[GIVEN_SCALE] = 0.5;
    given[GIVEN_STEPS] = 6;
    t->o.real[REAL_VERDICT_clip] = 1;
    t->o.real[REAL_VERDICT_skip] = t->way == 1 ? 1 : INFINITY;
    t->o.real[REAL_VERDICT_beta1] = 0.9;
    t->o.real[REAL_VERDICT_beta2] = 0.95;
}

/* step.c - one global batch: reading it, running the program over it, and what the losses
 * are.
 *
 * I1  All ranks make the same collective calls, whatever they meet: a rank that cannot read its
 *     part of the batch runs the step with what it has, and says so in the sum.
 * I2  What a rank wants all others to know goes up before the sums of a step and comes back with
 *     its report. Where the host runs ahead of the device, a signal that arrives while the device
 *     is at the step is seen by the next one's. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/maths.h"
#include "backend/comm/agree.h"
#include "train/loop/state.h"

/* ---- reading */

/* A global batch: microbatch 0 of it is number `first` of the sampler. */
typedef struct batch_source {
    data_split which;
    data_sampler from;
    int64_t first;
    int64_t end; /* samples from here on are fillers without loss */
} batch_source;

static batch_source source_at(const trainer *t, data_split which, int64_t consumed)
{
    int64_t n = data_length(t->data, which);
    return (batch_source){which,
                          {.n_samples = n,
                           .consumed = consumed,
                           .micro_batch_size = t->p->B,
                           .n_ranks = t->s->lay.dp,
                           .rank = t->p->at.dp},
                          0,
                          n};
}

static status read_samples(trainer *t, const batch_source *from, int64_t micro, error *err)
{
    int64_t sample = sampler_first(&from->from, from->first + micro), seq = batch_seq(t->p);
    if (sample < 0)
        return error_set(err, ERR_INPUT,
                         "the data end after %lld samples, but train.train_iters needs more",
                         (long long)from->from.n_samples);
    for (int64_t b = 0; b < t->p->B; b++) {
        data_item into = {.tokens = t->tokens + b * seq,
                          .labels = t->labels + b * seq,
                          .loss_mask = t->mask + b * seq,
                          .positions = t->positions + b * seq};
        int64_t index = sample + b < from->end ? sample + b : -1;
        TRY(data_sample(t->data, from->which, index, &into, err));
    }
    return OK;
}

static status read_micro(trainer *t, const batch_source *from, int64_t micro, error *err)
{
    comm_work before = comm_work_begin(t->c, WORK_READ);
    status s = read_samples(t, from, micro, err);
    comm_work_end(t->c, before);
    return s;
}

/* With a mean over all tokens every microbatch must know how many there are in the step. */
static status count_step(trainer *t, const batch_source *from, double *tokens, error *err)
{
    batch b = {t->tokens, t->labels, t->mask};
    status s = OK;
    *tokens = 0;
    if (!t->s->j.per_token_loss || from->which != DATA_TRAIN) return OK;
    for (int64_t m = 0; m < t->p->micros && !s; m++) {
        s = read_micro(t, from, m, err);
        *tokens += batch_tokens(t->p, &b).whole;
    }
    comm_sum(t->c, GROUP_DP_CP, tokens, 1); /* I1 */
    *tokens /= (double)t->s->lay.cp;
    if (*tokens < 1) *tokens = 1;
    return s;
}

static status load_batch(trainer *t, const batch_source *from, error *err)
{
    batch b = {t->tokens, t->labels, t->mask};
    double step_tokens;
    status s = count_step(t, from, &step_tokens, err);
    for (int64_t m = 0; m < t->p->micros && !s; m++) {
        s = read_micro(t, from, m, err);
        if (s) return s;
        batch_load(t->e, t->p, m, &b, step_tokens);
    }
    return s;
}

/* ---- running */

static bool time_is_up(const trainer *t)
{
    int64_t minutes = t->s->j.exit_minutes;
    return minutes > 0 && clock_seconds() - t->started > 60.0 * (double)minutes;
}

/* Rates, and what others should know (I2). */
static void give(trainer *t, bool failed)
{
    bool first = t->p->at.rank == 0;
    double minute = t->o->compare > 0 ? t->o->compare : 60, given[GIVEN_COUNT];
    int64_t samples = t->at.scheduler_samples;
    step_rates rates = {schedule_lr(&t->rates, samples), schedule_embedding_lr(&t->rates, samples),
                        schedule_decay(&t->rates, samples), 1};
    optimizer_give(&t->opt, rates, given);
    given[GIVEN_FAILED] = failed;
    given[GIVEN_LEAVE] = trainer_asked() || (first && time_is_up(t));
    given[GIVEN_MINUTE] = first && clock_seconds() - t->compared > minute;
    given[GIVEN_AGAIN] = first && trainer_save_again(t);
    given[GIVEN_SAVING] = t->save && !checkpoint_save_done(t->save);
    step_give(t->e, given);
}

/* Runs a batch, again after routed buffers have grown. */
static status run_batch(trainer *t, const batch_source *from, step_losses *out, error *err)
{
    bool updates = from->which == DATA_TRAIN && t->p->types.moments;
    tracing *traced = from->which == DATA_TRAIN ? t->tracing : NULL;
    for (;;) {
        status mine = tracing_begin(traced, t->e, t->at.iteration + 1, err);
        if (!mine) mine = load_batch(t, from, err);
        t->loaded = clock_seconds();
        double start = clock_seconds();
        step_run_begin(t->e);
        if (planted_step && from->which == DATA_TRAIN && t->report.rows)
            planted_step(t->e, executor_step_place(t->p, STEP_OVERFLOW), t->at.iteration + 1);
        give(t, mine != OK);
        step_run_end(t->e, t->p, updates ? STEP_UPDATES : STEP_ONLY);
        trainer_host_note(t, clock_seconds() - start);
        t->report = step_report_of(t->e, t->p);
        memcpy(out->sums, t->report.sums, sizeof out->sums);
        out->result = step_result_of(t->report.verdict);
        t->stale = updates && t->p->gathers_late && out->result.outcome == STEP_TAKEN;
        if (out->result.outcome == STEP_FAILED) return ranks_agree(t->c, mine, err); /* I1 */
        if (out->result.outcome != STEP_OVERFLOWED) return OK;
        status s = trainer_grow(t, err);
        if (s) return s;
    }
}

/* ---- what the sums mean */

static void add_loss(step_losses *out, const char *name, double loss)
{
    out->list[out->n++] = (named_loss){name, loss};
}

static double first_coefficient(const job *j)
{
    for (int i = 0; i < j->aux_coeff.n; i++)
        if (j->aux_coeff.item[i] > 0) return j->aux_coeff.item[i];
    return 0;
}

/* A sum over layers, microbatches and replicas as a mean over them, without its coefficient. */
static double layer_mean(const trainer *t, double sum, double coefficient)
{
    const model *m = &t->s->m;
    double layers = 0;
    for (int64_t i = 0; i < m->n_layers + m->n_mtp; i++) layers += model_layer_has(m, i, BLOCK_MOE);
    if (layers < 1) return 0;
    return sum / layers / (double)(t->p->micros * t->s->lay.dp) / coefficient;
}

static double token_mean(const double *sums)
{
    return sums[SUM_TOKENS] > 0 ? sums[SUM_LOSS] / sums[SUM_TOKENS] : 0;
}

static void name_losses(const trainer *t, step_losses *out)
{
    const double *sums = out->sums;
    double c = first_coefficient(&t->s->j), z = t->s->j.z_coeff;
    bool balances = t->s->m.moe->experts && !job_lists(t->s->j.balancing, J_BALANCING_NONE);
    add_loss(out, "lm loss", token_mean(sums));
    if (balances && c > 0) add_loss(out, "load_balancing_loss", layer_mean(t, sums[SUM_AUX], c));
    if (t->s->m.moe->experts && z > 0) add_loss(out, "z_loss", layer_mean(t, sums[SUM_Z], z));
    if (t->s->m.n_mtp)
        add_loss(out, "mtp_1 loss", sums[SUM_MTP] / (double)(t->p->micros * t->s->lay.dp));
}

status trainer_step(trainer *t, step_losses *out, error *err)
{
    batch_source from = source_at(t, DATA_TRAIN, t->at.consumed_samples);
    *out = (step_losses){.n = 0};
    comm_where(t->c, "training step", NULL);
    TRY(run_batch(t, &from, out, err));
    name_losses(t, out);
    return OK;
}

status trainer_evaluate(trainer *t, data_split which, sample_span span, step_losses *out,
                        error *err)
{
    batch_source from = source_at(t, which, span.first);
    int64_t steps = ceil_div(span.n, t->gbs), left = from.from.n_samples - span.first;
    double all[SUM_COUNT] = {0};
    status s = OK;
    *out = (step_losses){.n = 0};
    comm_where(t->c, "validation", NULL);
    if (span.n <= left) { /* else the reader says where the data end */
        from.end = span.first + span.n;
        from.from.n_samples = span.first + steps * t->gbs;
    }
    for (int64_t i = 0; i < steps && !s; i++) {
        from.first = i * t->p->micros;
        s = run_batch(t, &from, out, err);
        all[SUM_LOSS] += out->sums[SUM_LOSS];
        all[SUM_TOKENS] += out->sums[SUM_TOKENS];
    }
    out->sums[SUM_LOSS] = all[SUM_LOSS];
    out->sums[SUM_TOKENS] = all[SUM_TOKENS];
    add_loss(out, "lm loss", token_mean(all));
    return s;
}

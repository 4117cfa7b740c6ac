/* trainer_step.c - one global batch: reading it, running the program over it, and what the losses
 * are. */
#include <math.h>
#include <string.h>
#include <time.h>

#include "run/trainer_state.h"

double trainer_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static status read_micro(trainer *t, data_split which, const data_sampler *from, int64_t micro,
                         error *err)
{
    int64_t first = sampler_first(from, micro), S = t->p.S;
    if (first < 0)
        return error_set(err, ERR_INPUT,
                         "the data end after %lld samples; train.train_iters asks for more",
                         (long long)from->n_samples);
    for (int64_t b = 0; b < t->p.B; b++) {
        status s = data_sample(t->data, which, first + b, t->tokens + b * S, t->labels + b * S,
                               t->mask + b * S, t->positions + b * S, err);
        if (s) return s;
    }
    return OK;
}

static double count_tokens(const trainer *t)
{
    double n = 0;
    for (int64_t i = 0; i < t->p.T; i++) n += (double)t->mask[i];
    return n;
}

/* With a mean over all tokens every microbatch must know how many there are in the step. */
static status count_step(trainer *t, const data_sampler *from, double *tokens, error *err)
{
    *tokens = 0;
    if (!recipe_on(&t->s->r, K_PER_TOKEN_LOSS)) return OK;
    for (int64_t m = 0; m < t->p.micros; m++) {
        status s = read_micro(t, DATA_TRAIN, from, m, err);
        if (s) return s;
        *tokens += count_tokens(t);
    }
    if (*tokens < 1) *tokens = 1;
    return OK;
}

static data_sampler sampler_at(const trainer *t, data_split which, int64_t consumed)
{
    return (data_sampler){data_length(t->data, which), consumed, t->p.B, 1, 0};
}

static status load_micro(trainer *t, const data_sampler *from, int64_t micro, double step_tokens,
                         error *err)
{
    status s = read_micro(t, DATA_TRAIN, from, micro, err);
    if (s) return s;
    t->tokens_of[micro] = count_tokens(t);
    batch b = {t->tokens, t->labels, t->mask};
    batch_load(t->e, &t->p, &b, step_tokens);
    return OK;
}

static void add_loss(step_losses *out, const char *name, double loss)
{
    out->list[out->n++] = (named_loss){name, loss};
    out->finite = out->finite && isfinite(loss);
}

/* Sum of losses over sum of tokens, as it is reported whatever is optimised: the buffers hold
 * weighted sums. */
static double token_mean(const trainer *t, const float *loss)
{
    double sum = 0, tokens = 0;
    for (int64_t m = 0; m < t->p.micros; m++) {
        double weights = (double)loss[2 * m + 1];
        if (weights > 0) sum += (double)loss[2 * m] / weights * t->tokens_of[m];
        tokens += t->tokens_of[m];
    }
    return tokens > 0 ? sum / tokens : 0;
}

static double micro_mean(const trainer *t, const float *loss)
{
    double sum = 0;
    for (int64_t m = 0; m < t->p.micros; m++)
        if (loss[2 * m + 1] > 0) sum += (double)loss[2 * m] / (double)loss[2 * m + 1];
    return sum / (double)t->p.micros;
}

static double layer_mean(const trainer *t, step_buffer which, double coefficient)
{
    const float *values = executor_step_buffer(t->e, which);
    const model *m = &t->s->m;
    double sum = 0, layers = 0;
    for (int64_t i = 0; i < m->n_layers + m->n_mtp; i++) {
        if (!model_layer_is(m, i, LAYER_MOE)) continue;
        sum += (double)values[i];
        layers++;
    }
    return layers > 0 ? sum / layers / (double)t->p.micros / coefficient : 0;
}

static double first_coefficient(const recipe *r)
{
    for (int i = 0; i < recipe_count(r, K_AUX_COEFF); i++) {
        value v = recipe_item(r, K_AUX_COEFF, i);
        if (v.kind == V_FLOAT && v.real > 0) return v.real;
    }
    return 0;
}

static void collect_losses(trainer *t, step_losses *out)
{
    *out = (step_losses){.finite = true};
    add_loss(out, "lm loss", token_mean(t, executor_step_buffer(t->e, STEP_LOSS)));
    double c = first_coefficient(&t->s->r), z = recipe_real(&t->s->r, K_Z_COEFF);
    bool balances = t->s->m.experts && !recipe_has(&t->s->r, K_BALANCING, "none");
    if (balances && c > 0) add_loss(out, "load_balancing_loss", layer_mean(t, STEP_AUX, c));
    if (t->s->m.experts && z > 0) add_loss(out, "z_loss", layer_mean(t, STEP_Z, z));
    if (t->s->m.n_mtp)
        add_loss(out, "mtp_1 loss", micro_mean(t, executor_step_buffer(t->e, STEP_MTP_LOSS)));
}

status trainer_step(trainer *t, step_losses *out, error *err)
{
    data_sampler from = sampler_at(t, DATA_TRAIN, t->at.consumed_samples);
    double step_tokens;
    status s = count_step(t, &from, &step_tokens, err);
    if (s) return s;
    executor_clear(t->e);
    for (int64_t i = 0; i < t->p.order.n; i++) {
        const order_entry *entry = &t->p.order.list[i];
        if (entry->phase == SEG_FORWARD) s = load_micro(t, &from, entry->micro, step_tokens, err);
        if (s) return s;
        executor_run(t->e, entry->phase, entry->chunk, entry->micro);
    }
    collect_losses(t, out);
    return OK;
}

/* The loss needs the head only; what that writes into gradients is cleared by the next step. */
status trainer_validate(trainer *t, int64_t iters, step_losses *out, error *err)
{
    data_sampler from = sampler_at(t, DATA_VALID, t->at.consumed_valid_samples);
    double sum = 0, tokens = 0;
    for (int64_t m = 0; m < iters * t->p.micros; m++) {
        status s = read_micro(t, DATA_VALID, &from, m, err);
        if (s) return s;
        executor_clear(t->e);
        batch b = {t->tokens, t->labels, t->mask};
        batch_load(t->e, &t->p, &b, 0);
        executor_run(t->e, SEG_FORWARD, 0, 0);
        executor_loss(t->e, 0);
        const float *loss = executor_step_buffer(t->e, STEP_LOSS);
        double n = count_tokens(t);
        if (loss[1] > 0) sum += (double)loss[0] / (double)loss[1] * n;
        tokens += n;
    }
    t->at.consumed_valid_samples += iters * t->gbs;
    *out = (step_losses){.finite = true};
    add_loss(out, "lm loss", tokens > 0 ? sum / tokens : 0);
    return OK;
}

/* schedule.c - Megatron's OptimizerParamScheduler, without its state. */
#include "train/loop/schedule.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>

#include "base/maths.h"

#define PI 3.14159265358979323846

/* ---- curves */

/* From 1 to 0 as x goes from 0 to 1. */
static double cosine_fall(double x)
{
    return 0.5 * (cos(PI * x) + 1);
}

static double anneal_part(wsd_style style, double q)
{
    switch (style) {
    case WSD_LINEAR:
        return 1 - q;
    case WSD_COSINE:
        return cosine_fall(q);
    case WSD_MINUS_ROOT:
        return 1 - sqrt(q);
    case WSD_EXPONENTIAL:
        break;
    }
    return 2 * pow(0.5, q) - 1;
}

/* Which part of the way from the smallest to the largest rate is left after the warm-up. */
static double part_left(const schedule *s, int64_t n)
{
    double r = ((double)n - s->warmup) / ((double)s->decay - s->warmup);
    if (s->style == LR_LINEAR) return 1 - r;
    if (s->style == LR_COSINE) return cosine_fall(r);
    int64_t into = n - (s->decay - s->anneal);
    return into <= 0 ? 1 : anneal_part(s->anneal_style, (double)into / (double)s->anneal);
}

static double inverse_root(const schedule *s, int64_t n, double lr)
{
    return lr * sqrt(s->warmup > 1 ? s->warmup : 1) / sqrt(n > 1 ? (double)n : 1);
}

static double rate(const schedule *s, int64_t n, double lr, double min_lr)
{
    if (s->warmup > 0 && (double)n <= s->warmup)
        return s->first_lr + (lr - s->first_lr) * (double)n / s->warmup;
    if (s->style == LR_CONSTANT) return lr;
    if (n > s->decay) return min_lr;
    if (s->style == LR_INVERSE_ROOT) return fmax(min_lr, inverse_root(s, n, lr));
    return min_lr + part_left(s, n) * (lr - min_lr);
}

double schedule_lr(const schedule *s, int64_t n)
{
    return rate(s, n, s->lr, s->min_lr);
}

double schedule_embedding_lr(const schedule *s, int64_t n)
{
    return rate(s, n, s->embedding_lr, s->embedding_min_lr);
}

double schedule_decay(const schedule *s, int64_t n)
{
    if (n > s->wd_growth || s->wd_style == DECAY_CONSTANT) return s->wd;
    double x = (double)n / (double)s->wd_growth;
    if (s->wd_style == DECAY_COSINE) x = cosine_fall(1 - x);
    return s->first_wd + x * (s->wd - s->first_wd);
}

/* ---- from the job */

static void read_styles(schedule *s, const job *j)
{
    static const lr_style rates[] = {[J_LR_STYLE_CONSTANT] = LR_CONSTANT,
                                     [J_LR_STYLE_LINEAR] = LR_LINEAR,
                                     [J_LR_STYLE_COSINE] = LR_COSINE,
                                     [J_LR_STYLE_WSD] = LR_WSD,
                                     [J_LR_STYLE_INVERSE_SQUARE_ROOT] = LR_INVERSE_ROOT,
                                     [J_LR_STYLE_OTHER] = LR_CONSTANT};
    static const wsd_style anneals[] = {[J_WSD_STYLE_EXPONENTIAL] = WSD_EXPONENTIAL,
                                        [J_WSD_STYLE_LINEAR] = WSD_LINEAR,
                                        [J_WSD_STYLE_COSINE] = WSD_COSINE,
                                        [J_WSD_STYLE_MINUS_SQRT] = WSD_MINUS_ROOT,
                                        [J_WSD_STYLE_OTHER] = WSD_EXPONENTIAL};
    static const decay_style decays[] = {[J_WD_STYLE_CONSTANT] = DECAY_CONSTANT,
                                         [J_WD_STYLE_LINEAR] = DECAY_LINEAR,
                                         [J_WD_STYLE_COSINE] = DECAY_COSINE,
                                         [J_WD_STYLE_OTHER] = DECAY_CONSTANT};
    s->style = rates[j->lr_style];
    s->anneal_style = anneals[j->wsd_style];
    s->wd_style = decays[j->wd_style];
}

static void read_values(schedule *s, const job *j)
{
    s->first_lr = j->warmup_init;
    s->lr = j->lr;
    s->min_lr = j->min_lr;
    bool decoupled = job_has(j, K_DECOUPLED_LR);
    bool own_least = decoupled && job_has(j, K_DECOUPLED_MIN_LR);
    s->embedding_lr = decoupled ? j->decoupled_lr : j->lr;
    s->embedding_min_lr = own_least ? j->decoupled_min_lr : j->min_lr;
    s->first_wd = job_has(j, K_WD_START) ? j->wd_start : j->weight_decay;
    s->wd = job_has(j, K_WD_END) ? j->wd_end : j->weight_decay;
}

/* A length in steps or in samples, whichever is given. */
static int64_t length_of(int64_t steps, int64_t samples, int64_t global_batch, int64_t otherwise)
{
    if (steps > 0) return mul_sat(steps, global_batch);
    return samples > 0 ? samples : otherwise;
}

static void read_lengths(schedule *s, const job *j, int64_t global_batch)
{
    s->wd_growth = length_of(j->train_iters, j->train_samples, global_batch, 0);
    s->decay = length_of(j->lr_iters, j->lr_samples, global_batch, s->wd_growth);
    s->anneal = length_of(j->wsd_iters, j->wsd_samples, global_batch, s->decay);
    s->warmup = (double)length_of(j->warmup, j->warmup_samples, global_batch, 0);
    if (job_has(j, K_WARMUP_FRACTION)) s->warmup = j->warmup_fraction * (double)s->decay;
}

/* ---- what cannot be */

static status check_lengths(const schedule *s, error *err)
{
    if (s->wd_growth <= 0)
        return error_set(err, ERR_RULE,
                         "run length is not set: give train.train_iters or train.train_samples");
    if (s->warmup >= (double)s->decay)
        return error_set(err, ERR_RULE,
                         "the warm-up of %g samples is not shorter than the decay of %" PRId64
                         ": lower scheduler.lr_warmup_iters (or _samples, _fraction) or raise "
                         "scheduler.lr_decay_iters",
                         s->warmup, s->decay);
    return OK;
}

static status check_decay(const schedule *s, error *err)
{
    if (s->first_wd > s->wd)
        return error_set(err, ERR_RULE,
                         "weight decay must not shrink: scheduler.start_weight_decay is %g, "
                         "scheduler.end_weight_decay is %g",
                         s->first_wd, s->wd);
    if (s->wd_style == DECAY_CONSTANT && s->first_wd < s->wd)
        return error_set(err, ERR_RULE,
                         "scheduler.weight_decay_incr_style=constant, but weight decay goes from "
                         "%g to %g: give it a style, or one value",
                         s->first_wd, s->wd);
    return OK;
}

static status check_rates(const schedule *s, error *err)
{
    if (s->min_lr > s->lr)
        return error_set(err, ERR_RULE, "optimizer.min_lr %g is above optimizer.lr %g", s->min_lr,
                         s->lr);
    if (s->first_lr > s->lr)
        return error_set(err, ERR_RULE, "scheduler.lr_warmup_init %g is above optimizer.lr %g",
                         s->first_lr, s->lr);
    if (s->embedding_min_lr > s->embedding_lr)
        return error_set(err, ERR_RULE,
                         "optimizer.decoupled_lr %g is below its smallest value %g: lower "
                         "optimizer.decoupled_min_lr (unset, it is optimizer.min_lr)",
                         s->embedding_lr, s->embedding_min_lr);
    return OK;
}

status schedule_init(schedule *s, const job *j, int64_t global_batch, error *err)
{
    schedule made = {0};
    if (!job_has(j, K_LR))
        return error_set(err, ERR_RULE, "no learning rate is given: optimizer.lr (--lr)");
    read_styles(&made, j);
    read_values(&made, j);
    read_lengths(&made, j, global_batch);
    TRY(check_lengths(&made, err));
    TRY(check_rates(&made, err));
    TRY(check_decay(&made, err));
    *s = made;
    return OK;
}

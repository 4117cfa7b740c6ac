/* accuracy_fit.h - the fitted numbers of machines, set by a program: on the rows of all sources but
 * one, and scored on that one.
 *
 * Every number is moved alone, down and up, and all rows are priced: how the logarithm of a price
 * moves with that of a number is taken as straight between these three points, and of several
 * numbers as a sum. On that the mean size of log(ours / published) is made small, each source
 * counting as much as the root of its rows, number after number. Prices with what was found are
 * exact again. Factors of generations begin at 1, other numbers where they stand. Nothing is
 * written. */
#ifndef BENCH_ACCURACY_FIT_H
#define BENCH_ACCURACY_FIT_H

#include "accuracy_unseen.h"

typedef struct tunable {
    const char *name;
    void (*apply)(hardware *h, double x);
} tunable;

/* x86 beside the GPU, or Grace. */
static inline void tune_launch(hardware *h, double x)
{
    if (*h->name != 'G') h->launch *= x;
}
static inline void tune_grace(hardware *h, double x)
{
    if (*h->name == 'G') h->launch *= x;
}
static inline void tune_narrow(hardware *h, double x)
{
    h->narrow_calls *= x;
}
static inline void tune_replay(hardware *h, double x)
{
    for (int way = 0; way < 2; way++) h->calls[CALL_REPLAY][way] *= x;
}
static inline void tune_share(hardware *h, double x)
{
    if (strchr(h->name, 'B')) h->near_share = fmin(h->near_share * x, 0.9);
}
static inline void tune_clock(hardware *h, double x)
{
    if (strcmp(h->name, "GB300") == 0) h->clock *= x;
}
static inline void tune_across(hardware *h, double x)
{
    if (strstr(h->name, "B300"))
        for (int k = 0; k < DISPATCH_KINDS; k++) h->dispatch[k][1] *= x;
}
/* x: the factor of the device's or host's times itself. */
static inline void tune_stacks(hardware *h, double least, double most, double x)
{
    for (int k = 0; k < h->n_stacks; k++)
        if (h->stacks[k].device > least && h->stacks[k].device <= most) h->stacks[k].device = x;
}
static inline void tune_old(hardware *h, double x)
{
    tune_stacks(h, 1.06, 2, x);
}
static inline void tune_middle(hardware *h, double x)
{
    tune_stacks(h, 1, 1.06, x);
}
static inline void tune_host(hardware *h, double x)
{
    for (int k = 0; k < h->n_stacks; k++)
        if (h->stacks[k].host > 1) h->stacks[k].host = x;
}

static const tunable tunables[] = {
    {"host.launch beside x86", tune_launch},
    {"host.launch of Grace", tune_grace},
    {"calls.narrow", tune_narrow},
    {"calls.replay", tune_replay},
    {"device.near_share, Blackwell", tune_share},
    {"device.clock of GB300", tune_clock},
    {"dispatch.*.across, B300 and GB300", tune_across},
    {"device of containers with 1.09", tune_old},
    {"device of containers with 1.04", tune_middle},
    {"experts' host of containers with 1.4", tune_host},
};
enum { N_TUNABLES = sizeof tunables / sizeof tunables[0], FIT_ROWS_MAX = 1024, SOURCES_MAX = 32 };
static const double fit_start[N_TUNABLES] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
static const double fit_today[N_TUNABLES] = {1, 1, 1, 1, 1, 1, 1, 1.09, 1.04, 1.4};
static const double fit_reach = 1.3;

typedef struct descent {
    judging *b;
    hardware base[MACHINES_MAX];
    judged *row[FIT_ROWS_MAX];
    const char *source[FIT_ROWS_MAX]; /* of each */
    int n;
    double log_price[FIT_ROWS_MAX];            /* at fit_start */
    double slope[N_TUNABLES][2][FIT_ROWS_MAX]; /* by log(x): below, above */
    const char *sources[SOURCES_MAX];
    int n_sources;
    arena *scratch;
} descent;

static inline void fit_price(descent *f, const double x[N_TUNABLES])
{
    error err = {{0}};
    for (int i = 0; i < f->b->n_machines; i++) {
        f->b->machines[i] = f->base[i];
        for (int k = 0; k < N_TUNABLES; k++) tunables[k].apply(&f->b->machines[i], x[k]);
    }
    for (int i = 0; i < f->n; i++)
        row_price(f->row[i], machine_of(f->b, recipe_word(&f->row[i]->s->r, K_GPU), &err),
                  f->scratch);
}

static inline double fit_error(const judged *j)
{
    return log(j->pr.tokens_per_s_per_gpu / j->tokens);
}

static inline void fit_add(descent *f, judged *j)
{
    if (j->refused || !(j->tokens > 0) || f->n == FIT_ROWS_MAX) return;
    const char *source = source_of(j->id);
    f->source[f->n] = source;
    f->row[f->n++] = j;
    for (int i = 0; i < f->n_sources; i++)
        if (text_equal(f->sources[i], source)) return;
    if (f->n_sources < SOURCES_MAX) f->sources[f->n_sources++] = source;
}

/* Speeds in sight, and the unseen ones but those of stacks that nothing here describes and those
 * that are priced as one long sequence. */
static inline void fit_rows(descent *f)
{
    judging *b = f->b;
    for (int i = 0; i < b->n_rows; i++) {
        judged *j = &b->rows[i];
        bool step = j->list == LIST_OTHER && text_starts(j->id, "GBO");
        if (j->list != LIST_MEMORY && !step) fit_add(f, j);
    }
    for (judged *j = b->unseen; j < b->unseen + b->n_unseen; j++)
        if (unseen_counts(j) && (unseen_is(b, j, "moe") || unseen_is(b, j, "dense"))) fit_add(f, j);
}

static inline void fit_slopes(descent *f)
{
    double x[N_TUNABLES];
    fit_price(f, fit_start);
    for (int i = 0; i < f->n; i++) f->log_price[i] = fit_error(f->row[i]);
    for (int k = 0; k < N_TUNABLES; k++)
        for (int up = 0; up < 2; up++) {
            memcpy(x, fit_start, sizeof x);
            x[k] = up ? fit_reach : 1 / fit_reach;
            fit_price(f, x);
            for (int i = 0; i < f->n; i++)
                f->slope[k][up][i] = (fit_error(f->row[i]) - f->log_price[i]) / log(x[k]);
        }
}

static inline double fit_loss(const descent *f, const char *without, const double x[N_TUNABLES])
{
    double sum[SOURCES_MAX] = {0}, loss = 0;
    int n[SOURCES_MAX] = {0};
    for (int i = 0; i < f->n; i++) {
        if (text_equal(f->source[i], without)) continue;
        double e = f->log_price[i];
        for (int k = 0; k < N_TUNABLES; k++) e += f->slope[k][x[k] > 1][i] * log(x[k]);
        int at = 0;
        while (!text_equal(f->sources[at], f->source[i])) at++;
        sum[at] += fabs(e);
        n[at]++;
    }
    for (int k = 0; k < f->n_sources; k++) loss += n[k] ? sum[k] / sqrt(n[k]) : 0;
    return loss;
}

static inline void fit_descend(const descent *f, const char *without, double x[N_TUNABLES])
{
    enum { SWEEPS = 8, POINTS = 24 };
    memcpy(x, fit_start, sizeof fit_start);
    double loss = fit_loss(f, without, x);
    for (int sweep = 0; sweep < SWEEPS; sweep++)
        for (int k = 0; k < N_TUNABLES; k++) {
            double best = x[k];
            for (int p = -POINTS; p <= POINTS; p++) {
                x[k] = pow(1.6, (double)p / POINTS);
                double found = fit_loss(f, without, x);
                if (found >= loss - 1e-6) continue;
                loss = found;
                best = x[k];
            }
            x[k] = best;
        }
}

static inline void fit_score(const descent *f, const char *source, numbers *out)
{
    *out = (numbers){0};
    for (int i = 0; i < f->n; i++)
        if (!source || text_equal(f->source[i], source))
            numbers_add(out, exp(fit_error(f->row[i])) - 1);
}

/* Each source by numbers that were set without it, or only `without`. */
static inline void print_fit(judging *b, const char *without)
{
    descent *f = ARENA_NEW(b->a, descent);
    *f = (descent){.b = b, .scratch = arena_create()};
    memcpy(f->base, b->machines, sizeof f->base);
    fit_rows(f);
    fit_slopes(f);
    double x[SOURCES_MAX][N_TUNABLES];
    numbers today, found, all = {0}, all_today = {0};
    printf("| source left out | n | median error, today's numbers | nine in ten | median error, "
           "numbers set without it | nine in ten | bias |\n|---|--:|--:|--:|--:|--:|--:|\n");
    for (int k = 0; k < f->n_sources; k++) {
        if (without && !text_equal(without, f->sources[k])) continue;
        fit_price(f, fit_today);
        fit_score(f, f->sources[k], &today);
        fit_descend(f, f->sources[k], x[k]);
        fit_price(f, x[k]);
        fit_score(f, f->sources[k], &found);
        numbers size = numbers_absolute(&found), before = numbers_absolute(&today);
        for (int i = 0; i < found.n; i++) {
            numbers_add(&all, size.x[i]);
            numbers_add(&all_today, before.x[i]);
        }
        printf("| %s | %d | %.1f %% | %.1f %% | %.1f %% | %.1f %% | %+.1f %% |\n", f->sources[k],
               found.n, 100 * numbers_median(&before), 100 * numbers_nine_in_ten(&today),
               100 * numbers_median(&size), 100 * numbers_nine_in_ten(&found),
               100 * numbers_median(&found));
    }
    if (!without)
        printf("| **all, each left out once** | %d | %.1f %% | %.1f %% | %.1f %% | %.1f %% | |\n",
               all.n, 100 * numbers_median(&all_today), 100 * numbers_nine_in_ten(&all_today),
               100 * numbers_median(&all), 100 * numbers_nine_in_ten(&all));
    printf("\nFactors on the numbers that stand in hardware/*.yaml (of containers: the factor "
           "itself), "
           "as set without each source:\n\n| number |");
    for (int k = 0; k < f->n_sources; k++)
        if (!without || text_equal(without, f->sources[k])) printf(" %s |", f->sources[k]);
    printf("\n|---|");
    for (int k = 0; k < f->n_sources; k++)
        if (!without || text_equal(without, f->sources[k])) printf("--:|");
    printf("\n");
    for (int i = 0; i < N_TUNABLES; i++) {
        printf("| %s |", tunables[i].name);
        for (int k = 0; k < f->n_sources; k++)
            if (!without || text_equal(without, f->sources[k])) printf(" %.2f |", x[k][i]);
        printf("\n");
    }
    printf("\n");
    memcpy(b->machines, f->base, sizeof f->base);
    arena_destroy(f->scratch);
}

#endif

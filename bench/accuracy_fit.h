/* accuracy_fit.h - a few multipliers on the numbers of machines, found on one half of the set.
 *
 * One descent for each family of GPUs: a coordinate at a time, up and down, with steps that halve.
 * The loss is the mean size of log(ours / published) over the fitted half (rounded off below 5 %),
 * and 0.03 for every unit of log by which a multiplier leaves 1, twice that for a generation that
 * leaves the next newer one: what helps little stays as it was measured, and generations carry what
 * nothing else explains. Containers from 26.06 on are the measure, with factor 1: what was run in
 * both 26.06 and 26.08 was as fast in both. */
#ifndef BENCH_ACCURACY_FIT_H
#define BENCH_ACCURACY_FIT_H

#include "accuracy_rows.h"

typedef struct tunable {
    const char *name;
    double least, most;
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
static inline void tune_clock(hardware *h, double x)
{
    if (strcmp(h->name, "GB300") == 0) h->clock *= x;
}
static inline void tune_across(hardware *h, double x)
{
    for (int k = 0; k < DISPATCH_KINDS; k++) h->dispatch[k][1] *= x;
}
static inline void tune_share(hardware *h, double x)
{
    h->near_share = fmin(h->near_share * x, 0.9);
}

static const tunable tunables[] = {
    {"host.launch beside x86", 0.5, 2, tune_launch},
    {"host.launch of Grace", 0.5, 2, tune_grace},
    {"calls.narrow", 0.5, 3, tune_narrow},
    {"dispatch.*.across", 0.7, 1.15, tune_across},
    {"device.near_share", 0.5, 1.8, tune_share},
    {"device.clock of GB300", 0.9, 1.1, tune_clock},
};
enum { N_TUNABLES = sizeof tunables / sizeof tunables[0], N_KNOBS = N_TUNABLES + CURVE_MAX };

static const double penalty = 0.03, soft = 0.05;
static const char measure[] = "26.06";

typedef struct fit {
    judging *b;
    char family; /* H: Hopper; B: Blackwell */
    hardware base[MACHINES_MAX];
    const char *generations[CURVE_MAX]; /* newest first */
    int n_generations;
    double x[N_KNOBS]; /* tunables, then generations, each against the next newer */
    arena *scratch;
    int tried;
} fit;

static inline char family_of(const char *gpu_name)
{
    return *gpu_name == 'H' ? 'H' : *gpu_name == 'A' ? 'A' : 'B';
}

static inline bool fit_uses(const fit *f, const judged *j)
{
    return j->list == LIST_SET && !j->refused && j->tokens > 0 && family_of(j->gpu) == f->family;
}

/* The first is the newest among the rows of the family; the rest follow in falling order. */
static inline void fit_generations(fit *f)
{
    for (int i = 0; i < f->b->n_rows; i++) {
        const judged *j = &f->b->rows[i];
        if (!fit_uses(f, j) || !j->stack) continue;
        int at = 0;
        while (at < f->n_generations && strcmp(f->generations[at], j->stack) > 0) at++;
        if (at < f->n_generations && strcmp(f->generations[at], j->stack) == 0) continue;
        if (f->n_generations == CURVE_MAX) return;
        memmove(f->generations + at + 1, f->generations + at,
                sizeof f->generations[0] * (size_t)(f->n_generations - at));
        f->generations[at] = j->stack;
        f->n_generations++;
    }
}

/* What a generation has or has not is no factor. */
static inline void fit_keep(struct stack *to, const hardware *h)
{
    for (int i = 0; i < h->n_stacks; i++) {
        if (strcmp(h->stacks[i].name, to->name) != 0) continue;
        to->unfused_sinks = h->stacks[i].unfused_sinks;
        to->fused_experts = h->stacks[i].fused_experts;
    }
}

static inline void fit_machines(fit *f)
{
    for (int i = 0; i < f->b->n_machines; i++) {
        hardware *h = &f->b->machines[i];
        if (family_of(h->name) != f->family) continue;
        *h = f->base[i];
        for (int k = 0; k < N_TUNABLES; k++) tunables[k].apply(h, f->x[k]);
        h->n_stacks = f->n_generations;
        double x = 1;
        for (int k = 0; k < f->n_generations; k++) {
            x *= f->x[N_TUNABLES + k];
            struct stack *to = &h->stacks[f->n_generations - 1 - k];
            *to = (struct stack){.name = f->generations[k], .device = x, .host = x};
            fit_keep(to, &f->base[i]);
        }
    }
}

static inline void fit_price(fit *f, bool all)
{
    fit_machines(f);
    error err = {{0}};
    for (int i = 0; i < f->b->n_rows; i++) {
        judged *j = &f->b->rows[i];
        if (j->refused || family_of(j->gpu) != f->family) continue;
        if (all || (fit_uses(f, j) && j->fitted))
            row_price(j, machine_of(f->b, j->gpu, &err), f->scratch);
    }
}

static inline double fit_loss(fit *f)
{
    double sum = 0, moved = 0;
    int n = 0;
    f->tried++;
    fit_price(f, false);
    for (int i = 0; i < f->b->n_rows; i++) {
        const judged *j = &f->b->rows[i];
        if (!fit_uses(f, j) || !j->fitted) continue;
        sum += hypot(log(j->pr.tokens_per_s_per_gpu / j->tokens), soft) - soft;
        n++;
    }
    for (int k = 0; k < N_TUNABLES + f->n_generations; k++)
        moved += (k < N_TUNABLES ? 1 : 2) * fabs(log(f->x[k]));
    return n ? sum / n + penalty * moved : 0;
}

/* Tries knob k a step up and down. Returns the loss after it. */
static inline double fit_step(fit *f, int k, double step, double loss)
{
    double start = f->x[k], best = start;
    double least = k < N_TUNABLES ? tunables[k].least : 0.5;
    double most = k < N_TUNABLES ? tunables[k].most : 4;
    for (int up = 0; up < 2; up++) {
        double x = up ? start * step : start / step;
        if (x < least || x > most) continue;
        f->x[k] = x;
        double found = fit_loss(f);
        if (found < loss - 1e-5) {
            loss = found;
            best = x;
        }
    }
    f->x[k] = best;
    return loss;
}

/* Sweeps over all knobs while that helps, a few times at most. */
static inline double fit_sweeps(fit *f, double step, double loss)
{
    enum { SWEEPS = 2 };
    for (int i = 0; i < SWEEPS; i++) {
        double before = loss;
        for (int k = 0; k < N_TUNABLES + f->n_generations; k++)
            if (k < N_TUNABLES || strcmp(f->generations[k - N_TUNABLES], measure) < 0)
                loss = fit_step(f, k, step, loss);
        if (loss > before - 1e-4) break;
    }
    return loss;
}

static inline bool fit_has_rows(const fit *f)
{
    for (int i = 0; i < f->b->n_rows; i++)
        if (fit_uses(f, &f->b->rows[i]) && f->b->rows[i].fitted) return true;
    return false;
}

static inline void fit_print(const fit *f, double before, double after)
{
    printf("# %s: loss of the fitted half %.3f -> %.3f, %d evaluations\n",
           f->family == 'H' ? "Hopper" : "Blackwell", before, after, f->tried);
    for (int k = 0; k < N_TUNABLES; k++)
        if (f->x[k] != 1) printf("#   %s: x %.3g\n", tunables[k].name, f->x[k]);
    for (int i = 0; i < f->b->n_machines; i++) {
        const hardware *h = &f->b->machines[i];
        if (family_of(h->name) != f->family) continue;
        printf("%s: host.launch %.1f us, calls.narrow %.2f, device.near_share %.2f\n", h->name,
               1e6 * h->launch, h->narrow_calls, h->near_share);
        for (int k = 0; k < h->n_stacks; k++)
            printf("  stacks: %s device %.3f host %.3f\n", h->stacks[k].name, h->stacks[k].device,
                   h->stacks[k].host);
    }
}

static inline void fit_family(judging *b, char family)
{
    static const double steps[] = {1.25, 1.12, 1.06, 1.03};
    fit *f = ARENA_NEW(b->a, fit);
    *f = (fit){.b = b, .family = family, .scratch = arena_create()};
    memcpy(f->base, b->machines, sizeof f->base);
    for (int k = 0; k < N_KNOBS; k++) f->x[k] = 1;
    fit_generations(f);
    if (fit_has_rows(f)) {
        double before = fit_loss(f), loss = before;
        for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++)
            loss = fit_sweeps(f, steps[i], loss);
        fit_price(f, true);
        fit_print(f, before, loss);
    }
    arena_destroy(f->scratch);
}

#endif

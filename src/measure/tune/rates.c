/* rates.c - what the trials say of the machine.
 *
 * I1  A kind's rate is the sum that was measured over the sum that was predicted, over all trials
 *     that have parts; kinds that hardly took time keep their description.
 * I2  GEMMs set the peak; other curves are parts of it and move against it, inside the bounds of
 *     a hardware file. */
#include <math.h>
#include <string.h>

#include "base/text.h"
#include "measure/tune/tune.h"

enum { OPTIMIZER = COST_KINDS + 2, REST = COST_KINDS + 4 }; /* of price_parts */

static const double LEAST = 0.005; /* of the step: less is not learned from */

static double bounded(double x, double least, double most)
{
    return x < least ? least : x > most ? most : x;
}

static void scale_curve(curve *c, double by)
{
    for (int i = 0; i < c->n; i++) {
        c->y[i] = bounded(c->y[i] * by, 1e-6, 1.5);
        c->log_y[i] = log2(c->y[i]);
    }
    for (int i = 0; i + 1 < c->n; i++)
        c->slope[i] = (c->log_y[i + 1] - c->log_y[i]) / (c->log_x[i + 1] - c->log_x[i]);
}

static void scale_link(link_level *l, double slower)
{
    l->bandwidth /= slower;
    l->latency = bounded(l->latency * slower, 1e-12, 1);
}

typedef struct rates {
    double measured[STEP_PARTS], predicted[STEP_PARTS], step;
    double outside; /* measured, of no kind, a step in the mean; what is beyond the prediction */
    int n;
} rates;

/* Times slower than described. */
static double slower(const rates *r, const int *kinds, int n)
{
    double m = 0, p = 0;
    for (int i = 0; i < n; i++) m += r->measured[kinds[i]], p += r->predicted[kinds[i]];
    if (p <= LEAST * r->step || m <= LEAST * r->step) return 1;
    return bounded(m / p, 1e-3, 1e3);
}

static void apply(hardware *h, const rates *r)
{
    static const int gemm[] = {COST_GEMM}, grouped[] = {COST_GROUPED},
                     attention[] = {COST_ATTENTION};
    static const int head[] = {COST_HEAD}, memory[] = {COST_MEMORY, COST_ROUTING};
    static const int messages[] = {COST_TP, COST_CP, COST_EP, COST_PP, COST_DP};
    double gemms = slower(r, gemm, 1);
    for (int i = 0; i < NUMBER_COUNT; i++) h->peak[i] /= gemms;
    for (int i = 0; i < NUMBER_COUNT; i++)
        scale_curve(&h->grouped[i], gemms / slower(r, grouped, 1));
    for (int i = 0; i < 2; i++) scale_curve(&h->attention[i], gemms / slower(r, attention, 1));
    h->head = bounded(h->head * gemms / slower(r, head, 1), 1e-6, 1.5);
    h->memory_bandwidth /= slower(r, memory, 2);
    double links = slower(r, messages, 5);
    scale_link(&h->node, links);
    scale_link(&h->domain, links);
    scale_link(&h->across, links);
    if (r->n) h->step = bounded(h->step + r->outside / r->n, 0, 10);
}

void tune_learn(tune *t)
{
    rates r = {.n = 0};
    t->hw = t->base;
    arena *a = arena_create();
    for (int i = 0; i < t->n; i++) {
        const trial *x = &t->trials[i];
        try_result p;
        step_part parts[STEP_PARTS];
        if (x->end != TRIAL_MEASURED || !x->has_parts) continue;
        if (!tune_price_of(t, x->change, &p, a)) continue;
        price_parts(parts, &p.p);
        double outside = 0;
        for (int k = 0; k < STEP_PARTS; k++) {
            r.measured[k] += x->parts[k];
            r.predicted[k] += parts[k].seconds;
            if (k == OPTIMIZER || k == REST) outside += x->parts[k] - parts[k].seconds;
        }
        r.step += x->step_s;
        r.outside += outside;
        r.n++;
    }
    arena_destroy(a);
    if (r.n) apply(&t->hw, &r);
    memcpy(t->measured, r.measured, sizeof r.measured);
    memcpy(t->predicted, r.predicted, sizeof r.predicted);
    t->n_learned = r.n;
}

void tune_see_wall(const tune *t, trial *x)
{
    arena *a = arena_create();
    try_result p;
    if (x->end == TRIAL_MEASURED && tune_price_of(t, x->change, &p, a)) {
        price m = {.step_s = x->step_s, .usable = t->base.usable, .fits = true};
        m.peak_bytes = p.p.peak_bytes;
        double sum = 0;
        for (int k = 0; k < STEP_PARTS; k++) sum += x->parts[k];
        double by = sum > 0 ? x->step_s / sum : 0; /* traced steps beside all steps */
        step_part names[STEP_PARTS];
        price_parts(names, &p.p);
        for (int k = 0; k < STEP_PARTS; k++) {
            double seconds = x->has_parts ? by * x->parts[k] : names[k].seconds;
            if (k >= COST_TP && k <= COST_COPY) m.exposed[k] = seconds;
            if (k < COST_KINDS) m.time[k] = seconds;
            if (strcmp(names[k].name, "host") == 0) m.host = seconds;
            if (strcmp(names[k].name, "bubble") == 0) m.bubble = seconds;
        }
        price_see_wall(&m, t->a);
        x->wall = m.wall;
        x->evidence = m.evidence;
    }
    arena_destroy(a);
}

/* compare_runs.c - spreads, bands and rows. */
#include "report/compare_runs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

static const double least_of_step = 0.01, times_spread = 2, unknown_spread = 0.1;
static const double most_taken = 0.95;

/* ---- steps */

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double at_part(const double *sorted, int64_t n, double part)
{
    double at = part * (double)(n - 1);
    int64_t i = (int64_t)at;
    if (i + 1 >= n) return sorted[n - 1];
    return sorted[i] + (at - (double)i) * (sorted[i + 1] - sorted[i]);
}

side_steps compare_steps(const measured_side *s, arena *a)
{
    double *sorted = ARENA_ARRAY(a, double, s->n + 1);
    memcpy(sorted, s->steps, sizeof *sorted * (size_t)s->n);
    qsort(sorted, (size_t)s->n, sizeof *sorted, by_size);
    return (side_steps){at_part(sorted, s->n, 0.5), at_part(sorted, s->n, 0.1),
                        at_part(sorted, s->n, 0.9)};
}

/* The part of a run's time that other programs had. */
static double part_taken(const measured_side *s)
{
    double sum = 0;
    for (int64_t i = 0; i < s->n; i++) sum += s->steps[i];
    return fmin(s->delay * (double)s->n / sum, most_taken);
}

/* By how much the second run's step would differ from the first's for that alone: the same work in
 * less, or more, of the time. */
static double by_delay(const measured_side *x, const measured_side *y)
{
    return fabs((1 - part_taken(x)) / (1 - part_taken(y)) - 1);
}

/* ---- rows */

static bool is_row(const trace_op *o, const trace_row *r)
{
    return o->what == r->what && text_equal(o->kind, r->kind) && text_equal(o->name, r->name) &&
           text_equal(o->phase, r->phase);
}

/* I3 */
static bool is_beside(const trace_row *r)
{
    return r->what == TRACE_OPERATION && strstr(r->kind, "communication") != NULL;
}

/* How much its time varies between the steps of a trace, a rank in the mean. Operations of a rank
 * are in the order of time, as many in each step. */
static double spread_of_row(const trace *t, const trace_row *r, double seconds, arena *a)
{
    int64_t steps = t->steps > 0 ? t->steps : 1;
    if (steps < 2 || !t->n_ranks) return unknown_spread * seconds;
    double *sums = ARENA_ARRAY(a, double, steps), most = 0, least = INFINITY;
    for (int64_t i = 0, k; i < t->n; i = k) {
        int64_t count = 0, seen = 0;
        for (k = i;
             k < t->n && t->ops[k].rank == t->ops[i].rank && t->ops[k].stream == t->ops[i].stream;
             k++)
            count += is_row(&t->ops[k], r);
        for (int64_t j = i; j < k && count; j++)
            if (is_row(&t->ops[j], r))
                sums[seen++ * steps / count] += t->ops[j].end - t->ops[j].start;
    }
    for (int64_t i = 0; i < steps; i++) {
        most = fmax(most, sums[i]);
        least = fmin(least, sums[i]);
    }
    return (most - least) / (double)t->n_ranks;
}

static void add_rows(runs_compared *out, const trace *x, const trace *y, arena *a)
{
    trace_comparison c;
    trace_compare(&c, x, y, a);
    for (int64_t i = 0; i < c.n && out->n_rows < RUN_ROWS_MAX; i++) {
        const trace_row *r = &c.rows[i];
        if (fabs(r->difference) < least_of_step * out->step_s[0]) break; /* I2 */
        if (is_beside(r)) continue;
        arena_place mark = arena_mark(a);
        double p = spread_of_row(x, r, r->seconds[0], a), q = spread_of_row(y, r, r->seconds[1], a);
        arena_release(a, mark);
        double longer = fmax(r->seconds[0], r->seconds[1]);
        double noise = fmax(times_spread * hypot(p, q), out->band * longer);
        if (fabs(r->difference) > noise) out->rows[out->n_rows++] = (run_row){*r, noise};
    }
}

void compare_runs(runs_compared *out, const measured_side *x, const measured_side *y, arena *a)
{
    *out = (runs_compared){.steps = {compare_steps(x, a), compare_steps(y, a)}};
    const side_steps *p = &out->steps[0], *q = &out->steps[1];
    out->change = q->median / p->median - 1;
    if (x->n >= STEPS_FOR_BAND && y->n >= STEPS_FOR_BAND)
        out->band = hypot((p->high - p->low) / p->median, (q->high - q->low) / q->median) / 2 +
                    by_delay(x, y); /* I1 */
    out->noise = out->band > 0 && fabs(out->change) <= out->band;
    if (!x->t || !y->t) return;
    out->step_s[0] = measured_parts(out->parts[0], x->t, -1);
    out->step_s[1] = measured_parts(out->parts[1], y->t, -1);
    out->has_parts = out->step_s[0] > 0 && out->step_s[1] > 0;
    if (out->has_parts && !out->noise) add_rows(out, x->t, y->t, a);
}

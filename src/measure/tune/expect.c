/* expect.c - kriging of what prices get wrong.
 *
 * I1  The errors' deviation between recipes that have nothing in common is BAND before anything is
 *     known, which counts as PRIOR trials do; trials move it, between LEAST and MOST.
 * I2  A trial's own time is known to half of the spread of its steps, at best to NOISE: what other
 *     programs do to a trial is not taken for what its recipe does.
 * I3  With one trial the mean of the errors is that trial's: the price then only says how much
 *     faster a recipe is. */
#include "measure/tune/expect.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "plan/path.h"

static const double BAND = 0.05, LEAST = 0.01, MOST = 0.15, PRIOR = 2; /* I1 */
static const double NOISE = 0.01;                                      /* I2 */
static const double REACH = 2; /* steps in which the errors' correlation falls to 1/e */

struct expectations {
    int n;          /* trials that were measured and have a price */
    recipe **known; /* [n] */
    double *factor; /* [n][n] lower triangle: Cholesky's of the correlations */
    double *weight; /* [n] correlations^-1 (errors - mean) */
    double *ones;   /* [n] correlations^-1 1 */
    double sum;     /* of `ones` */
    double mean, deviation;
    double priced[TRIALS_MAX];
    arena *a;
};

/* ---- distance */

static int64_t size_of(value v)
{
    return v.kind == V_INT && v.whole > 1 ? v.whole : 1;
}

/* Items of one list that the other does not have; a single word is a list of one. */
static int items_apart(value x, value y)
{
    int n = 0, of_x = x.kind == V_LIST ? x.list.n : x.kind != V_NULL,
        of_y = y.kind == V_LIST ? y.list.n : y.kind != V_NULL;
    for (int i = 0; i < of_x; i++) {
        bool found = false;
        for (int k = 0; k < of_y && !found; k++)
            found = value_equal(x.kind == V_LIST ? x.list.items[i] : x,
                                y.kind == V_LIST ? y.list.items[k] : y);
        n += !found;
    }
    return n;
}

static double knob_apart(knob_id k, value x, value y)
{
    if (path_same(k, x, y)) return 0;
    if (x.kind == V_INT && y.kind == V_INT)
        return fabs(log2((double)size_of(x)) - log2((double)size_of(y)));
    if (x.kind == V_LIST || y.kind == V_LIST) return items_apart(x, y) + items_apart(y, x);
    return 1;
}

/* Knobs of a move mean one thing together: the one that moved most counts. */
double steps_apart(const recipe *x, const recipe *y)
{
    double move[PATH_MOVES] = {0}, sum = 0;
    for (knob_id k = 0; k < K_COUNT; k++) {
        axis_id m = axis_of(k);
        if (m == AX_NONE) continue;
        double d = knob_apart(k, x->knob[k].v, y->knob[k].v);
        if (d > move[m]) move[m] = d;
    }
    for (int m = 0; m < PATH_MOVES; m++) sum += move[m];
    return sum;
}

static double correlation(const recipe *x, const recipe *y)
{
    return exp(-steps_apart(x, y) / REACH);
}

/* ---- equations */

/* In place; `m` is [n][n]. The correlations are positive definite, and NOISE stands on the
 * diagonal. */
static void cholesky(double *m, int n)
{
    for (int i = 0; i < n; i++)
        for (int k = 0; k <= i; k++) {
            double s = m[i * n + k];
            for (int j = 0; j < k; j++) s -= m[i * n + j] * m[k * n + j];
            assert(k < i || s > 0);
            m[i * n + k] = k < i ? s / m[k * n + k] : sqrt(s);
        }
}

static void solve(const double *factor, int n, double *x)
{
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < i; k++) x[i] -= factor[i * n + k] * x[k];
        x[i] /= factor[i * n + i];
    }
    for (int i = n - 1; i >= 0; i--) {
        for (int k = i + 1; k < n; k++) x[i] -= factor[k * n + i] * x[k];
        x[i] /= factor[i * n + i];
    }
}

static double dot(const double *x, const double *y, int n)
{
    double s = 0;
    for (int i = 0; i < n; i++) s += x[i] * y[i];
    return s;
}

/* ---- what is known */

static void fit(expectations *e, const double *errors, const double *noise /* [n] */)
{
    int n = e->n;
    e->factor = ARENA_ARRAY(e->a, double, n *n + 1);
    e->weight = ARENA_ARRAY(e->a, double, n + 1);
    e->ones = ARENA_ARRAY(e->a, double, n + 1);
    for (int i = 0; i < n; i++)
        for (int k = 0; k <= i; k++) e->factor[i * n + k] = correlation(e->known[i], e->known[k]);
    for (int i = 0; i < n; i++) e->factor[i * n + i] += noise[i] * noise[i] / (BAND * BAND);
    cholesky(e->factor, n);
    for (int i = 0; i < n; i++) e->ones[i] = 1;
    solve(e->factor, n, e->ones);
    for (int i = 0; i < n; i++) e->sum += e->ones[i];
    e->mean = dot(e->ones, errors, n) / e->sum;
    for (int i = 0; i < n; i++) e->weight[i] = errors[i] - e->mean;
    solve(e->factor, n, e->weight);
    double seen = 0;
    for (int i = 0; i < n; i++) seen += e->weight[i] * (errors[i] - e->mean);
    e->deviation = sqrt((PRIOR * BAND * BAND + seen) / (PRIOR + n - 1)); /* I1 */
    e->deviation = fmin(fmax(e->deviation, LEAST), MOST);
}

expectations *expectations_of(const tune *t, arena *a)
{
    expectations *e = ARENA_NEW(a, expectations);
    arena *scratch = arena_create();
    double *errors = ARENA_ARRAY(scratch, double, t->n + 1),
           *noise = ARENA_ARRAY(scratch, double, t->n + 1);
    e->a = a;
    e->known = ARENA_ARRAY(a, recipe *, t->n + 1);
    for (int i = 0; i < t->n; i++) {
        const trial *x = &t->trials[i];
        try_result p;
        if (!tune_price_of(t, x->change, &p, a)) continue;
        e->priced[i] = p.p.step_s;
        if (x->end != TRIAL_MEASURED || !(p.p.step_s > 0)) continue;
        noise[e->n] = fmax(x->spread / 2, NOISE); /* I2 */
        errors[e->n] = log(x->step_s / p.p.step_s);
        e->known[e->n++] = &p.s->r;
    }
    if (e->n) fit(e, errors, noise);
    arena_destroy(scratch);
    return e;
}

double expect_priced(const expectations *e, int number)
{
    return e->priced[number];
}

/* ---- what is expected */

expectation expect(const expectations *e, const recipe *r, double priced)
{
    int n = e->n;
    if (!n) return (expectation){priced, BAND};
    double near[TRIALS_MAX], solved[TRIALS_MAX];
    for (int i = 0; i < n; i++) near[i] = solved[i] = correlation(r, e->known[i]);
    solve(e->factor, n, solved);
    double by_mean = 1 - dot(near, e->ones, n);
    double left = 1 - dot(near, solved, n) + by_mean * by_mean / e->sum;
    return (expectation){priced * exp(e->mean + dot(near, e->weight, n)),
                         e->deviation * sqrt(fmax(left, 0))};
}

double expected_gain(expectation x, double best)
{
    double below = log(best / x.seconds);
    if (!(x.band > 0)) return fmax(below, 0);
    double z = below / x.band, density = exp(-z * z / 2) / sqrt(2 * 3.14159265358979323846);
    return below * erfc(-z / sqrt(2)) / 2 + x.band * density;
}

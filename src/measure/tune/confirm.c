/* confirm.c - the fastest trials once more, in turn.
 *
 * Trials lie minutes apart, and each was set against the best of its time. Of those that came out
 * within CLOSE of the fastest nobody knows which is: the least of several times is more often a
 * lucky one than the best one. So they run again, one right after the other.
 *
 * I1  At most CONTENDERS of them, the fastest. In every second round the order is turned round.
 * I2  Contenders stand to one another as the medians over rounds of their ratios; together they
 *     keep the mean of their times (of the logarithms): which of those was a lucky one is not
 *     known.
 * I3  It ends before ROUNDS where one was the fastest in each of LEAST_ROUNDS.
 * I4  A round that was interrupted, or in which one of them failed, does not count. */
#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/stop.h"
#include "measure/tune/tune.h"

static const double CLOSE = 0.03;
enum { CONTENDERS = 3, ROUNDS = 5, LEAST_ROUNDS = 3 };

typedef struct contest {
    trial *who[CONTENDERS]; /* the first is the fastest so far */
    int n, rounds;
    double ratio[CONTENDERS][ROUNDS]; /* to the first */
    int won[CONTENDERS];
} contest;

static void add(contest *c, trial *x)
{
    int at = c->n < CONTENDERS ? c->n++ : CONTENDERS - 1;
    if (c->who[at] && x->step_s >= c->who[at]->step_s) return;
    for (; at > 0 && x->step_s < c->who[at - 1]->step_s; at--) c->who[at] = c->who[at - 1];
    c->who[at] = x;
}

/* I1 */
static void gather(contest *c, tune *t)
{
    const trial *best = tune_best(t);
    for (int i = 0; best && i < t->n; i++) {
        trial *x = &t->trials[i];
        if (x->end == TRIAL_MEASURED && x->step_s <= best->step_s * (1 + CLOSE)) add(c, x);
    }
    int fresh = 0;
    for (int i = 0; i < c->n; i++) fresh += !c->who[i]->rounds;
    if (c->n < 2 || !fresh) c->n = 0;
}

int tune_close(tune *t)
{
    contest c = {.n = 0};
    gather(&c, t);
    return c.n;
}

static status one_round(contest *c, tune *t, const trial_run *r, error *err)
{
    double seconds[CONTENDERS] = {0};
    int first = 0;
    for (int i = 0; i < c->n; i++) {
        int k = c->rounds % 2 ? c->n - 1 - i : i;
        TRY(trial_again(t, c->who[k], c->who[k], r, &seconds[k], err));
        if (stop_asked() || !(seconds[k] > 0)) return OK; /* I4 */
    }
    for (int i = 0; i < c->n; i++) {
        c->ratio[i][c->rounds] = seconds[i] / seconds[0];
        if (seconds[i] < seconds[first]) first = i;
    }
    c->won[first]++;
    c->rounds++;
    return OK;
}

static bool is_clear(const contest *c) /* I3 */
{
    for (int i = 0; i < c->n; i++)
        if (c->rounds >= LEAST_ROUNDS && c->won[i] == c->rounds) return true;
    return false;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* I2 */
static status take(contest *c, tune *t, error *err)
{
    double median[CONTENDERS], base = 0;
    int n = c->rounds;
    for (int i = 0; i < c->n; i++) {
        double *r = c->ratio[i];
        qsort(r, (size_t)n, sizeof *r, by_size);
        median[i] = n % 2 ? r[n / 2] : (r[n / 2 - 1] + r[n / 2]) / 2;
        base += log(c->who[i]->step_s / median[i]) / c->n;
    }
    status s = OK;
    for (int i = 0; !s && i < c->n; i++) {
        trial x = *c->who[i];
        x.step_s = exp(base) * median[i];
        x.rounds = n;
        s = tune_record(t, &x, err);
    }
    return s;
}

status tune_confirm(tune *t, const trial_run *r, double until, error *err)
{
    contest c = {.n = 0};
    status s = OK;
    gather(&c, t);
    if (!c.n) return OK;
    for (int i = 0; !s && i < ROUNDS && !is_clear(&c); i++) {
        if (stop_asked() || clock_seconds() > until) break;
        s = one_round(&c, t, r, err);
    }
    return s || !c.rounds || stop_asked() ? s : take(&c, t, err);
}

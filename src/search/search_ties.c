/* search_ties.c - computes the error bands of the best layouts and puts the layouts in order.
 *
 * I1  A layout ties with the fastest one if their times differ by less than the band of a
 *     difference, which grows with the number of knobs that differ. Each layout is compared with
 *     the fastest only, so ties do not chain. The fastest ties with itself.
 * I2  A tie means that the slower layout may be faster, not that it is equally good: at the edge of
 *     the band (which holds four in five of the errors) it is slower in nine cases of ten, and a
 *     user who got it first would lose those 12 %. Support and headroom decide only where the odds
 *     are 2 to 1 or less: within a third of the band, 4 % where one knob differs, since of errors
 *     that are normal a third lie beyond 0.43 of their spread, and the band is 1.28 of it.
 * I3  Free memory is worth something where it is scarce: where what the allocator may reserve at
 *     most (the upper end of its own band) would eat into the headroom. More than that buys
 *     nothing.
 * I4  Each rank of the list is decided separately, against the fastest layout that is left. So no
 *     row precedes one that is faster by more than a toss-up, however many rows lie between them.
 * I5  The fastest of many layouts is fast in part because its price is too low, and no measurement
 *     checks the price of a configuration that has never been run: of rows that are a toss-up,
 *     equally supported and roomy, the one most like a published run of the model comes first. */
#include "search/search_ties.h"

#include <math.h>

static const double TOSS_UP = 1.0 / 3; /* I2 */

static double seconds_of(const found *f)
{
    return f->priced ? f->exact.step_s : f->step_s;
}

/* I3. Estimated rows have no band: taken as one of 5 %. */
static bool is_roomy(const found *f, int64_t usable)
{
    const reported *m = &f->exact.memory;
    double most = f->priced && m->reserved_high > 0
                      ? (double)m->reserved_high + (double)m->outside
                      : 1.05 * (double)(f->priced ? f->exact.peak_bytes : f->peak_bytes);
    return most <= (double)usable;
}

static bool traits_of(band_traits *out, search_result *r, const found *f)
{
    arena *a = arena_create();
    setup *s = ARENA_NEW(a, setup);
    bool ok = choice_patch(s, r->maker, &f->c, choice_split(r->maker, &f->c));
    if (ok) *out = band_traits_of(s);
    arena_destroy(a);
    return ok;
}

/* ---- order */

static double difference(const tie_row *a, const tie_row *b)
{
    return fabs(log(a->seconds / b->seconds));
}

static double band_between(const tie_row *a, const tie_row *b)
{
    return band_of_difference(band_differences(&a->traits, &b->traits));
}

bool ties_toss_up(const tie_row *a, const tie_row *b)
{
    return difference(a, b) <= TOSS_UP * band_between(a, b);
}

static bool better(const tie_row *a, const tie_row *b)
{
    if (a->supported != b->supported) return a->supported;
    if (a->roomy != b->roomy) return a->roomy;
    if (a->untried != b->untried) return a->untried < b->untried; /* I5 */
    return a->seconds < b->seconds;
}

static int fastest_of(const tie_row *rows, const int *left, int n)
{
    int best = 0;
    for (int i = 1; i < n; i++)
        if (rows[left[i]].seconds < rows[left[best]].seconds) best = i;
    return best;
}

void ties_order(int *order, const tie_row *rows, int n)
{
    for (int i = 0; i < n; i++) order[i] = i;
    for (int at = 0; at < n; at++) { /* I4: what is left begins at `at` */
        int *left = order + at, first = fastest_of(rows, left, n - at), pick = first;
        for (int i = 0; i < n - at; i++)
            if (ties_toss_up(&rows[left[i]], &rows[left[first]]) &&
                better(&rows[left[i]], &rows[left[pick]]))
                pick = i;
        int taken = left[pick];
        for (int i = pick; i > 0; i--) left[i] = left[i - 1];
        left[0] = taken;
    }
}

/* ---- the list */

void search_judge_ties(search_result *r, const search_options *o)
{
    tie_row rows[BEST_MAX] = {{.seconds = 0}};
    found list[BEST_MAX];
    int order[BEST_MAX], fastest = 0, n = r->n_best;
    if (!n) return;
    for (int i = 0; i < n; i++) {
        found *f = &r->best[i];
        rows[i] = (tie_row){.seconds = seconds_of(f), .roomy = is_roomy(f, o->hw->usable)};
        if (!traits_of(&rows[i].traits, r, f)) return;
        if (o->prices.stack) rows[i].traits.stack = o->prices.stack;
        f->band = band_of_time(&rows[i].traits, -1);
        f->supported = rows[i].supported = band_unsupported(&rows[i].traits) == BAND_FEATURES;
        rows[i].untried = band_untried(&rows[i].traits);
        if (rows[i].seconds < rows[fastest].seconds) fastest = i;
    }
    for (int i = 0; i < n; i++) /* I1 */
        r->best[i].tie =
            difference(&rows[i], &rows[fastest]) <= band_between(&rows[i], &rows[fastest]);
    ties_order(order, rows, n);
    for (int i = 0; i < n; i++) list[i] = r->best[order[i]];
    for (int i = 0; i < n; i++) r->best[i] = list[i];
}

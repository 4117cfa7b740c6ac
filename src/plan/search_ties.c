/* search_ties.c - computes the error bands of the best layouts and puts the layouts in order.
 *
 * I1  A layout ties with the fastest one if their times differ by less than the band of a
 *     difference, which grows with the number of knobs that differ. Each layout is compared with
 *     the fastest only, so ties do not chain. The fastest ties with itself.
 * I2  A tie means that the slower layout may be faster, not that it is equally good: at the edge of
 *     the band (which holds four in five of the errors) it is slower in nine cases of ten. So the
 *     order goes by time, and something else decides only among rows that nobody would tell apart:
 *     EQUAL, below which two runs of one recipe differ.
 * I3  Among equals first comes what holds over the range of what is not known: the memory that the
 *     allocator may reserve at most, and routing from balanced to twice as uneven as assumed.
 * I4  Each rank of the list is decided separately, against the fastest layout that is left. So no
 *     row precedes one that is faster by more than EQUAL, however many rows lie between them.
 * I5  The fastest of many layouts is fast in part because its price is too low, and no measurement
 *     checks the price of a configuration that has never been run: of equals that are equally
 *     robust, the one most like a published run of the model comes first.
 * I6  A row precedes a faster one only if it needs less memory, and does not recompute everything
 *     where the faster one does not. So with more headroom the row is still there, or what comes in
 *     its place is slower: more headroom never makes the first row faster. */
#include "plan/search_ties.h"

#include <math.h>

#include "ir/segment.h"
#include "config/loads.h"

#define EQUAL 0.01 /* I2 */

static double seconds_of(const found *f)
{
    return f->priced ? f->exact.step_s : f->step_s;
}

/* I3. The routing that is assumed, balance, and twice as uneven: their mean, in logarithms. */
static void see_range(tie_row *row, found *f, search_result *r, const search_options *o, setup *s)
{
    static const double parts[FOUND_ROUTINGS] = {0, 2};
    row->over_range = log(row->seconds);
    for (int i = 0; i < FOUND_ROUTINGS; i++) {
        f->routed[i] = (routed_price){0};
        if (!f->priced || f->exact.skew <= 1 || loads_forced(&s->j) || o->prices.routing ||
            recipe_by_user(&s->r, K_ROUTING_SKEW))
            continue; /* somebody knows */
        search_price_routed(&f->routed[i], f, r, o, 1 + parts[i] * (f->exact.skew - 1));
    }
    for (int i = 0; i < FOUND_ROUTINGS; i++)
        row->over_range += log(f->routed[i].step_s > 0 ? f->routed[i].step_s : row->seconds);
    row->over_range /= 1 + FOUND_ROUTINGS;
}

/* I3. Headroom is there for what the allocator reserves beyond its prediction. Estimated rows have
 * no band: taken as one of 5 %. */
static bool is_roomy(const found *f, int64_t memory)
{
    const reported *m = &f->exact.memory;
    double most = f->priced && m->reserved_high > 0
                      ? (double)m->reserved_high + (double)m->outside
                      : 1.05 * (double)(f->priced ? f->exact.peak_bytes : f->peak_bytes);
    return most <= (double)memory;
}

/* What `check` would advise against. */
static int advice_on(const setup *s, arena *a)
{
    violations v;
    int n = 0;
    rules_check(&v, s, false, a);
    for (int i = 0; i < v.n; i++) n += v.list[i].n_repairs > 0;
    return n;
}

static bool judge_row(tie_row *row, found *f, search_result *r, const search_options *o)
{
    arena *a = arena_create();
    setup *s = ARENA_NEW(a, setup);
    *row = (tie_row){.seconds = seconds_of(f), .roomy = is_roomy(f, o->hw->memory)};
    bool ok = choice_patch(s, r->maker, &f->c, choice_split(r->maker, &f->c));
    if (ok) {
        s->r.a = a;
        row->traits = band_traits_of(s);
        if (o->prices.stack) row->traits.stack = o->prices.stack;
        row->bytes = f->priced ? f->exact.peak_bytes : f->peak_bytes;
        row->full = f->c.drop == DROP_FULL;
        row->advice = advice_on(s, a);
        row->untried = band_untried(&row->traits);
        f->band = band_of_time(&row->traits, -1);
        f->supported = row->supported = band_unsupported(&row->traits) == BAND_FEATURES;
        see_range(row, f, r, o, s);
    }
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

bool ties_equal(double seconds, double other)
{
    return fabs(log(seconds / other)) <= EQUAL;
}

/* In the order in which they decide; a row that is equal in all is as good as the other. */
typedef struct reason {
    const char *text; /* of the better one */
    double (*worse)(const tie_row *x);
    double told; /* differences up to this decide nothing */
} reason;

static double unsupported(const tie_row *x)
{
    return !x->supported;
}

static double tight(const tie_row *x)
{
    return !x->roomy;
}

static double recomputes_all(const tie_row *x)
{
    return x->full;
}

static double advised_against(const tie_row *x)
{
    return x->advice;
}

static double untried(const tie_row *x)
{
    return x->untried;
}

static double over_range(const tie_row *x)
{
    return x->over_range;
}

static const reason reasons[] = {
    {"it recomputes modules, and not everything", recomputes_all, 0},
    {"published runs have all of its features", unsupported, 0},
    {"it fits even where the allocator reserves the most", tight, 0},
    {"it is faster over the range of routings", over_range, EQUAL},
    {"`check` has less to say against it", advised_against, 0},
    {"it is more like a published run of the model", untried, 0}, /* I5 */
    {"it is faster over the range of routings", over_range, 0},
};

/* NULL: x is no better. */
static const char *better(const tie_row *x, const tie_row *y)
{
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++) {
        double a = reasons[i].worse(x), b = reasons[i].worse(y);
        if (a < b - reasons[i].told) return reasons[i].text;
        if (a > b + reasons[i].told) return NULL;
    }
    return NULL;
}

const char *ties_why_before(const tie_row *x, const tie_row *y)
{
    return y->seconds < x->seconds ? better(x, y) : NULL;
}

/* May it stand before all that are faster? */
static bool may_precede(const tie_row *rows, const int *left, int n, const tie_row *x)
{
    for (int i = 0; i < n; i++) {
        const tie_row *y = &rows[left[i]];
        if (y->seconds < x->seconds && (y->bytes <= x->bytes || (x->full && !y->full)))
            return false;
    }
    return true;
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
        for (int i = 0; i < n - at; i++) {
            const tie_row *x = &rows[left[i]];
            if (ties_equal(x->seconds, rows[left[first]].seconds) &&
                may_precede(rows, left, n - at, x) && better(x, &rows[left[pick]]))
                pick = i;
        }
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
        if (!judge_row(&rows[i], &r->best[i], r, o)) return;
        if (rows[i].seconds < rows[fastest].seconds) fastest = i;
    }
    for (int i = 0; i < n; i++) /* I1 */
        r->best[i].tie =
            difference(&rows[i], &rows[fastest]) <= band_between(&rows[i], &rows[fastest]);
    ties_order(order, rows, n);
    for (int i = 0; i < n; i++) {
        int next = fastest_of(rows, order + i, n - i);
        list[i] = r->best[order[i]];
        list[i].behind = next ? i + next : -1;
        list[i].before = next ? ties_why_before(&rows[order[i]], &rows[order[i + next]]) : NULL;
    }
    for (int i = 0; i < n; i++) r->best[i] = list[i];
}

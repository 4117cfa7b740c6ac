/* search_best.c - keeping the ten best layouts, one for each set of parallel sizes.
 *
 * I1  Sorted by step time; of equal ones that with less memory comes first.
 * I2  Sums of cards and whole programs differ by little (SLACK): what is not slower than that stays
 *     near, and is priced whole where it may be the better one. Layouts that differ in recompute,
 *     offload and graphs alone are compared by their cards.
 * I3  On the front nothing is both slower and larger than another. */
#include "plan/search_best.h"

#include <math.h>
#include <string.h>

static bool same_sizes(const choice *a, const choice *b)
{
    return a->tp == b->tp && a->cp == b->cp && a->ep == b->ep && a->etp == b->etp &&
           a->pp == b->pp && a->vpp == b->vpp && a->precision == b->precision;
}

static int place_of(const search_result *r, const choice *c)
{
    for (int i = 0; i < r->n_best; i++)
        if (same_sizes(&r->best[i].c, c)) return i;
    return -1;
}

static const double SLACK = 1.004; /* I2 */

double best_tenth(const search_result *r)
{
    return r->n_best < r->room ? r->below : r->best[r->room - 1].step_s;
}

double best_limit_any(const search_result *r, const choice *c)
{
    int own = place_of(r, c);
    return own < 0 ? best_tenth(r) : r->best[own].step_s * SLACK;
}

/* Of the same sizes: do they have the same operations, but for what is made again or captured? */
static bool same_kind(const choice *a, const choice *b)
{
    return a->kind == b->kind && a->mbs == b->mbs && a->to == b->to && a->overlap == b->overlap &&
           a->split == b->split && choice_picks(a) == choice_picks(b);
}

double best_limit(const search_result *r, const choice *c)
{
    int own = place_of(r, c);
    double limit = best_limit_any(r, c);
    if (own < 0) return limit;
    if (same_kind(&r->best[own].c, c)) return r->best[own].step_s;
    for (int i = 0; i < r->n_near; i++) {
        const found *f = &r->near[i];
        if (same_sizes(&f->c, c) && same_kind(&f->c, c) && f->step_s < limit) limit = f->step_s;
    }
    return limit;
}

bool best_enters(const search_result *r, const choice *c, double step_s)
{
    return step_s < best_limit(r, c);
}

static double seconds_of(const found *f)
{
    return f->priced ? f->exact.step_s : f->step_s;
}

static bool before(const found *a, const found *b) /* I1 */
{
    if (seconds_of(a) != seconds_of(b)) return seconds_of(a) < seconds_of(b);
    return a->peak_bytes < b->peak_bytes;
}

/* The slowest gives way. */
static void near_put(search_result *r, const found *f)
{
    int at = r->n_near < NEAR_MAX ? r->n_near++ : NEAR_MAX - 1;
    if (at == NEAR_MAX - 1 && r->near[at].step_s > 0 && !before(f, &r->near[at])) return;
    for (; at > 0 && before(f, &r->near[at - 1]); at--) r->near[at] = r->near[at - 1];
    r->near[at] = *f;
}

void best_put(search_result *r, const found *f)
{
    int at = place_of(r, &f->c);
    if (at >= 0 && !before(f, &r->best[at])) {
        near_put(r, f);
        return;
    }
    if (at >= 0) near_put(r, &r->best[at]);
    if (at < 0 && r->n_best == r->room) {
        at = r->room - 1;
        if (!before(f, &r->best[at])) return;
    } else if (at < 0) {
        at = r->n_best++;
    }
    for (; at > 0 && before(f, &r->best[at - 1]); at--) r->best[at] = r->best[at - 1];
    r->best[at] = *f;
}

const found *best_near(const search_result *r, const found *of, int *from)
{
    for (; *from < r->n_near; ++*from) {
        const found *f = &r->near[*from];
        if (same_sizes(&f->c, &of->c) && f->step_s < seconds_of(of)) return &r->near[(*from)++];
    }
    return NULL;
}

void best_sort(search_result *r)
{
    for (int i = 1; i < r->n_best; i++)
        for (int k = i; k > 0 && before(&r->best[k], &r->best[k - 1]); k--) {
            found swap = r->best[k];
            r->best[k] = r->best[k - 1];
            r->best[k - 1] = swap;
        }
}

bool front_takes(const search_result *r, const found *f)
{
    for (int i = 0; i < r->n_front; i++) {
        const found *x = &r->front[i];
        if (x->step_s <= f->step_s && x->peak_bytes <= f->peak_bytes) return false; /* I3 */
    }
    return true;
}

/* What frees least beyond the faster one before it gives way. */
static int thin_front(search_result *r)
{
    int least = 1;
    for (int i = 2; i < FRONT_MAX - 1; i++) {
        int64_t frees = r->front[i - 1].peak_bytes - r->front[i].peak_bytes;
        if (frees < r->front[least - 1].peak_bytes - r->front[least].peak_bytes) least = i;
    }
    for (int i = least; i + 1 < FRONT_MAX; i++) r->front[i] = r->front[i + 1];
    return FRONT_MAX - 1;
}

void front_put(search_result *r, const found *f)
{
    int n = 0;
    if (!front_takes(r, f)) return;
    for (int i = 0; i < r->n_front; i++) {
        const found *x = &r->front[i];
        bool beaten = f->step_s <= x->step_s && f->peak_bytes <= x->peak_bytes;
        if (!beaten) r->front[n++] = *x;
    }
    if (n == FRONT_MAX) n = thin_front(r);
    int at = n++;
    for (; at > 0 && r->front[at - 1].step_s > f->step_s; at--) r->front[at] = r->front[at - 1];
    r->front[at] = *f;
    r->n_front = n;
}

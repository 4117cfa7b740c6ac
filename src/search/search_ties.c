/* search_ties.c - bands of the best layouts, and their order.
 *
 * I1  The fastest ties with itself. What ties with it is told by the band of a difference, which
 *     grows with the knobs that differ; not by one another, so that ties are no chain. */
#include "search/search_ties.h"

#include <math.h>

#include "price/bands.h"

static double seconds_of(const found *f)
{
    return f->priced ? f->exact.step_s : f->step_s;
}

static int64_t used_by(const found *f)
{
    return f->priced ? f->exact.peak_bytes : f->peak_bytes;
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

/* Twentieths of a GPU's memory that stay free. */
static int free_parts(const found *f, int64_t usable)
{
    return (int)(20 * (double)(usable - used_by(f)) / (double)usable);
}

static bool before(const found *a, const found *b, int64_t usable)
{
    if (a->tie != b->tie) return a->tie;
    if (!a->tie) return seconds_of(a) < seconds_of(b);
    if (a->supported != b->supported) return a->supported;
    int x = free_parts(a, usable), y = free_parts(b, usable);
    return x != y ? x > y : seconds_of(a) < seconds_of(b);
}

void search_judge_ties(search_result *r, const search_options *o)
{
    band_traits first, own;
    int fastest = 0;
    for (int i = 1; i < r->n_best; i++)
        if (seconds_of(&r->best[i]) < seconds_of(&r->best[fastest])) fastest = i;
    if (!r->n_best || !traits_of(&first, r, &r->best[fastest])) return;
    double least = seconds_of(&r->best[fastest]);
    for (int i = 0; i < r->n_best; i++) {
        found *f = &r->best[i];
        if (!traits_of(&own, r, f)) continue;
        int n = band_differences(&first, &own);
        f->band = band_of_time(&own, -1);
        f->supported = band_unsupported(&own) == BAND_FEATURES;
        f->tie = log(seconds_of(f) / least) <= band_of_difference(n);
    }
    for (int i = 1; i < r->n_best; i++)
        for (int k = i; k > 0 && before(&r->best[k], &r->best[k - 1], o->hw->usable); k--) {
            found swap = r->best[k];
            r->best[k] = r->best[k - 1];
            r->best[k - 1] = swap;
        }
}

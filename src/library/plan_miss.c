/* plan_miss.c - the nearest miss where nothing fits: the layout that needs least.
 *
 * A search that excludes layouts by bounds knows of most of them only that they do not fit. So it
 * runs again as if GPUs had more memory, until something fits, and then bisects, to the byte,
 * between the largest memory in which nothing fits and what the last layout found needs.
 *
 * I1  `miss` is a layout whose bytes are those of its whole program; no layout needs less than
 *     `miss_least`. */
#include "base/clock.h"
#include "library/plan_parts.h"

enum { DOUBLINGS = 10, HALVINGS = 16 };

typedef struct lowering {
    plan_answer *p;
    const search_options *o;
    double until; /* of clock_work */
    arena *kept;  /* of the search that found the miss; NULL: none did */
    search_result *found;
    int64_t usable; /* memory of a GPU there */
    bool cut;       /* time was up within a search: nothing is known of that memory */
} lowering;

/* The search as if a GPU had so much memory. */
static search_options options_with(const lowering *w, hardware *hw, int64_t usable)
{
    search_options o = *w->o;
    *hw = *w->p->hw;
    hw->usable = usable;
    o.hw = hw;
    o.only_fit = o.unpriced = true;
    o.best = 1;
    o.work = w->until + WALK_GRACE_SECONDS;
    return o;
}

/* Some layout that fits so much memory becomes the nearest miss. */
static bool find_within(lowering *w, int64_t usable)
{
    arena *a = arena_create();
    search_result *there = ARENA_NEW(a, search_result), *r = w->p->result;
    hardware more;
    search_options o = options_with(w, &more, usable);
    error err = {{0}};
    recipe *given = ARENA_NEW(a, recipe);
    *given = *w->p->given;
    given->a = a;
    bool good = search_run(there, given, &o, a, &err) == OK && there->n_best > 0;
    w->cut = w->cut || !there->complete;
    if (good) {
        r->miss = there->best[0];
        r->miss.exact.evidence = NULL;
        r->has_miss = true;
        w->p->miss_exact = true;
        arena_destroy(w->kept);
        w->kept = a;
        w->found = there;
        w->usable = usable;
    } else {
        arena_destroy(a);
    }
    return good;
}

static bool over(const lowering *w)
{
    return w->cut || clock_work() >= w->until;
}

void plan_find_miss(plan_answer *p, const search_options *o, double seconds)
{
    lowering w = {.p = p, .o = o, .until = clock_work() + seconds};
    int64_t low = p->hw->usable, usable = low;
    for (int i = 0; i < DOUBLINGS && !p->miss_exact && !over(&w); i++) {
        low = usable;
        usable += i ? usable : usable / 4;
        find_within(&w, usable);
    }
    for (int i = 0; i < HALVINGS && p->miss_exact && !over(&w); i++) {
        int64_t high = p->result->miss.peak_bytes, middle = low + (high - low) / 2;
        if (high - low < p->hw->usable / 256) break;
        if (!find_within(&w, middle) && !w.cut) low = middle;
    }
    if (w.cut && clock_seconds() >= p->until) p->complete = false;
    if (w.kept) {
        hardware more;
        search_options as_found = options_with(&w, &more, w.usable);
        search_price_found(&p->result->miss, w.found, &as_found);
    }
    arena_destroy(w.kept);
    p->miss_least = low;
}

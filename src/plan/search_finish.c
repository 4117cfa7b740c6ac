/* search_finish.c - what follows the loops: the best priced as whole programs, and the winner's
 * ladder of recompute. */
#include <string.h>

#include "base/clock.h"
#include "config/job_of.h"
#include "config/loads.h"
#include "plan/search_best.h"
#include "plan/search_parts.h"

static void price_whole(search *s, found *f, setup *t, arena *a)
{
    if (!choice_patch(t, s->sp.m, &f->c, choice_split(s->sp.m, &f->c))) return;
    arena_place mark = arena_mark(s->scratch);
    t->r.a = s->scratch;
    price_setup(&f->exact, t, s->o->hw, &s->o->prices, s->scratch);
    f->exact.evidence = arena_copy(a, f->exact.evidence, strlen(f->exact.evidence));
    arena_release(s->scratch, mark);
    f->priced = true;
}

/* Programs of so many items take seconds and gigabytes: thousands of layers, each of thousands of
 * microbatches. What cards sum up to stands for them where nobody asked for more. */
bool search_is_giant(int64_t layers, int64_t micros)
{
    static const int64_t ITEMS_MOST = 4 << 20;
    return 2 * micros * layers > ITEMS_MOST;
}

static bool is_giant(const setup *t)
{
    int64_t dp = t->lay.dp > 0 ? t->lay.dp : 1;
    return search_is_giant(t->m.n_layers, t->j.gbs / (t->j.mbs * dp));
}

void search_price_found(found *f, const search_result *r, const search_options *o)
{
    arena *a = arena_create();
    setup *t = ARENA_NEW(a, setup);
    if (choice_patch(t, r->maker, &f->c, choice_split(r->maker, &f->c)) && !is_giant(t)) {
        t->r.a = a;
        price_setup(&f->exact, t, o->hw, &o->prices, a);
        f->exact.evidence = NULL;
        f->priced = true;
    }
    arena_destroy(a);
}

void search_price_routed(routed_price *out, const found *f, const search_result *r,
                         const search_options *o, double skew)
{
    arena *a = arena_create();
    setup *t = ARENA_NEW(a, setup);
    price *p = ARENA_NEW(a, price);
    price_options routed = o->prices;
    routed.skew = skew;
    bool late = o->until > 0 && clock_seconds() >= o->until;
    if (!late && choice_patch(t, r->maker, &f->c, choice_split(r->maker, &f->c)) && !is_giant(t)) {
        t->r.a = a;
        const char *why;
        knob_id k = loads_knob(&t->j);
        if (k != K_COUNT) setup_set(t, k, value_of_float(skew), "range");
        setup_set(t, K_BUFFER_FACTOR, value_of_float(loads_room(&t->j, &why)), why);
        price_setup(p, t, o->hw, &routed, a);
        *out = (routed_price){skew, p->step_s, p->peak_bytes};
    }
    arena_destroy(a);
}

/* Where time is up, what is in the list has some more to be priced in. */
static bool is_late(const search *s)
{
    static const double GRACE_SECONDS = 1;
    return s->late && s->o->until > 0 && clock_seconds() >= s->o->until + GRACE_SECONDS;
}

void search_price_best(search *s, arena *a)
{
    enum { OTHERS_MAX = 2, LEADERS = 2 };
    search_result *r = s->out;
    int n = s->o->best > 0 && s->o->best < r->n_best ? s->o->best : r->n_best;
    setup *t = ARENA_NEW(a, setup);
    for (int i = 0; i < n; i++) {
        if (i && is_late(s)) r->n_best = n = i; /* a list of whole programs, as ever */
        if (i == n) break;
        price_whole(s, &r->best[i], t, a);
        int from = 0;
        for (int k = 0; k < OTHERS_MAX && i < LEADERS && !s->late && !is_giant(t); k++) {
            const found *other = best_near(r, &r->best[i], &from);
            if (!other) break;
            found f = *other;
            price_whole(s, &f, t, a);
            if (f.priced && f.exact.step_s < r->best[i].exact.step_s) r->best[i] = f;
        }
    }
    best_sort(r);
}

/* The winner's layout from no recompute on, one module more a rung, cheapest first. */
void search_climb(search *s)
{
    search_result *r = s->out;
    if (!r->n_best || s->o->only_fit) return;
    attempt *t = &s->tried;
    choice c = r->best[0].c;
    c.graphs = SCOPE_NONE;
    if (c.overlap == OVERLAP_EP || c.overlap == OVERLAP_EP_DELAY) c.overlap = OVERLAP_NOTHING;
    t->message = search_message(s, &c);
    unsigned drop = 0, all = 0;
    for (int i = 0; i < s->sp.n_drops; i++) all |= s->sp.drops[i];
    for (unsigned i = 0, more = 0; more != DROP_FULL && r->n_ladder < LADDER_MAX; i++) {
        more = drop_rung(i);
        if (more & ~all) continue;
        drop = drop_tidy(drop | more);
        c.drop = more == DROP_FULL ? DROP_FULL : drop;
        if (c.overlap == OVERLAP_SHARED && (c.drop & DROP_SHARED_EXPERTS))
            c.overlap = OVERLAP_NOTHING;
        found *f = &r->ladder[r->n_ladder];
        if (!attempt_patch(s, &c, t)) continue;
        *f = (found){.c = c, .dp = t->s.lay.dp, .edp = t->s.lay.edp, .micros = t->z.micros};
        sums_saved(&t->sums, s->k, &c);
        sums_times(&t->sums, s->k, &c);
        attempt_sum_chunks(s, &c, t);
        f->peak_bytes = attempt_peak(s, &c, t, PEAK_EXACT);
        step_simulation p = attempt_simulation(s, &c, t);
        f->step_s = step_seconds(&p, s->scratch);
        r->n_ladder++;
    }
}

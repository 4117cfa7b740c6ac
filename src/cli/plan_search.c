/* plan_search.c - the search of `moefold plan`; its defaults are left where nothing fits.
 *
 * I1  Defaults leave out layouts: features that no published run has, weights in 16 bits, other
 *     number formats. That nothing fits is said when nothing fits without them either; a layout
 *     that is found so comes with the defaults that were left for it. What a person set is none.
 * I2  Where a system's own defaults break a rule in every layout, what repairs it is set, if nobody
 *     said otherwise; the plan lists it among what it sets. */
#include <string.h>

#include "base/clock.h"
#include "cli/plan.h"

enum { OPEN_MOST = 8 }; /* repairs of defaults */

static bool leave_published(search_options *o, const search_result *r)
{
    (void)r;
    bool can = o->published;
    o->published = false;
    return can;
}

static bool leave_fp8_weights(search_options *o, const search_result *r)
{
    const setup *base = choice_base(r->maker, 0, 1);
    o->wide = true;
    return base && recipe_on(&base->r, K_FP8_PARAMS);
}

static bool leave_precision(search_options *o, const search_result *r)
{
    bool can = !o->any_precision && r->maker->precisions[0];
    o->any_precision = true;
    return can;
}

/* In the order in which they are left. False: there is nothing to leave. */
static bool (*const leave[PLAN_DEFAULTS])(search_options *o, const search_result *r) = {
    [PLAN_FP8_WEIGHTS] = leave_fp8_weights,
    [PLAN_PUBLISHED] = leave_published,
    [PLAN_PRECISION] = leave_precision,
};

/* Was everything looked at, and nothing fits? Where no layout is legal, published ones are the only
 * default that may be why: numbers that do not divide are a person's to change. */
static bool found_nothing(const search_result *r, status st, plan_default i)
{
    if (r->not_known || r->never.n || !r->complete) return false;
    return st == ERR_RULE ? !r->counts.legal && i == PLAN_PUBLISHED : !st && !r->n_best;
}

/* I1. Of a search that found nothing, nothing is kept. */
static status search_wider(plan_answer *p, search_options *o, arena *a, error *err)
{
    arena_place before = arena_mark(a);
    status st = search_run(p->result, p->given, o, a, err);
    for (int i = 0; i < PLAN_DEFAULTS; i++) {
        search_options wider = *o;
        bool none = found_nothing(p->result, st, (plan_default)i);
        if (!none || !leave[i](&wider, p->result)) continue;
        int formats = p->result->maker->n_precisions;
        *o = wider;
        arena_release(a, before);
        st = search_run(p->result, p->given, o, a, err);
        p->left[i] = i != PLAN_PRECISION || p->result->maker->n_precisions > formats;
    }
    p->published = o->published;
    p->any_precision = o->any_precision;
    return st;
}

/* I2. Does a repair change nothing but what is open, and is no matter of what the job is? */
static bool is_open(const recipe *given, const char *const *repair, arena *a)
{
    static const knob_id purpose[] = {K_MODEL,  K_SYSTEM, K_TARGET, K_GPU,
                                      K_N_GPUS, K_SEQ,    K_GBS,    K_PRECISION};
    for (; *repair; repair++) {
        int k = knob_find(arena_copy(a, *repair, strcspn(*repair, "=")), NULL);
        if (k < 0 || given->knob[k].from != FROM_NOTHING || axis_decides((knob_id)k)) return false;
        for (size_t i = 0; i < sizeof purpose / sizeof purpose[0]; i++)
            if (k == (int)purpose[i]) return false;
    }
    return true;
}

static bool set_open(plan_answer *p, arena *a)
{
    const violations *never = &p->result->never;
    for (int i = 0; i < never->n; i++)
        for (int k = 0; k < never->list[i].n_repairs; k++) {
            recipe *r = ARENA_NEW(a, recipe);
            const char *const *words = never->list[i].repairs[k];
            if (!is_open(p->given, words, a) || !rules_apply(r, p->given, words, a)) continue;
            p->given = r;
            return true;
        }
    return false;
}

status plan_search(plan_answer *p, const plan_words *w, search_options *o, arena *a, error *err)
{
    *o = (search_options){.hw = p->hw,
                          .prices = p->prices,
                          .any_precision = w->precision != NULL,
                          .published = p->published,
                          .judged = p->hw->framework > 0,
                          .front = w->more,
                          .until = p->until};
    p->result = ARENA_NEW(a, search_result);
    status st = plan_refuse_target(p, a, err);
    if (!st) st = search_wider(p, o, a, err);
    for (int i = 0; i < OPEN_MOST && st == ERR_RULE && set_open(p, a); i++)
        st = search_wider(p, o, a, err);
    if (!st) search_own_ways(&p->ways, p->result, &p->given, o, a);
    p->complete = p->result->complete;
    if (st == ERR_RULE && !p->result->not_known && !p->result->never.n && !p->result->counts.legal)
        st = plan_why_none(p, o, a, err);
    if (!st && p->own && (p->result->n_best || p->complete)) {
        p->compared = ARENA_NEW(a, against);
        st = against_price(p->compared, p->own, &(searched){p->given, p->result, o}, a, err);
        if (clock_seconds() >= p->until) p->complete = false;
    }
    return st;
}

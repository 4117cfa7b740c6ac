/* plan.c - the whole of a plan: the search, whose defaults are left where nothing fits, and what
 * follows from it.
 *
 * I1  Defaults leave out layouts: features that no published run has, weights in 16 bits, other
 *     number formats. That nothing fits is said when nothing fits without them either; a layout
 *     that is found so comes with the defaults that were left for it. What a person set is none.
 * I2  Where a system's own defaults break a rule in every layout, what repairs it is set, if nobody
 *     said otherwise; the plan lists it among what it sets. */
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/waiting.h"
#include "config/export.h"
#include "library/plan_parts.h"
#include "predict/try.h"

enum { OPEN_MOST = 8 }; /* repairs of defaults */

/* How long the smallest cluster is looked for, beside a plan and where nothing fits; the nearest
 * miss; fewer GPUs. */
static const double EXTRA_SECONDS = 0.4, ALONE_SECONDS = 4, MISS_SECONDS = 2, ROUNDER_SECONDS = 2;

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
static bool is_open(const recipe *given, edits repair)
{
    static const knob_id purpose[] = {K_MODEL,  K_SYSTEM, K_TARGET, K_GPU,
                                      K_N_GPUS, K_SEQ,    K_GBS,    K_PRECISION};
    for (size_t i = 0; i < sizeof purpose / sizeof purpose[0]; i++)
        if (edits_name(repair, purpose[i])) return false;
    for (size_t i = 0; i < repair.n; i++) {
        knob_id k = repair.list[i].k;
        if (k == K_COUNT || given->knob[k].from != FROM_NOTHING || axis_decides(k)) return false;
    }
    return true;
}

static bool set_open(plan_answer *p, arena *a)
{
    const violations *never = &p->result->never;
    for (int i = 0; i < never->n; i++)
        for (int k = 0; k < never->list[i].n_repairs; k++) {
            recipe *r = ARENA_NEW(a, recipe);
            edits e = never->list[i].repairs[k];
            if (!is_open(p->given, e) || !rules_apply(r, p->given, e, a)) continue;
            p->given = r;
            return true;
        }
    return false;
}

static status search(plan_answer *p, search_options *o, arena *a, error *err)
{
    *o = (search_options){.hw = p->hw,
                          .prices = p->prices,
                          .any_precision = p->any_precision,
                          .published = p->published,
                          .judged = p->hw->framework > 0,
                          .front = p->more,
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

/* ---- what a file sets */

static bool by_words(const setting *x)
{
    return x->from == FROM_USER && text_equal(x->why, PLAN_BY_WORDS);
}

bool plan_was_set(const plan_answer *p, knob_id k)
{
    const setting *x = &p->set->knob[k], *now = &p->given->knob[k];
    bool changed = now->from == FROM_USER && !value_equal(now->v, x->v); /* --gpus, --seq, --gbs */
    return x->from == FROM_USER && !by_words(x) && !changed;
}

bool plan_was_opened(const plan_answer *p, knob_id k)
{
    return plan_was_set(p, k) && axis_decides(k) && !p->pin_all;
}

/* ---- what follows from it */

static status write_recipe(const plan_answer *p, arena *a, error *err)
{
    recipe *r = ARENA_NEW(a, recipe);
    search_recipe(r, p->result, p->given, &p->result->best[0].c);
    textbuf t = text_init(a);
    recipe_relocate(r, p->out);
    export_yaml(r, false, &t);
    return file_write(p->out, t.s, t.n, err);
}

/* The winner on twice as many GPUs: DP doubles. */
static void price_next(plan_answer *p, arena *a)
{
    recipe *r = ARENA_NEW(a, recipe);
    try_result t;
    search_recipe(r, p->result, p->given, &p->result->best[0].c);
    recipe_set(r, K_N_GPUS, value_of_int(p->world * 2), "--gpus");
    p->has_next =
        try_recipe(&t, r, &(try_job){.hw = p->hw, .o = &p->prices, .depth = TRY_PRICE}, a);
    if (p->has_next) p->next = t.p;
}

/* The winner with the other routing. */
static void see_other(plan_answer *p, arena *a)
{
    recipe *r = ARENA_NEW(a, recipe);
    setup *s = ARENA_NEW(a, setup);
    error err = {{0}};
    search_recipe(r, p->result, p->given, &p->result->best[0].c);
    if (setup_init(s, r, a, &err) == OK)
        price_other_routing(&p->other, r, &(price_job){s, p->hw, &p->prices});
}

static void try_offload(plan_answer *p, arena *a)
{
    const variant_job j = plan_variants(p, TRY_FITTING);
    activation_offload_try(&p->offload, &j, p->until, a);
    p->complete &= p->offload.complete;
}

static status find_more(plan_answer *p, const search_options *o, arena *a, error *err)
{
    price_next(p, a);
    plan_find_rounder(p, o, ROUNDER_SECONDS);
    plan_find_reasons(p, a);
    if (p->more) plan_find_fewest(p, o, EXTRA_SECONDS, a);
    if (p->more) try_offload(p, a);
    if (p->out) TRY(write_recipe(p, a, err));
    if (p->steps) TRY(plan_make_bring_up(p, p->steps, a, err));
    see_other(p, a);
    return OK;
}

static status too_late(const plan_answer *p, arena *a, error *err)
{
    const search_counts *n = &p->result->counts;
    return error_set(
        err, ERR_RULE,
        "no layout was found in %.3g s; %s layouts are ruled out so far. Give the search more time "
        "(--seconds %.0f), or pin some knobs (--pin key=value)",
        p->limit,
        text_grouped(a, n->state + n->saved + n->slow + n->simulated + n->summed + n->rules),
        10 * p->limit > 60 ? 10 * p->limit : 60);
}

/* ---- the whole */

status plan_run(plan_answer *p, recipe *r, const plan_words *w, arena *a, error *err)
{
    search_options o;
    *p = (plan_answer){0};
    if (w->bring_up) TRY(plan_bring_up_folder(w->bring_up, err));
    TRY(words_headroom(r, w->headroom, err));
    words_stack(r, w->stack);
    TRY(plan_prepare(p, r, w, a, err));
    waiting_begin("plan", "searching layouts", WAITING_AT_MOST, p->until - clock_seconds());
    status st = search(p, &o, a, err);
    waiting_end();
    if (plan_refuses(p, &o, a)) {
        p->end = PLAN_REFUSED;
        return OK;
    }
    TRY(st);
    p->end = p->result->n_best ? PLAN_FOUND : p->complete ? PLAN_NOTHING : PLAN_LATE;
    if (p->end == PLAN_LATE) return too_late(p, a, err);
    bool good = p->end == PLAN_FOUND;
    waiting_begin("plan", good ? "pricing the reasons" : "what would fit",
                  good ? WAITING_ABOUT : WAITING_AT_MOST,
                  !good      ? MISS_SECONDS + ALONE_SECONDS
                  : p->steps ? 10
                             : 3);
    if (good) {
        st = find_more(p, &o, a, err);
    } else {
        plan_find_miss(p, &o, MISS_SECONDS);
        plan_find_fewest(p, &o, ALONE_SECONDS, a);
        try_offload(p, a);
    }
    waiting_end();
    return st;
}

/* plan_trial.c - a layout of a plan with some overrides, priced. */
#include <string.h>

#include "library/plan_parts.h"
#include "predict/bands.h"
#include "predict/try.h"

static bool override(recipe *r, const char *words, arena *a)
{
    char *copy = arena_copy(a, words, strlen(words)), *rest = NULL;
    error err = {{0}};
    for (char *w = strtok_r(copy, " ", &rest); w; w = strtok_r(NULL, " ", &rest))
        if (recipe_override(r, w, "plan", &err)) return false;
    return true;
}

static bool try_layout(try_result *out, const plan_answer *p, const choice *c, const char *words,
                       try_depth depth, arena *a)
{
    recipe *r = ARENA_NEW(a, recipe);
    *out = (try_result){.s = NULL};
    search_recipe(r, p->result, p->given, c);
    r->a = a;
    return (!words || override(r, words, a)) &&
           try_recipe(out, r, &(try_job){.hw = p->hw, .o = &p->prices, .depth = depth}, a);
}

/* Static words, or NULL. */
static const char *unsupported_of(const setup *s, const char *stack)
{
    band_traits t = band_traits_of(s);
    if (stack) t.stack = stack;
    band_feature f = band_unsupported(&t);
    return f == BAND_FEATURES ? NULL : f == BAND_RECOMPUTE ? "recompute" : t.feature[f];
}

bool plan_price_trial(plan_other *out, const plan_answer *p, const choice *c, const char *words,
                      arena *a)
{
    arena_place mark = arena_mark(a);
    try_result t;
    bool good = try_layout(&t, p, c, words, TRY_PRICE, a);
    out->rule = t.found.n_errors ? t.found.list[0].rule->id : NULL;
    if (good) out->unsupported = unsupported_of(t.s, p->prices.stack);
    if (good) out->p = t.p;
    arena_release(a, mark);
    return good;
}

bool plan_fit_words(price *out, const plan_answer *p, const choice *c, const char *words, arena *a)
{
    arena_place mark = arena_mark(a);
    try_result t;
    bool good = try_layout(&t, p, c, words, TRY_FITTING, a);
    if (good) *out = t.p;
    if (good && !t.priced)
        *out = (price){
            .peak_bytes = t.peak_bytes, .host_bytes = t.host_bytes, .usable = t.usable_bytes};
    arena_release(a, mark);
    return good;
}

bool plan_price_words(price *out, const plan_answer *p, const choice *c, const char *words,
                      arena *a)
{
    plan_other o = {0};
    bool priced = plan_price_trial(&o, p, c, words, a);
    *out = o.p;
    return priced;
}

bool plan_halve(choice *c, knob_id size)
{
    int64_t *n = size == K_TP ? &c->tp : size == K_CP ? &c->cp : &c->pp;
    if (*n < 2 || *n % 2) return false;
    *n /= 2;
    if (c->pp == 1) c->vpp = 1;
    if (c->etp > 1) c->etp = c->tp;
    choice_settle(c);
    return true;
}

const char *plan_dispatcher(const plan_answer *p, const choice *c)
{
    return choice_dispatcher(p->result->maker, c)->title;
}

const char *plan_overlap(overlap_kind overlap)
{
    static const char *const words[OVERLAP_KINDS] = {
        "none", "shared expert", "expert wgrad with dispatch", "EP", "EP, delayed wgrad"};
    return words[overlap];
}

/* against.c - a recipe and the plan of its job. */
#include "plan/against.h"

#include "predict/audit/audit.h"

void against_open(recipe *out, const recipe *own)
{
    *out = *own;
    path_open(out, NULL);
}

/* False where one of them names no model: it is the other's then. */
static bool other_models(const recipe *plan, const recipe *own)
{
    arena *a = arena_create();
    error ignored;
    setup *x = ARENA_NEW(a, setup), *y = ARENA_NEW(a, setup);
    bool other = false;
    if (!setup_init(x, plan, a, &ignored) && !setup_init(y, own, a, &ignored)) {
        model_shape p = model_shape_of(&x->m), q = model_shape_of(&y->m);
        other = !model_same_shape(&p, &q);
    }
    arena_destroy(a);
    return other;
}

status against_join(recipe *plan, recipe *own, error *err)
{
    const char *here = recipe_word(plan, K_MODEL), *there = recipe_word(own, K_MODEL);
    if (other_models(plan, own))
        return error_set(err, ERR_INPUT,
                         "--against %s is a recipe of %s, but the plan is for %s; repair: name the "
                         "same model, or leave it out",
                         own->name, there ? there : "another model", here ? here : plan->name);
    for (int k = 0; k < K_COUNT; k++) {
        if (axis_decides((knob_id)k)) continue;
        if (recipe_by_user(plan, (knob_id)k))
            recipe_take(own, plan, (knob_id)k);
        else if (recipe_by_user(own, (knob_id)k))
            recipe_take(plan, own, (knob_id)k);
    }
    return OK;
}

static bool same_sizes(const job *j, const pipeline *pipe, const choice *c)
{
    return j->tp == c->tp && j->cp == c->cp && j->ep == c->ep && j->etp == c->etp &&
           pipe->pp == c->pp && pipe->vpp == c->vpp && j->mbs == c->mbs;
}

static void place_it(against *out, const search_result *r)
{
    out->place = 1;
    for (int i = 0; i < r->n_best; i++) {
        if (r->best[i].exact.step_s < out->p.step_s) out->place++;
        if (!out->same && same_sizes(&out->s->j, &out->s->pipe, &r->best[i].c)) out->same = i + 1;
    }
    /* a row of the list has its place there, whatever orders ties */
    const price *row = out->same ? &r->best[out->same - 1].exact : NULL;
    if (row && row->step_s == out->p.step_s && row->peak_bytes == out->p.peak_bytes)
        out->place = out->same;
}

static void see_faster(against *out, const price *first)
{
    for (int i = 0; i < out->n_path && !out->faster; i++)
        if (out->path[i].p.fits && out->path[i].p.step_s < 0.999 * first->step_s)
            out->faster = i + 1;
}

status against_price(against *out, const recipe *own, const searched *by, arena *a, error *err)
{
    search_result *r = by->r;
    const search_options *o = by->o;
    setup *s = ARENA_NEW(a, setup);
    *out = (against){.s = s};
    status st = setup_init(s, own, a, err);
    if (st) return st;
    rules_check(&out->found, s, false, a);
    rules_prove(&out->found, s, false, a);
    out->why_not = audit_why_not(s, a);
    if (out->why_not) return OK;
    const try_job asked = {
        .hw = o->hw, .o = &o->prices, .depth = TRY_PRICE, .errors = out->found.n_errors};
    try_result t = {.s = s, .found = out->found};
    try_more(&t, &asked, a);
    out->p = t.p;
    place_it(out, r);
    if (!r->n_best) return OK;
    recipe *winner = ARENA_NEW(a, recipe);
    setup *first = ARENA_NEW(a, setup);
    search_recipe(winner, r, by->plan, &r->best[0].c);
    TRY(setup_init(first, winner, a, err));
    const path_job path = {.from = {own, s, &out->p},
                           .to = {winner, first, &r->best[0].exact},
                           .t = asked,
                           .until = o->until};
    out->path = path_find(&out->n_path, &path, a);
    see_faster(out, &r->best[0].exact);
    return OK;
}

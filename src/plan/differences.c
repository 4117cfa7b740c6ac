/* differences.c - knobs that differ, and the path between two recipes. */
#include "plan/differences.h"

#include "predict/audit/audit.h"

static status open_end(diff_end *e, const recipe *given, const diff_job *j, arena *a, error *err)
{
    *e = (diff_end){.given = given, .s = ARENA_NEW(a, setup), .hw = ARENA_NEW(a, hardware)};
    TRY(setup_init(e->s, given, a, err));
    TRY(j->machine(e->hw, e->s, a, err));
    rules_check(&e->found, e->s, false, a);
    rules_prove(&e->found, e->s, false, a);
    e->why_not = audit_not_known(e->s, a);
    if (!e->why_not) e->why_not = audit_why_not_of(e->s, &e->found, a);
    if (e->why_not) return OK;
    try_result t = {.s = e->s, .found = e->found};
    try_more(&t, &(try_job){.hw = e->hw, .o = j->o, .depth = TRY_PRICE}, a);
    e->p = t.p;
    return OK;
}

/* The same model may have two names: a preset, and its config.json. */
static status same_model(const differences *d, error *err)
{
    const setup *x = d->a.s, *y = d->b.s;
    const char *p = x->j.model, *q = y->j.model;
    param_totals n = param_count(&x->params), m = param_count(&y->params);
    if (text_equal(p, q) || (n.total == m.total && n.active == m.active)) return OK;
    return error_set(err, ERR_INPUT,
                     "recipes of different models: %s is of %s, %s of %s; repair: compare recipes "
                     "of one model",
                     x->r.name, p ? p : "a model of its own", y->r.name,
                     q ? q : "a model of its own");
}

static void find_knobs(differences *d, arena *a)
{
    d->knobs = ARENA_ARRAY(a, diff_knob, K_COUNT);
    for (knob_id k = 0; k < K_COUNT; k++) {
        value x = d->a.s->r.knob[k].v, y = d->b.s->r.knob[k].v;
        if (path_same(k, x, y)) continue;
        d->knobs[d->n_knobs++] = (diff_knob){k, x, y, path_made(d->a.given, d->b.given, k)};
    }
}

status differences_find(differences *out, const diff_job *j, arena *a, error *err)
{
    *out = (differences){0};
    TRY(open_end(&out->a, j->a, j, a, err));
    TRY(open_end(&out->b, j->b, j, a, err));
    TRY(same_model(out, err));
    find_knobs(out, a);
    if (out->a.why_not || out->b.why_not) return OK;
    int x = out->a.found.n_errors, y = out->b.found.n_errors;
    const path_job path = {
        .from = {j->a, out->a.s, &out->a.p},
        .to = {j->b, out->b.s, &out->b.p},
        .way = PATH_NEAREST, /* no stop breaks more rules than the worse of the two */
        .t = {.o = j->o, .budget = j->budget, .errors = x > y ? x : y, .machine = j->machine}};
    out->changes = path_find(&out->n_changes, &path, a);
    return OK;
}

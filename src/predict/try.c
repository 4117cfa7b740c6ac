/* try.c - one recipe tried: rules, then memory, then time. */
#include "predict/try.h"

#include "base/maths.h"
#include "predict/audit/audit.h"
#include "predict/fit.h"

/* Lists of a step are as long as its microbatches and layers; building takes the rest. Measured on
 * prices of 0.3 to 17 ms. */
bool try_affords(try_budget *b, const setup *s)
{
    if (!b) return true;
    int64_t micros = s->j.gbs / (s->j.mbs * s->lay.dp);
    int64_t work = add_sat(mul_sat(2 * micros, s->m.n_layers), 1000 * s->pipe.pp);
    if (work > b->left) {
        b->left_out++;
        return false;
    }
    b->left -= work;
    return true;
}

void try_more(try_result *out, const try_job *j, arena *a)
{
    bool priced = j->depth == TRY_PRICE && try_affords(j->budget, out->s);
    if (!priced) {
        fit f;
        fit_of(&f, out->s, &out->found, j->hw, a);
        out->peak_bytes = f.peak_bytes;
        out->host_bytes = f.host_bytes;
        out->usable_bytes = f.usable_bytes;
        out->fits = f.fits;
    }
    if (!priced && !(j->depth == TRY_FITTING && out->fits && try_affords(j->budget, out->s)))
        return;
    price_setup(&out->p, out->s, j->hw, j->o, a);
    out->priced = true;
    out->p.evidence = NULL;
    out->peak_bytes = out->p.peak_bytes;
    out->host_bytes = out->p.host_bytes;
    out->usable_bytes = out->p.usable;
    out->fits = out->p.fits;
}

bool try_recipe(try_result *out, recipe *r, const try_job *j, arena *a)
{
    setup *s = ARENA_NEW(a, setup);
    error err = {{0}};
    *out = (try_result){.s = NULL};
    r->a = a;
    if (setup_init(s, r, a, &err) || !s->possible || s->pipe.why_not) return false;
    if (j->world && s->lay.world != j->world) return false;
    setup_states(s, a);
    rules_check(&out->found, s, false, a);
    out->s = s;
    out->legal = out->found.n_errors <= j->errors && !audit_why_not_of(s, &out->found, a);
    if (!out->legal || j->depth == TRY_RULES) return out->legal;
    try_job own = *j;
    if (j->machine) {
        hardware *hw = ARENA_NEW(a, hardware);
        own.hw = hw;
        if (j->machine(hw, s, a, &err)) return out->legal = false;
    }
    try_more(out, &own, a);
    return true;
}

bool try_edits(try_result *out, edits e, const try_job *j, arena *a)
{
    recipe *r = ARENA_NEW(a, recipe);
    *out = (try_result){.s = NULL};
    return rules_apply(r, j->given, e, a) && try_recipe(out, r, j, a);
}

int try_errors(const recipe *given)
{
    arena *a = arena_create();
    try_result t;
    try_edits(&t, (edits)NO_EDITS, &(try_job){.given = given}, a);
    int n = t.found.n_errors;
    arena_destroy(a);
    return n;
}

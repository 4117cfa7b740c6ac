/* repairs.c - does a repaired recipe fit? And a warning is a rule of thumb: its repair is priced.
 *
 * I1  A repair may change the batch or the cluster, so tokens a second and GPU are compared.
 * I2  Differences below SAME are none: they are within what prices leave open. */
#include "plan/repairs.h"

#include "predict/fit.h"

static const double SAME = 0.005;

/* Where the recipe is valid with it: does it fit? And what it costs, where `now` is not NULL. */
static void see_one(repair_price *out, repair_job *j, edits e, const price *now, arena *a)
{
    try_result t;
    const try_job asked = {.given = j->given,
                           .hw = j->hw,
                           .o = j->o,
                           .budget = &j->budget,
                           .depth = now ? TRY_PRICE : TRY_FIT};
    if (!try_edits(&t, e, &asked, a)) return;
    *out = (repair_price){
        .valid = true, .peak_bytes = t.peak_bytes, .usable_bytes = t.usable_bytes, .fits = t.fits};
    if (!t.priced) return;
    out->priced = true;
    out->gain = t.p.tokens_per_s_per_gpu / now->tokens_per_s_per_gpu - 1;
    out->step_s = t.p.step_s;
    out->before_s = now->step_s;
}

static bool any_repairs(const violations *found, bool of_warnings)
{
    for (int i = 0; i < found->n; i++)
        if (found->list[i].n_repairs && (!of_warnings || found->list[i].rule->severity == WARNING))
            return true;
    return false;
}

bool repairs_to_price(const violations *found)
{
    return any_repairs(found, false);
}

void price_repairs(violations *found, repair_job *j, arena *a)
{
    price now;
    fit own;
    if (j->own)
        own = *j->own;
    else
        fit_of(&own, j->s, found, j->hw, a);
    arena_place mark = arena_mark(a);
    bool priced = any_repairs(found, !j->notes) && !found->n_errors && !own.why_not &&
                  try_affords(&j->budget, j->s);
    if (priced) price_setup(&now, j->s, j->hw, j->o, a);
    arena_release(a, mark);
    for (int i = 0; i < found->n; i++) {
        violation *v = &found->list[i];
        for (int k = 0; k < v->n_repairs; k++) {
            bool cost = priced && (v->rule->severity == WARNING || j->notes);
            see_one(&v->prices[k], j, v->repairs[k], cost ? &now : NULL, a);
            v->prices[k].fitted = own.fits;
            arena_release(a, mark);
        }
    }
}

const char *repair_text(const repair_price *p, arena *a)
{
    if (!p->valid || (!p->priced && p->fits && p->fitted)) return NULL;
    if (p->fits && !p->fitted) /* what cannot run has no speed */
        return arena_text(a, "fits then: %s of %s%s", text_bytes(a, p->peak_bytes),
                          text_bytes(a, p->usable_bytes),
                          p->priced ? arena_text(a, ", predicted %.4g s a step", p->step_s) : "");
    if (!p->priced)
        return arena_text(a, "valid then, but does not fit: %s of %s", text_bytes(a, p->peak_bytes),
                          text_bytes(a, p->usable_bytes));
    bool same = p->gain < SAME && p->gain > -SAME; /* I2 */
    if (same && p->fits) return NULL;
    textbuf t = text_init(a);
    text_add(&t, "predicted %.4g s a step instead of %.4g s", p->step_s, p->before_s);
    if (!same)
        text_add(&t, ": %.3g %% %s tokens/s/GPU", 100 * (p->gain < 0 ? -p->gain : p->gain),
                 p->gain < 0 ? "fewer" : "more");
    if (p->gain <= -SAME) text_add(&t, ", the repair is slower");
    if (!p->fits)
        text_add(&t, "; does not fit, %s of %s", text_bytes(a, p->peak_bytes),
                 text_bytes(a, p->usable_bytes));
    return t.s;
}

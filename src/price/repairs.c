/* repairs.c - a warning is a rule of thumb; here its repair is priced.
 *
 * I1  A repair may change the batch or the cluster, so tokens a second and GPU are compared.
 * I2  Differences below SAME are none: they are within what prices leave open. */
#include "price/repairs.h"

#include "base/clock.h"

static const double SAME = 0.005;

/* False: it breaks a rule. */
static bool price_one(repair_price *out, const repair_job *j, const char *const *words,
                      const price *now, arena *a)
{
    recipe *r = ARENA_NEW(a, recipe);
    setup *s = ARENA_NEW(a, setup);
    error err = {{0}};
    violations broken = {0};
    *r = *j->given;
    r->a = a;
    for (; *words; words++)
        if (recipe_override(r, *words, "repair", &err)) return false;
    if (setup_init(s, r, a, &err) || !s->possible || s->pipe.why_not) return false;
    rules_check(&broken, s, false, a);
    if (broken.n_errors) return false;
    price p;
    price_setup(&p, s, j->hw, j->o, a);
    *out = (repair_price){.priced = true,
                          .gain = p.tokens_per_s_per_gpu / now->tokens_per_s_per_gpu - 1,
                          .step_s = p.step_s,
                          .before_s = now->step_s,
                          .peak_bytes = p.peak_bytes,
                          .usable_bytes = p.usable,
                          .fits = p.fits};
    return true;
}

bool repairs_to_price(const violations *found)
{
    for (int i = 0; i < found->n; i++)
        if (found->list[i].rule->severity == WARNING && found->list[i].n_repairs)
            return found->n_errors == 0;
    return false;
}

void price_repairs(violations *found, const repair_job *j, arena *a)
{
    if (!repairs_to_price(found) || !j->s->possible || j->s->pipe.why_not) return;
    double start = clock_work();
    price now;
    arena_place mark = arena_mark(a);
    price_setup(&now, j->s, j->hw, j->o, a);
    arena_release(a, mark);
    double one = clock_work() - start; /* the next takes about as long */
    for (int i = 0; i < found->n; i++) {
        violation *v = &found->list[i];
        for (int k = 0; k < v->n_repairs && v->rule->severity == WARNING; k++) {
            if (clock_work() - start + one > j->seconds) return;
            price_one(&v->prices[k], j, v->repairs[k], &now, a);
            arena_release(a, mark);
        }
    }
}

const char *repair_text(const repair_price *p, arena *a)
{
    if (!p->priced) return NULL;
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

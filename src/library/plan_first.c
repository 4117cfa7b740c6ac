/* plan_first.c - what the first row of a plan wins for: over which routings it stays first, how
 * much of the load its memory holds, and what it sets beyond its row.
 *
 * I1  Routing is given in parts of the unevenness that is assumed: 0 is balanced, 1 as assumed, 2
 *     twice as uneven. A rank's load, and so a step and its memory, is a line between two of them.
 * I2  "First" is meant as the list means it: no row is faster than its equals are. */
#include <math.h>

#include "library/plan_parts.h"
#include "plan/search_ties.h"

static double between(double even, double now, double uneven, double part)
{
    return part < 1 ? even + (now - even) * part : now + (uneven - now) * (part - 1);
}

double plan_step_at(const found *f, double part)
{
    const routed_price *x = f->routed;
    if (!(x[ROUTED_EVEN].step_s > 0) || !(x[ROUTED_UNEVEN].step_s > 0)) return f->exact.step_s;
    return between(x[ROUTED_EVEN].step_s, f->exact.step_s, x[ROUTED_UNEVEN].step_s, part);
}

static double bytes_at(const found *f, double part)
{
    const routed_price *x = f->routed;
    if (!(x[ROUTED_UNEVEN].step_s > 0)) return (double)f->exact.peak_bytes;
    return between((double)x[ROUTED_EVEN].peak_bytes, (double)f->exact.peak_bytes,
                   (double)x[ROUTED_UNEVEN].peak_bytes, part);
}

double plan_skew_at(const found *f, double part)
{
    return 1 + part * (fmax(f->exact.skew, 1) - 1);
}

static int fastest_at(const search_result *r, double part)
{
    int best = 0;
    for (int i = 1; i < r->n_best; i++)
        if (plan_step_at(&r->best[i], part) < plan_step_at(&r->best[best], part)) best = i;
    return best;
}

static bool first_at(const search_result *r, double part)
{
    double least = plan_step_at(&r->best[fastest_at(r, part)], part);
    return ties_equal(plan_step_at(&r->best[0], part), least); /* I2 */
}

plan_held plan_held_of(const plan_answer *p)
{
    const search_result *r = p->result;
    plan_held h = {.from = 1, .to = 1, .fits_to = 1};
    for (int i = 0; i < r->n_best; i++) h.known |= r->best[i].routed[ROUTED_EVEN].step_s > 0;
    while (h.known && h.from > 0 && first_at(r, h.from - PLAN_UNEVEN_STEP))
        h.from = fmax(0, h.from - PLAN_UNEVEN_STEP);
    while (h.known && h.to < PLAN_UNEVEN_MOST && first_at(r, h.to + PLAN_UNEVEN_STEP))
        h.to += PLAN_UNEVEN_STEP;
    while (h.fits_to < PLAN_UNEVEN_MOST &&
           bytes_at(&r->best[0], h.fits_to + PLAN_UNEVEN_STEP) <= (double)p->hw->usable)
        h.fits_to += PLAN_UNEVEN_STEP;
    h.below = fastest_at(r, 0);
    h.beyond = fastest_at(r, PLAN_UNEVEN_MOST);
    return h;
}

/* ---- what it sets */

const text_answer *plan_extras(int *n, const plan_answer *p, arena *a)
{
    recipe *r = ARENA_NEW(a, recipe);
    text_answer *list = ARENA_ARRAY(a, text_answer, K_COUNT);
    search_recipe(r, p->result, p->given, &p->result->best[0].c);
    *n = 0;
    for (knob_id k = 0; k < K_COUNT; k++) {
        const setting *now = &r->knob[k], *before = &p->given->knob[k];
        bool same = before->from == FROM_USER && value_equal(before->v, now->v) &&
                    !text_equal(before->why, RULES_WHY);
        bool empty = now->v.kind == V_NULL || (now->v.kind == V_LIST && !now->v.list.n);
        bool ours = now->from == FROM_USER && (!same || k == K_ALLOC_CONF) && !axis_in_row(k);
        if (!ours || (empty && before->from != FROM_USER)) continue;
        list[(*n)++] = (text_answer){knobs[k].key, value_text(a, now->v)};
    }
    return list;
}

void plan_answer_first(first_answer *out, const plan_answer *p, arena *a)
{
    const found *f = &p->result->best[0];
    plan_held h = plan_held_of(p);
    out->sets = plan_extras(&out->n_sets, p, a);
    if (!h.known) return;
    robust_answer *x = ARENA_NEW(a, robust_answer);
    *x = (robust_answer){plan_skew_at(f, h.from), plan_skew_at(f, h.to), h.below + 1, h.beyond + 1,
                         plan_skew_at(f, h.fits_to)};
    out->robust = x;
}

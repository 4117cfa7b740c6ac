/* plan_first.c - what the first row of a plan wins for: over which routings it stays first, how
 * much of the load its memory holds, and what it sets beyond its row.
 *
 * I1  Routing is given in parts of the unevenness that is assumed: 0 is balanced, 1 as assumed, 2
 *     twice as uneven. A rank's load, and so a step and its memory, is a line between two of them.
 * I2  "First" is meant as the list means it: no row is faster than its equals are. */
#include <math.h>
#include <stdio.h>

#include "cli/plan.h"
#include "plan/search_ties.h"

static const double STEP = 0.05, MOST = 2;

typedef struct held {
    bool known;
    double from, to;   /* of unevenness: where number 1 stays first */
    int below, beyond; /* the fastest rows where balanced, and where twice as uneven */
    double fits_to;    /* so uneven at most its memory fits; MOST or above: always */
} held;

static double between(double even, double now, double uneven, double part)
{
    return part < 1 ? even + (now - even) * part : now + (uneven - now) * (part - 1);
}

static double step_at(const found *f, double part)
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

static double skew_at(const found *f, double part)
{
    return 1 + part * (fmax(f->exact.skew, 1) - 1);
}

static int fastest_at(const search_result *r, double part)
{
    int best = 0;
    for (int i = 1; i < r->n_best; i++)
        if (step_at(&r->best[i], part) < step_at(&r->best[best], part)) best = i;
    return best;
}

static bool first_at(const search_result *r, double part)
{
    double least = step_at(&r->best[fastest_at(r, part)], part);
    return ties_equal(step_at(&r->best[0], part), least); /* I2 */
}

static held look(const plan_answer *p)
{
    const search_result *r = p->result;
    held h = {.from = 1, .to = 1, .fits_to = 1};
    for (int i = 0; i < r->n_best; i++) h.known |= r->best[i].routed[ROUTED_EVEN].step_s > 0;
    while (h.known && h.from > 0 && first_at(r, h.from - STEP)) h.from = fmax(0, h.from - STEP);
    while (h.known && h.to < MOST && first_at(r, h.to + STEP)) h.to += STEP;
    while (h.fits_to < MOST && bytes_at(&r->best[0], h.fits_to + STEP) <= (double)p->hw->usable)
        h.fits_to += STEP;
    h.below = fastest_at(r, 0);
    h.beyond = fastest_at(r, MOST);
    return h;
}

/* ---- what it sets */

/* Each knob that the winner sets, nobody asked for, and no word of the row stands for. */
static const text_answer *extras(int *n, const plan_answer *p, arena *a)
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

/* ---- printed */

static const char *other_text(const plan_answer *p, int row, double part, arena *a)
{
    const found *f = &p->result->best[row], *first = &p->result->best[0];
    return arena_text(a, "number %d is %.1f %% faster where it is %s", row + 1,
                      100 * (step_at(first, part) / step_at(f, part) - 1),
                      part > 0 ? "twice as uneven" : "balanced");
}

static void say_range(const plan_answer *p, const held *h, arena *a)
{
    const found *f = &p->result->best[0];
    bool below = h->from > 0, beyond = h->to < MOST - STEP / 2;
    cli_print("Robust",
              "number 1 stays first of these rows for routing from %s to %.3g times as uneven as "
              "assumed (skew %.2f to %.2f)\n",
              below ? arena_text(a, "%.2g", h->from) : "balanced", h->to, skew_at(f, h->from),
              skew_at(f, h->to));
    if (below) printf("         %s\n", other_text(p, h->below, 0, a));
    if (beyond) printf("         %s\n", other_text(p, h->beyond, MOST, a));
    if (h->fits_to < MOST - STEP / 2)
        printf("         its memory is enough, headroom included, up to a skew of %.2f\n",
               skew_at(f, h->fits_to));
}

void plan_print_first(const plan_answer *p, arena *a)
{
    const found *f = &p->result->best[0];
    held h = look(p);
    int n_sets;
    const text_answer *sets = extras(&n_sets, p, a);
    if (f->before)
        cli_print("First",
                  "number 1 is %.2g %% slower than number %d and comes before it: %s, and "
                  "it needs less memory\n",
                  100 * (f->exact.step_s / p->result->best[f->behind].exact.step_s - 1),
                  f->behind + 1, f->before);
    if (h.known) say_range(p, &h, a);
    if (n_sets) cli_print("Sets", "number 1 sets beyond what its row says:\n");
    for (int i = 0; i < n_sets; i++) printf("         %s=%s\n", sets[i].name, sets[i].text);
    if (f->before || h.known || n_sets) printf("\n");
}

void plan_answer_first(first_answer *out, const plan_answer *p, arena *a)
{
    const found *f = &p->result->best[0];
    held h = look(p);
    out->sets = extras(&out->n_sets, p, a);
    if (!h.known) return;
    robust_answer *x = ARENA_NEW(a, robust_answer);
    *x = (robust_answer){skew_at(f, h.from), skew_at(f, h.to), h.below + 1, h.beyond + 1,
                         skew_at(f, h.fits_to)};
    out->robust = x;
}

/* plan_first.c - what the first row of a plan wins for (library/plan_first.c), printed. */
#include <stdio.h>

#include "cli/plan.h"

static const char *other_text(const plan_answer *p, int row, double part, arena *a)
{
    const found *f = &p->result->best[row], *first = &p->result->best[0];
    return arena_text(a, "number %d is %.1f %% faster where it is %s", row + 1,
                      100 * (plan_step_at(first, part) / plan_step_at(f, part) - 1),
                      part > 0 ? "twice as uneven" : "balanced");
}

static void say_range(const plan_answer *p, const plan_held *h, arena *a)
{
    const found *f = &p->result->best[0];
    bool below = h->from > 0, beyond = h->to < PLAN_UNEVEN_MOST - PLAN_UNEVEN_STEP / 2;
    cli_print("Robust",
              "number 1 stays first of these rows for routing from %s to %.3g times as uneven as "
              "assumed (skew %.2f to %.2f)\n",
              below ? arena_text(a, "%.2g", h->from) : "balanced", h->to, plan_skew_at(f, h->from),
              plan_skew_at(f, h->to));
    if (below) printf("         %s\n", other_text(p, h->below, 0, a));
    if (beyond) printf("         %s\n", other_text(p, h->beyond, PLAN_UNEVEN_MOST, a));
    if (h->fits_to < PLAN_UNEVEN_MOST - PLAN_UNEVEN_STEP / 2)
        printf("         its memory is enough, headroom included, up to a skew of %.2f\n",
               plan_skew_at(f, h->fits_to));
}

void plan_print_first(const plan_answer *p, arena *a)
{
    const found *f = &p->result->best[0];
    plan_held h = plan_held_of(p);
    int n_sets;
    const text_answer *sets = plan_extras(&n_sets, p, a);
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

/* report_compare.c - a recipe beside others, for the report's page: single changes, its memory
 * ladder, and the fastest layouts of its job for each amount of free memory. */
#include "base/clock.h"
#include "cli/plan.h"
#include "cli/report.h"
#include "plan/changes.h"
#include "report/ladder.h"
#include "plan/against.h"

enum { CHANGES = 10 };

static const rung_answer *ladder_of(int *n, const report_job *j, const price *p, try_budget *budget,
                                    arena *a)
{
    rung rungs[RUNGS_MAX];
    rung_answer *list = ARENA_ARRAY(a, rung_answer, RUNGS_MAX);
    ladder_job asked = {.given = j->given, .resolved = &j->s->j, .now = p, .hw = j->hw};
    asked.o = j->o;
    asked.budget = budget;
    *n = report_ladder(rungs, &asked, a);
    for (int i = 0; i < *n; i++)
        list[i] = (rung_answer){rungs[i].name,   rungs[i].words,      rungs[i].own,
                                rungs[i].step_s, rungs[i].peak_bytes, rungs[i].fits};
    return list;
}

/* The job of the recipe, searched. Where nothing can be, the page says why. */
static void search_job(page_searched_answer *out, const report_job *j, double until, arena *a)
{
    recipe *wanted = ARENA_NEW(a, recipe);
    search_result *r = ARENA_NEW(a, search_result);
    error err = {{0}};
    against_open(wanted, j->given);
    for (knob_id k = 0; k < K_COUNT; k++) { /* what a search must know, as it was resolved */
        bool asked = k == K_N_GPUS || k == K_SEQ || k == K_GBS || k == K_GPU;
        if (asked) recipe_set(wanted, k, j->s->r.knob[k].v, "the recipe's");
    }
    search_options so = {.hw = j->hw, .until = until, .best = 3};
    if (j->o) so.prices = *j->o;
    status st = search_run(r, wanted, &so, a, &err);
    if (st) {
        out->front_why_not = arena_text(a, "%s", err.text);
        return;
    }
    out->front = answer_rows(r->front, out->n_front = r->n_front, a);
    out->best = answer_rows(r->best, out->n_best = r->n_best, a);
}

const page_compared_answer *report_comparisons(const report_job *j, const price *p, arena *a)
{
    double third = j->seconds / 3;
    try_budget rungs = {.left = TRY_SECONDS(third)}, budget = rungs;
    change_job asked = {j->given, p, j->hw, j->o, &budget};
    price_change *changes = ARENA_ARRAY(a, price_change, CHANGES);
    page_compared_answer *x = ARENA_NEW(a, page_compared_answer);
    page_searched_answer *of_job = ARENA_NEW(a, page_searched_answer);
    x->n_changes = price_changes(changes, CHANGES, &asked, a);
    x->changes = changes;
    if (j->winner) return x;
    of_job->ladder = ladder_of(&of_job->n_ladder, j, p, &rungs, a);
    search_job(of_job, j, clock_seconds() + third, a);
    x->searched = of_job;
    return x;
}

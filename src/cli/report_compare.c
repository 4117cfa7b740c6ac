/* report_compare.c - a recipe beside others, for the report's page: its memory ladder, single
 * changes, and the fastest layouts of its job for each amount of free memory. */
#include "base/clock.h"
#include "cli/plan.h"
#include "cli/report.h"
#include "plan/changes.h"
#include "report/ladder.h"
#include "plan/against.h"

enum { CHANGES = 10 };

static json_t *json_ladder(const report_job *j, const price *p, try_budget *budget, arena *a)
{
    rung rungs[RUNGS_MAX];
    ladder_job asked = {.given = j->given, .resolved = &j->s->j, .now = p, .hw = j->hw};
    asked.o = j->o;
    asked.budget = budget;
    int n = report_ladder(rungs, &asked, a);
    json_t *list = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(
            list, json_pack("{s:s, s:s, s:b, s:f, s:I, s:b}", "recompute", rungs[i].name, "change",
                            rungs[i].words, "own", rungs[i].own, "step_s", rungs[i].step_s,
                            "peak_bytes", (json_int_t)rungs[i].peak_bytes, "fits", rungs[i].fits));
    return list;
}

static json_t *json_changes(const report_job *j, const price *p, try_budget *budget, arena *a)
{
    price_change changes[CHANGES];
    change_job asked = {j->given, p, j->hw, j->o, budget};
    int n = price_changes(changes, CHANGES, &asked, a);
    json_t *list = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(
            list, json_pack("{s:s, s:f, s:f, s:I, s:b}", "change", changes[i].words, "gain",
                            changes[i].gain, "step_s", changes[i].step_s, "peak_bytes",
                            (json_int_t)changes[i].peak_bytes, "fits", changes[i].fits));
    return list;
}

static json_t *json_found(const found *list, int n, arena *a)
{
    const row_answer *rows = plan_rows_answer(list, n, a);
    return fields_list(row_answer_fields(), rows, sizeof *rows, n);
}

/* The job of the recipe, searched. Where nothing can be, the page says why. */
static void add_front(json_t *o, const report_job *j, double until, arena *a)
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
    if (st) json_object_set_new(o, "front_why_not", json_string(err.text));
    json_object_set_new(o, "front", json_found(r->front, st ? 0 : r->n_front, a));
    json_object_set_new(o, "best", json_found(r->best, st ? 0 : r->n_best, a));
}

void report_add_comparisons(json_t *o, const report_job *j, const price *p, arena *a)
{
    double third = j->seconds / 3;
    try_budget rungs = {.left = TRY_SECONDS(third)}, changes = rungs;
    json_object_set_new(o, "ladder", json_ladder(j, p, &rungs, a));
    json_object_set_new(o, "changes", json_changes(j, p, &changes, a));
    add_front(o, j, clock_seconds() + third, a);
}

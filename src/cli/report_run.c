/* report_run.c - what a run's folder holds, for the report's page.
 *
 * I1  A page stays small: of many iterations LINES_MAX are shown, evenly chosen, the last one
 *     always; loads of experts are whole numbers of a thousandth of their mean. */
#include "cli/report_run.h"

#include <math.h>
#include <string.h>

#include "predict/measured.h"
#include "predict/routing.h"
#include "report/run_schedule.h"

enum { LINES_MAX = 2000, LOADS_MAX = 40000 };

static json_t *number(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

static json_t *json_lines(const run_lines *l)
{
    json_t *list = json_array();
    int64_t shown = l->n < LINES_MAX ? l->n : LINES_MAX;
    for (int64_t i = 0; i < shown; i++) { /* I1 */
        const run_line *x = &l->list[shown > 1 ? i * (l->n - 1) / (shown - 1) : l->n - 1];
        json_t *row = json_array();
        json_array_append_new(row, json_integer(x->iteration));
        const double numbers[] = {x->loss, x->norm, x->lr, x->seconds};
        for (int k = 0; k < 4; k++) json_array_append_new(row, number(numbers[k]));
        json_array_append_new(list, row);
    }
    return list;
}

static json_t *json_validation(const run_lines *l)
{
    json_t *list = json_array();
    int64_t shown = l->n_validations < LINES_MAX ? l->n_validations : LINES_MAX;
    for (int64_t i = l->n_validations - shown; i < l->n_validations; i++)
        json_array_append_new(list,
                              json_pack("[f, f]", l->validation[2 * i], l->validation[2 * i + 1]));
    return list;
}

static const page_routing_answer *loads_of(const routing *r, arena *a)
{
    page_routing_answer *x = ARENA_NEW(a, page_routing_answer);
    page_loads_answer *layers = ARENA_ARRAY(a, page_loads_answer, r->n);
    *x = (page_routing_answer){r->experts, r->steps, 0, layers, 0};
    for (int64_t i = 0; i < r->n && i * r->experts < LOADS_MAX; i++) {
        int64_t *list = ARENA_ARRAY(a, int64_t, r->experts);
        double sum = 0;
        for (int64_t e = 0; e < r->experts; e++) sum += r->layers[i].loads[e];
        for (int64_t e = 0; e < r->experts && sum > 0; e++)
            list[e] = llround(1000 * r->layers[i].loads[e] * (double)r->experts / sum);
        layers[x->n_layers++] = (page_loads_answer){r->layers[i].layer, list, r->experts};
    }
    x->left_out = r->n - x->n_layers;
    return x;
}

/* The summary without what the page has elsewhere. */
static json_t *json_summary(const json_t *summary)
{
    json_t *o = json_copy((json_t *)(uintptr_t)summary);
    json_object_del(o, "knobs");
    json_object_del(o, "step_seconds");
    json_object_del(o, "delay_seconds");
    return o;
}

status report_json_run(json_t **out, const run_folder *f, const setup *s, arena *a, error *err)
{
    double *steps;
    trace t;
    report_schedule shown;
    routing r;
    int64_t n = run_steps(f, &steps, a), from = n > LINES_MAX ? n - LINES_MAX : 0;
    page_run_answer x = {.path = f->path,
                         .all_lines = f->lines.n,
                         .steps = steps + from,
                         .n_steps = (int)(n - from)};
    status st = f->trace ? trace_read(&t, f->trace, a, err) : OK;
    if (!st && f->trace && run_schedule(&shown, &t, s, a))
        x.schedule = report_schedule_answer(&shown, a);
    if (!st && f->routing) st = routing_read(&r, f->routing, a, err);
    if (st) return st;
    if (f->routing) x.loads = loads_of(&r, a);
    x.lines = json_lines(&f->lines);
    x.validation = json_validation(&f->lines);
    if (f->summary) x.summary = json_summary(f->summary);
    *out = answer_json(page_run_answer, &x);
    return OK;
}

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

/* Of each expert, in thousandths of its layer's mean. */
static json_t *json_expert_loads(const routing *r)
{
    json_t *layers = json_array();
    for (int64_t i = 0; i < r->n && i * r->experts < LOADS_MAX; i++) {
        json_t *list = json_array();
        double sum = 0;
        for (int64_t e = 0; e < r->experts; e++) sum += r->layers[i].loads[e];
        for (int64_t e = 0; e < r->experts; e++)
            json_array_append_new(list,
                                  json_integer(sum > 0 ? llround(1000 * r->layers[i].loads[e] *
                                                                 (double)r->experts / sum)
                                                       : 0));
        json_array_append_new(layers, json_pack("{s:I, s:o}", "layer",
                                                (json_int_t)r->layers[i].layer, "loads", list));
    }
    return json_pack("{s:I, s:I, s:I, s:o}", "experts", (json_int_t)r->experts, "steps",
                     (json_int_t)r->steps, "left_out",
                     (json_int_t)(r->n - (int64_t)json_array_size(layers)), "layers", layers);
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

static status add_trace(json_t *o, const run_folder *f, const setup *s, arena *a, error *err)
{
    trace t;
    report_schedule x;
    status st = trace_read(&t, f->trace, a, err);
    if (st) return st;
    if (run_schedule(&x, &t, s, a)) json_object_set_new(o, "schedule", report_json_schedule(&x));
    return OK;
}

static status add_loads(json_t *o, const run_folder *f, arena *a, error *err)
{
    routing r;
    status st = routing_read(&r, f->routing, a, err);
    if (!st) json_object_set_new(o, "loads", json_expert_loads(&r));
    return st;
}

status report_json_run(json_t **out, const run_folder *f, const setup *s, arena *a, error *err)
{
    json_t *o = json_object();
    double *steps;
    json_t *list = json_array();
    int64_t n = run_steps(f, &steps, a);
    for (int64_t i = n > LINES_MAX ? n - LINES_MAX : 0; i < n; i++)
        json_array_append_new(list, json_real(steps[i]));
    json_object_set_new(o, "path", json_string(f->path));
    json_object_set_new(o, "lines", json_lines(&f->lines));
    json_object_set_new(o, "all_lines", json_integer(f->lines.n));
    json_object_set_new(o, "validation", json_validation(&f->lines));
    json_object_set_new(o, "steps", list);
    if (f->summary) json_object_set_new(o, "summary", json_summary(f->summary));
    status st = f->trace ? add_trace(o, f, s, a, err) : OK;
    if (!st && f->routing) st = add_loads(o, f, a, err);
    if (st) {
        json_decref(o);
        return st;
    }
    *out = o;
    return OK;
}

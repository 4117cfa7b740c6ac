/* report_data.c - what the report's page shows of one recipe.
 *
 * I1  Times of units are whole numbers of TICKS a step, each from the end of the one before: most
 *     are small, and a schedule of thousands of microbatches fits into a page. */
#include <math.h>

#include "cli/report.h"
#include "cli/verdict.h"
#include "report/schedule.h"

static const double TICKS = 1e7;

/* ---- schedule */

static void put(json_t *list, int64_t n)
{
    json_array_append_new(list, json_integer(n));
}

static int64_t ticks(double seconds, double step)
{
    return (int64_t)llround(seconds / step * TICKS);
}

/* gap, length, kind and chunk, microbatch; of a pair also chunk and microbatch of its backward. */
static json_t *json_units(const report_stage *s, double step)
{
    json_t *list = json_array();
    int64_t end = 0; /* I1 */
    for (int64_t i = 0; i < s->n; i++) {
        const report_unit *u = &s->units[i];
        int64_t from = ticks(u->start, step), to = ticks(u->end, step);
        put(list, from - end);
        put(list, to - from);
        put(list, (int64_t)u->kind + UNIT_KINDS * u->chunk);
        put(list, u->micro);
        if (u->kind == UNIT_PAIR) {
            put(list, u->with_chunk);
            put(list, u->with_micro);
        }
        end = to;
    }
    return list;
}

json_t *report_json_schedule(const report_schedule *x)
{
    json_t *stages = json_array();
    double step = x->step.step_s;
    for (int64_t i = 0; i < x->n_stages; i++) {
        const report_stage *s = &x->stages[i];
        json_array_append_new(stages,
                              json_pack("{s:I, s:I, s:I, s:o}", "rank", (json_int_t)s->rank,
                                        "left_out", (json_int_t)s->left_out, "left_at",
                                        (json_int_t)s->left_at, "units", json_units(s, step)));
    }
    return json_pack("{s:f, s:f, s:f, s:f, s:o}", "ticks", TICKS, "step_s", step, "optimizer_at",
                     x->step.all_end, "optimizer_s", x->step.optimizer, "stages", stages);
}

/* ---- memory */

static json_t *json_memory(const report_schedule *x, arena *a)
{
    const price *p = &x->p;
    json_t *saved = json_array(), *temp = json_array();
    int n_parts;
    const peak_part *parts = answer_peak(&n_parts, &p->memory, p->megatron ? NULL : p->bytes, a);
    json_t *regions = fields_list(peak_part_fields(), parts, sizeof *parts, n_parts);
    for (int64_t i = 0; i < x->n_memory; i++) {
        put(saved, x->memory[i].saved);
        put(temp, x->memory[i].temp);
    }
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:o}", "rank",
                     (json_int_t)p->fullest, "stage", (json_int_t)x->fullest, "peak_bytes",
                     (json_int_t)p->peak_bytes, "usable_bytes", (json_int_t)p->usable, "beside",
                     (json_int_t)p->graph_pools, "on_host", (json_int_t)p->host_bytes, "regions",
                     regions, "saved", saved, "temporaries", temp);
}

/* ---- time */

static json_t *json_parts(const price *p)
{
    json_t *list = json_array();
    step_part parts[STEP_PARTS];
    price_parts(parts, p);
    for (int i = 0; i < STEP_PARTS; i++)
        json_array_append_new(list, json_pack("{s:s, s:s, s:f, s:f, s:b}", "name", parts[i].name,
                                              "title", parts[i].title, "seconds", parts[i].seconds,
                                              "hidden", parts[i].hidden, "exposed",
                                              i >= COST_TP && i <= COST_COPY));
    return list;
}

static json_t *json_price(const price *p)
{
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:b, s:I, s:s, s:s}", "step_s", p->step_s,
                     "tokens_per_s_per_gpu", p->tokens_per_s_per_gpu, "tflops_per_gpu",
                     p->tflops_per_gpu, "mfu_bf16", p->mfu_bf16, "mfu_precision", p->mfu_precision,
                     "fits", p->fits, "slowest", (json_int_t)p->slowest, "wall", wall_name(p->wall),
                     "evidence", p->evidence);
}

json_t *report_json(const report_job *j, bool *fits, arena *a)
{
    const setup *s = j->s;
    report_schedule *x = ARENA_NEW(a, report_schedule);
    not_priced left_out[NOT_PRICED_MAX];
    report_simulation(x, &(price_job){s, j->hw, j->o}, a);
    int n_left_out = price_leaves_out(left_out, &s->r, a);
    *fits = x->p.fits;
    json_t *o = json_object(), *notes = json_array();
    for (int i = 0; i < s->r.n_notes; i++) json_array_append_new(notes, json_string(s->r.notes[i]));
    json_object_set_new(o, "recipe", json_string(s->r.name));
    json_object_set_new(o, "gpu", json_string(j->hw->name));
    const times_answer *times = cli_times_answer(&s->j, j->hw, a);
    if (times) json_object_update_new(o, answer_json(times_answer, times));
    json_object_set_new(o, "model", answer_json(model_answer, answer_model(s, a)));
    json_object_set_new(o, "global_batch_size", json_integer(recipe_int(&s->r, K_GBS)));
    json_object_set_new(o, "price", json_price(&x->p));
    json_object_set_new(o, "parts", json_parts(&x->p));
    json_object_set_new(o, "memory", json_memory(x, a));
    json_object_set_new(o, "schedule", report_json_schedule(x));
    json_object_set_new(o, "layout", report_json_layout(s));
    json_object_set_new(o, "stages", report_json_stages(s));
    json_object_set_new(o, "knobs", report_json_knobs(s, a));
    json_object_set_new(o, "notes", notes);
    json_object_set_new(o, "violations", cli_json_violations(j->found, a));
    json_object_set_new(o, "not_priced", cli_json_not_priced(left_out, n_left_out));
    if (j->seconds > 0) report_add_comparisons(o, j, &x->p, a);
    return o;
}

/* report_data.c - what the report's page shows of one recipe.
 *
 * I1  Times of units are whole numbers of TICKS a step, each from the end of the one before: most
 *     are small, and a schedule of thousands of microbatches fits into a page. */
#include <math.h>

#include "answer/price.h"
#include "cli/report.h"
#include "cli/verdict.h"
#include "predict/bands.h"
#include "report/schedule.h"

static const double TICKS = 1e7;

/* ---- schedule */

static int64_t ticks(double seconds, double step)
{
    return (int64_t)llround(seconds / step * TICKS);
}

/* gap, length, kind and chunk, microbatch; of a pair also chunk and microbatch of its backward. */
static const int64_t *units_of(int64_t *n, const report_stage *s, double step, arena *a)
{
    int64_t *list = ARENA_ARRAY(a, int64_t, 6 * s->n);
    int64_t end = 0; /* I1 */
    *n = 0;
    for (int64_t i = 0; i < s->n; i++) {
        const report_unit *u = &s->units[i];
        int64_t from = ticks(u->start, step), to = ticks(u->end, step);
        list[(*n)++] = from - end;
        list[(*n)++] = to - from;
        list[(*n)++] = (int64_t)u->kind + UNIT_KINDS * u->chunk;
        list[(*n)++] = u->micro;
        if (u->kind == UNIT_PAIR) {
            list[(*n)++] = u->with_chunk;
            list[(*n)++] = u->with_micro;
        }
        end = to;
    }
    return list;
}

const page_schedule_answer *report_schedule_answer(const report_schedule *x, arena *a)
{
    page_schedule_answer *out = ARENA_NEW(a, page_schedule_answer);
    page_units_answer *stages = ARENA_ARRAY(a, page_units_answer, x->n_stages);
    double step = x->step.step_s;
    for (int64_t i = 0; i < x->n_stages; i++) {
        const report_stage *s = &x->stages[i];
        stages[i] = (page_units_answer){s->rank, s->left_out, s->left_at, NULL, 0};
        stages[i].units = units_of(&stages[i].n_units, s, step, a);
    }
    *out = (page_schedule_answer){TICKS,           step, x->step.all_end, x->step.optimizer, stages,
                                  (int)x->n_stages};
    return out;
}

/* ---- memory */

static const page_memory_answer *memory_of(const report_schedule *x, arena *a)
{
    const price *p = &x->p;
    int64_t *saved = ARENA_ARRAY(a, int64_t, x->n_memory);
    int64_t *temp = ARENA_ARRAY(a, int64_t, x->n_memory);
    for (int64_t i = 0; i < x->n_memory; i++) {
        saved[i] = x->memory[i].saved;
        temp[i] = x->memory[i].temp;
    }
    page_memory_answer *out = ARENA_NEW(a, page_memory_answer);
    *out = (page_memory_answer){.rank = p->fullest,
                                .stage = x->fullest,
                                .peak_bytes = p->peak_bytes,
                                .usable_bytes = p->usable,
                                .beside = p->graph_pools,
                                .on_host = p->host_bytes,
                                .saved = saved,
                                .n_saved = x->n_memory,
                                .temporaries = temp,
                                .n_temporaries = x->n_memory};
    out->regions = answer_peak(&out->n_regions, &p->memory, p->megatron ? NULL : p->bytes, a);
    return out;
}

/* ---- all of it */

static const char *what_of(int part)
{
    if (part >= COST_TP && part <= COST_COPY) return "communication";
    bool busy = part < COST_KINDS || part == COST_KINDS + 2 || part == COST_KINDS + 3;
    return busy ? "compute" : "waiting"; /* the optimizer, and compute that is slowed */
}

json_t *report_json(const report_job *j, bool *fits, arena *a)
{
    const setup *s = j->s;
    report_schedule *x = ARENA_NEW(a, report_schedule);
    not_priced left_out[NOT_PRICED_MAX];
    report_simulation(x, &(price_job){s, j->hw, j->o}, a);
    const price *p = &x->p;
    *fits = p->fits;
    step_part parts[STEP_PARTS];
    page_part_answer shown[STEP_PARTS];
    price_parts(parts, p);
    for (int i = 0; i < STEP_PARTS; i++)
        shown[i] = (page_part_answer){.name = parts[i].name,
                                      .title = parts[i].title,
                                      .what = what_of(i),
                                      .seconds = parts[i].seconds,
                                      .hidden = parts[i].hidden};
    const priced_band_answer *band = answer_band(p, &(price_job){s, j->hw, j->o}, a);
    const page_price_answer priced = {.step_s = p->step_s,
                                      .tokens_per_s_per_gpu = p->tokens_per_s_per_gpu,
                                      .tflops_per_gpu = p->tflops_per_gpu,
                                      .mfu_bf16 = p->mfu_bf16,
                                      .mfu_precision = p->mfu_precision,
                                      .fits = p->fits,
                                      .slowest = p->slowest,
                                      .wall = wall_name(p->wall),
                                      .evidence = p->evidence,
                                      .priced_band = band,
                                      .change_band = band ? exp(band_of_difference(1)) - 1 : NAN};
    page_answer page = {.recipe = s->r.name,
                        .words = j->words,
                        .gpu = j->hw->name,
                        .times = answer_times(&s->j, j->hw, a),
                        .model = answer_model(s, a),
                        .global_batch_size = s->j.gbs,
                        .price = &priced,
                        .parts = shown,
                        .n_parts = STEP_PARTS,
                        .memory = memory_of(x, a),
                        .schedule = report_schedule_answer(x, a),
                        .layout = report_layout_answer(s, a),
                        .copies = report_copies_answer(j->given, s, a),
                        .knobs = report_knobs_answer(s, a),
                        .notes = answer_texts(s->r.notes, s->r.n_notes, a),
                        .not_priced = left_out,
                        .n_not_priced = price_leaves_out(left_out, &s->r, a),
                        .compared = j->seconds > 0 ? report_comparisons(j, p, a) : NULL};
    page.stages = report_stages_answer(&page.n_stages, s, a);
    page.violations = answer_violations(&page.n_violations, j->found, a);
    return answer_json(page_answer, &page);
}

/* run_folder.c - `train --run DIR`: what a run was, in one folder (docs/RUNS.md).
 *
 *     recipe.yaml     what was asked for
 *     metrics.jsonl   a line for every iteration line, validation and checkpoint
 *     trace.json.gz   the operations of some steps (docs/TRACE.md)
 *     routing.json    tokens of each expert, where there are experts
 *     summary.json    how it ended, times of steps, memory, traffic, predicted beside measured
 *
 * I1  A folder belongs to one run. Another one's is refused by name; the same run goes on in it
 *     after a stop, as the same job does in its folder of checkpoints. It begins anew there if it
 *     was ended before its first checkpoint.
 * I2  Each file is whole or not there, but for metrics, whose last line may be cut by a crash. */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "answer/answer.h"
#include "predict/machine.h"
#include "base/file.h"
#include "predict/measured.h"
#include "config/export.h"
#include "backend/comm/agree.h"
#include "train/loop/state.h"
#include "report/compare_runs.h"

enum { RECIPE_BYTES_MAX = 1 << 20 };

static const char *path_in(const trainer *t, const char *name)
{
    return arena_text(t->a, "%s/%s", t->o->run, name);
}

/* ---- whose folder is it? */

static bool is_empty(const char *folder)
{
    DIR *d = opendir(folder);
    bool empty = true;
    for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d))
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) empty = false;
    if (d) closedir(d);
    return empty;
}

static status same_recipe(const trainer *t, const char *path, error *err)
{
    char *text;
    size_t n;
    TRY(file_read(t->a, path, RECIPE_BYTES_MAX, &text, &n, err));
    const stored_recipe stored = {.path = path, .text = text};
    return stored_same_run(&stored, &t->s->r, t->o->run, err);
}

static status claim(const trainer *t, error *err)
{
    const char *folder = t->o->run, *own = path_in(t, "recipe.yaml");
    status s = file_make_folder(folder, err);
    if (s) return error_prefix(err, s, "--run %s", folder);
    if (is_empty(folder)) return OK;
    if (!file_exists(own))
        return error_set(err, ERR_INPUT,
                         "--run %s: the folder is not empty and holds no run (no recipe.yaml); "
                         "repair: name another folder",
                         folder);
    bool ended_early = job_has(&t->s->j, K_SAVE) && !file_exists(path_in(t, "summary.json"));
    if (t->at.iteration > 0 || ended_early) return same_recipe(t, own, err); /* I1 */
    return error_set(err, ERR_INPUT,
                     "--run %s: the folder belongs to another run (%s); repair: name another "
                     "folder, or resume that run (checkpoint.load)",
                     folder, own);
}

static status open_here(const trainer *t, error *err)
{
    textbuf text = text_init(t->a);
    TRY(claim(t, err));
    text_add(&text, "# %s, as run by `moefold train --run %s`\n", t->s->r.name, t->o->run);
    export_yaml(&t->s->r, false, &text);
    remove(path_in(t, "summary.json")); /* of the part before: this one has not ended */
    return file_write(path_in(t, "recipe.yaml"), text.s, text.n, err);
}

status trainer_folder_open(trainer *t, error *err)
{
    if (!t->o->run) return OK;
    TRY(ranks_agree(t->c, comm_rank(t->c) == 0 ? open_here(t, err) : OK, err));
    t->step_seconds = ARENA_ARRAY(t->a, double, STEPS_KEPT);
    t->step_delays = ARENA_ARRAY(t->a, double, STEPS_KEPT);
    t->delay_file = system_delay_open();
    return OK;
}

void trainer_folder_begin(trainer *t)
{
    if (t->step_seconds) t->delayed = system_delay(t->delay_file);
}

/* The first step is not counted: pages are touched and threads started there. */
void trainer_folder_step(trainer *t, double seconds)
{
    if (!t->step_seconds) return;
    double delay = system_delay(t->delay_file) - t->delayed;
    t->step_delays[t->steps_timed % STEPS_KEPT] = fmin(delay, seconds);
    t->step_seconds[t->steps_timed++ % STEPS_KEPT] = seconds;
    if (t->steps_timed == 1) t->counted[COUNT_FIRST] = system_count_now();
}

/* Of the steps behind the first, in the mean over ranks. Collective. */
static double delay_of(const trainer *t)
{
    double steps = (double)(t->steps_timed - 1);
    double sum = t->counted[COUNT_END].waited - t->counted[COUNT_FIRST].waited;
    sum = steps > 0 ? sum / steps : 0;
    comm_sum(t->c, GROUP_WORLD, &sum, 1);
    return sum / (double)comm_size(t->c);
}

/* Cores that no rank had in those steps and other programs did, in the mean; -1: the ranks are on
 * several machines, or nothing counts it. Collective. */
static double others_of(const trainer *t)
{
    const system_count *first = &t->counted[COUNT_FIRST], *end = &t->counted[COUNT_END];
    bool counts = !comm_shares_process(t->c) || comm_rank(t->c) == 0;
    double used = counts ? end->used - first->used : 0;
    comm_sum(t->c, GROUP_WORLD, &used, 1);
    if (comm_local(t->c) != comm_size(t->c) || first->busy <= 0 || end->at <= first->at) return -1;
    return fmax(0, (end->busy - first->busy - used) / (end->at - first->at));
}

/* ---- the summary */

/* In their order; the first of the run is left out where there are others. */
static const double *steps_of(int *n, const trainer *t, const double *of)
{
    int64_t all = t->steps_timed, from = all > STEPS_KEPT ? all - STEPS_KEPT : all > 1;
    double *list = ARENA_ARRAY(t->a, double, all - from);
    for (int64_t i = from; i < all; i++) list[i - from] = of[i % STEPS_KEPT];
    *n = (int)(all - from);
    return list;
}

static const traffic_answer *traffic_of(int *n, const comm_stats *s, arena *a)
{
    static const char *const levels[LEVEL_COUNT] = {"self", "node", "domain", "across"};
    traffic_answer *list = ARENA_ARRAY(a, traffic_answer, GROUP_COUNT * LEVEL_COUNT);
    *n = 0;
    for (int g = 0; g < GROUP_COUNT; g++)
        for (int l = LEVEL_NODE; l < LEVEL_COUNT; l++)
            if (s->bytes[g][l] > 0)
                list[(*n)++] =
                    (traffic_answer){comm_group_name((comm_group)g), levels[l], s->bytes[g][l]};
    return list;
}

static const stream_answer *streams_of(int *n, const comm_stats *s, arena *a)
{
    stream_answer *list = ARENA_ARRAY(a, stream_answer, STREAM_COUNT);
    *n = 0;
    for (int i = 0; i < STREAM_COUNT; i++)
        if (s->messages[i] > 0)
            list[(*n)++] = (stream_answer){op_stream_names[i], s->messages[i], s->exposed[i]};
    return list;
}

/* What the fullest rank held in the course of its last traced step. */
static const over_step_answer *over_step_of(const trainer *t)
{
    over_step_answer *x = ARENA_NEW(t->a, over_step_answer);
    int64_t *saved = ARENA_ARRAY(t->a, int64_t, 2 * ALIVE_POINTS), *temp = saved + ALIVE_POINTS;
    for (int i = 0; i < ALIVE_POINTS; i++) {
        saved[i] = t->alive[i].saved;
        temp[i] = t->alive[i].temp;
    }
    *x = (over_step_answer){t->alive_s, saved, ALIVE_POINTS, temp, ALIVE_POINTS};
    return x;
}

/* Of the rank whose arena is largest. */
static const run_memory_answer *answer_memory_of(const trainer *t, const run_memory *m)
{
    run_memory_answer *x = ARENA_NEW(t->a, run_memory_answer);
    process_answer *process = ARENA_NEW(t->a, process_answer);
    *process = (process_answer){m->in_process, m->before, m->first, m->last};
    *x = (run_memory_answer){.rank = m->rank,
                             .planned_bytes = m->planned,
                             .allocated_bytes = m->arena,
                             .host_bytes = m->host,
                             .resident_bytes = m->resident,
                             .process = process,
                             .over_step = t->alive_s > 0 ? over_step_of(t) : NULL,
                             .beside_bytes = t->outside_arena >= 0 ? t->outside_arena : FIELD_NONE};
    x->regions = answer_regions(&x->n_regions, m->bytes, t->a);
    return x;
}

static const text_answer *knobs_of(const trainer *t)
{
    text_answer *list = ARENA_ARRAY(t->a, text_answer, K_COUNT);
    for (knob_id k = 0; k < K_COUNT; k++)
        list[k] = (text_answer){knobs[k].key, recipe_shown(&t->s->r, k, t->a)};
    return list;
}

/* Collective. */
static run_memory memory_of(trainer *t)
{
    arena *scratch = arena_create();
    run_memory mine = {
        .rank = comm_rank(t->c), .planned = t->planned_bytes, .arena = t->p->arena_bytes};
    mine.host = t->p->host_bytes;
    mine.resident = system_count_now().most_resident;
    mine.before = t->counted[COUNT_START].resident;
    mine.first = t->counted[COUNT_FIRST].resident;
    mine.last = t->counted[COUNT_END].resident;
    mine.in_process = comm_shares_process(t->c) ? comm_size(t->c) : 1;
    for (int i = 0; i < REGION_COUNT; i++) mine.bytes[i] = t->p->bytes[i];
    int64_t n = comm_size(t->c), fullest = 0;
    run_memory *all = ARENA_ARRAY(scratch, run_memory, n);
    comm_collect(t->c, GROUP_WORLD, &mine, sizeof mine, all);
    for (int64_t r = 1; r < n; r++)
        if (all[r].arena > all[fullest].arena) fullest = r;
    run_memory m = all[fullest];
    comm_broadcast(t->c, GROUP_WORLD, fullest, &t->alive_s, sizeof t->alive_s);
    if (!t->alive) t->alive = ARENA_ARRAY(t->a, memory_point, ALIVE_POINTS);
    comm_broadcast(t->c, GROUP_WORLD, fullest, t->alive, ALIVE_POINTS * sizeof *t->alive);
    arena_destroy(scratch);
    return m;
}

static const run_part_answer *parts_of(int *n, const step_part *parts, arena *a)
{
    run_part_answer *list = ARENA_ARRAY(a, run_part_answer, STEP_PARTS);
    *n = 0;
    for (int i = 0; i < STEP_PARTS; i++)
        if (parts[i].seconds != 0 || parts[i].hidden != 0)
            list[(*n)++] =
                (run_part_answer){parts[i].name, parts[i].title, parts[i].seconds, parts[i].hidden};
    return list;
}

/* Predicted of the recipe as it is given, where the machine has a description, and measured, where
 * steps were traced: of the stage that is predicted to compute most, else of all ranks in the mean.
 */
static void add_parts(ended_answer *out, const trainer *t)
{
    hardware *hw = ARENA_NEW(t->a, hardware);
    price p;
    step_part parts[STEP_PARTS];
    error why = {{0}};
    int64_t rank = -1;
    status s = machine_of_setup(hw, t->given, t->a, &why);
    if (s) {
        out->unpredicted = arena_text(t->a, "%s", why.text);
    } else {
        price_setup(&p, t->given, hw, NULL, t->a);
        price_parts(parts, &p);
        rank = layout_stage_rank(&t->s->lay, p.slowest);
        run_predicted_answer *x = ARENA_NEW(t->a, run_predicted_answer);
        *x = (run_predicted_answer){.hardware = hw->path,
                                    .rank = rank,
                                    .step_s = p.step_s,
                                    .peak_bytes = p.peak_bytes,
                                    .state_copies_bytes = p.update.bytes};
        x->parts = parts_of(&x->n_parts, parts, t->a);
        out->predicted = x;
    }
    double step = t->traced ? measured_parts(parts, t->traced, rank) : 0;
    if (step <= 0) return;
    run_measured_answer *x = ARENA_NEW(t->a, run_measured_answer);
    *x = (run_measured_answer){.rank = rank,
                               .step_s = step,
                               .steps = t->traced->steps,
                               .first_step = t->traced->first_step};
    x->parts = parts_of(&x->n_parts, parts, t->a);
    out->measured = x;
}

static const char *outcome(const train_summary *sum, status st)
{
    return st ? "failed" : sum->interrupted ? "interrupted" : "finished";
}

static json_t *summary(const trainer *t, train_summary *sum, status st, const error *err)
{
    ended_answer ended;
    summary_answer x = {.moefold = "run",
                        .version = 1,
                        .recipe = t->s->r.name,
                        .model = t->s->m.name,
                        .machine = t->o->machine ? t->o->machine : "",
                        .ranks = t->s->lay.world,
                        .outcome = outcome(sum, st),
                        .error = st ? err->text : NULL,
                        .iteration = t->at.iteration,
                        .iterations = sum->iterations,
                        .skipped = sum->skipped,
                        .first_loss = sum->first_loss,
                        .last_loss = sum->last_loss,
                        .seconds = sum->seconds,
                        .tokens_per_second = sum->tokens_per_second,
                        .start = t->data ? trainer_start_json(t) : NULL,
                        .knobs = knobs_of(t),
                        .n_knobs = K_COUNT};
    x.step_seconds = steps_of(&x.n_step_seconds, t, t->step_seconds);
    x.delay_seconds = steps_of(&x.n_delay_seconds, t, t->step_delays);
    if (!st) {
        ended = (ended_answer){.delay_s = sum->delay,
                               .others_cores = sum->others < 0 ? NAN : sum->others,
                               .memory = answer_memory_of(t, &sum->memory)};
        ended.traffic = traffic_of(&ended.n_traffic, &sum->traffic, t->a);
        ended.streams = streams_of(&ended.n_streams, &sum->traffic, t->a);
        add_parts(&ended, t);
        x.ended = &ended;
        const measured_side steps = {.steps = x.step_seconds, .n = x.n_step_seconds};
        sum->step = steps.n > 0 ? compare_steps(&steps, t->a).median : 0;
        sum->predicted = ended.predicted ? ended.predicted->step_s : 0;
    }
    return answer_json(summary_answer, &x);
}

status trainer_folder_close(trainer *t, train_summary *sum, status st, error *err)
{
    if (!t->o->run || !t->step_seconds) return st;
    if (t->delay_file >= 0) close(t->delay_file);
    if (!st) sum->memory = memory_of(t);
    if (!st) sum->delay = delay_of(t);
    if (!st) sum->others = others_of(t);
    error why = {{0}};
    status s = OK;
    if (comm_rank(t->c) == 0) {
        json_t *o = summary(t, sum, st, err);
        const char *text, *path = path_in(t, "summary.json");
        s = json_print(t->a, path, o, JSON_INDENT(1) | JSON_REAL_PRECISION(9), &text, &why);
        if (!s) s = file_write(path, text, strlen(text), &why);
        json_decref(o);
    }
    if (st) return st; /* the first error is the one to report */
    if (s) *err = why;
    return ranks_agree(t->c, s, err);
}

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

#include "base/file.h"
#include "predict/measured.h"
#include "config/export.h"
#include "backend/comm/agree.h"
#include "train/loop/state.h"

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

/* ---- the summary */

static json_t *number(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

/* In their order; the first of the run is left out where there are others. */
static json_t *json_steps(const trainer *t, const double *of)
{
    json_t *list = json_array();
    int64_t n = t->steps_timed, from = n > STEPS_KEPT ? n - STEPS_KEPT : n > 1;
    for (int64_t i = from; i < n; i++) json_array_append_new(list, json_real(of[i % STEPS_KEPT]));
    return list;
}

static json_t *json_traffic(const comm_stats *s)
{
    static const char *const levels[LEVEL_COUNT] = {"self", "node", "domain", "across"};
    json_t *list = json_array();
    for (int g = 0; g < GROUP_COUNT; g++)
        for (int l = LEVEL_NODE; l < LEVEL_COUNT; l++)
            if (s->bytes[g][l] > 0)
                json_array_append_new(list, json_pack("{s:s, s:s, s:f}", "group",
                                                      comm_group_name((comm_group)g), "link",
                                                      levels[l], "bytes", s->bytes[g][l]));
    return list;
}

static json_t *json_exposed(const comm_stats *s)
{
    json_t *o = json_object();
    for (int i = 0; i < STREAM_COUNT; i++)
        if (s->messages[i] > 0)
            json_object_set_new(
                o, op_stream_names[i],
                json_pack("{s:f, s:f}", "messages", s->messages[i], "exposed_s", s->exposed[i]));
    return o;
}

/* Of the rank whose plan is largest. */
static json_t *json_memory(const run_memory *m)
{
    json_t *regions = json_object();
    for (int i = 0; i < REGION_COUNT; i++)
        if (region_is_shown(i, m->bytes[i]))
            json_object_set_new(regions, region_name((region)i), json_integer(m->bytes[i]));
    return json_pack("{s:I, s:I, s:I, s:I, s:o, s:I, s:o}", "rank", (json_int_t)m->rank,
                     "planned_bytes", (json_int_t)m->planned, "allocated_bytes",
                     (json_int_t)m->arena, "host_bytes", (json_int_t)m->host, "regions", regions,
                     "resident_bytes", (json_int_t)m->resident, "process",
                     json_pack("{s:I, s:I, s:I, s:I}", "ranks", (json_int_t)m->in_process,
                               "before_bytes", (json_int_t)m->before, "first_step_bytes",
                               (json_int_t)m->first, "last_step_bytes", (json_int_t)m->last));
}

/* What the fullest rank held in the course of its last traced step. */
static json_t *json_alive(const trainer *t)
{
    json_t *saved = json_array(), *temp = json_array();
    for (int i = 0; i < ALIVE_POINTS; i++) {
        json_array_append_new(saved, json_integer(t->alive[i].saved));
        json_array_append_new(temp, json_integer(t->alive[i].temp));
    }
    return json_pack("{s:f, s:o, s:o}", "step_s", t->alive_s, "saved", saved, "temporaries", temp);
}

static json_t *json_knobs(const trainer *t)
{
    json_t *o = json_object();
    for (knob_id k = 0; k < K_COUNT; k++)
        json_object_set_new(o, knobs[k].key, json_string(recipe_shown(&t->s->r, k, t->a)));
    return o;
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

static json_t *json_parts(const step_part *parts)
{
    json_t *list = json_array();
    for (int i = 0; i < STEP_PARTS; i++)
        if (parts[i].seconds != 0 || parts[i].hidden != 0)
            json_array_append_new(list, json_pack("{s:s, s:s, s:f, s:f}", "name", parts[i].name,
                                                  "title", parts[i].title, "seconds",
                                                  parts[i].seconds, "hidden", parts[i].hidden));
    return list;
}

/* Predicted of the recipe as it is given, where the machine has a description, and measured, where steps were traced: of the
 * stage that is predicted to compute most, else of all ranks in the mean. */
static void add_parts(json_t *o, const trainer *t)
{
    arena *a = arena_create();
    hardware hw;
    price p;
    step_part parts[STEP_PARTS];
    error why = {{0}};
    int64_t rank = -1;
    status s = timing_machine(&hw, t->given, a, &why);
    if (s) {
        json_object_set_new(o, "unpredicted", json_string(why.text));
    } else {
        price_setup(&p, t->given, &hw, NULL, a);
        price_parts(parts, &p);
        rank = layout_stage_rank(&t->s->lay, p.slowest);
        json_object_set_new(o, "predicted",
                            json_pack("{s:s, s:I, s:f, s:I, s:o, s:f}", "hardware", hw.path, "rank",
                                      (json_int_t)rank, "step_s", p.step_s, "peak_bytes",
                                      (json_int_t)p.peak_bytes, "parts", json_parts(parts),
                                      "state_copies_bytes", p.update.bytes));
    }
    double step = t->traced ? measured_parts(parts, t->traced, rank) : 0;
    if (step > 0)
        json_object_set_new(o, "measured",
                            json_pack("{s:I, s:f, s:I, s:I, s:o}", "rank", (json_int_t)rank,
                                      "step_s", step, "steps", (json_int_t)t->traced->steps,
                                      "first_step", (json_int_t)t->traced->first_step, "parts",
                                      json_parts(parts)));
    arena_destroy(a);
}

static const char *outcome(const train_summary *sum, status st)
{
    return st ? "failed" : sum->interrupted ? "interrupted" : "finished";
}

static json_t *summary(const trainer *t, const train_summary *sum, status st, const error *err)
{
    json_t *o = json_pack("{s:s, s:i, s:s, s:s, s:s, s:I, s:s}", "moefold", "run", "version", 1,
                          "recipe", t->s->r.name, "model", t->s->m.name, "machine",
                          t->o->machine ? t->o->machine : "", "ranks", (json_int_t)t->s->lay.world,
                          "outcome", outcome(sum, st));
    if (st) json_object_set_new(o, "error", json_string(err->text));
    json_object_set_new(o, "iteration", json_integer(t->at.iteration));
    json_object_set_new(o, "iterations", json_integer(sum->iterations));
    json_object_set_new(o, "skipped", json_integer(sum->skipped));
    json_object_set_new(o, "first_loss", number(sum->first_loss));
    json_object_set_new(o, "last_loss", number(sum->last_loss));
    json_object_set_new(o, "seconds", json_real(sum->seconds));
    json_object_set_new(o, "tokens_per_second", json_real(sum->tokens_per_second));
    json_object_set_new(o, "step_seconds", json_steps(t, t->step_seconds));
    json_object_set_new(o, "delay_seconds", json_steps(t, t->step_delays));
    if (t->data) json_object_set_new(o, "start", trainer_start_json(t));
    json_object_set_new(o, "knobs", json_knobs(t));
    if (st) return o;
    json_object_set_new(o, "delay_s", json_real(sum->delay));
    json_t *memory = json_memory(&sum->memory);
    if (t->alive_s > 0) json_object_set_new(memory, "over_step", json_alive(t));
    if (t->outside_arena >= 0)
        json_object_set_new(memory, "beside_bytes", json_integer(t->outside_arena));
    json_object_set_new(o, "memory", memory);
    json_object_set_new(o, "traffic", json_traffic(&sum->traffic));
    json_object_set_new(o, "streams", json_exposed(&sum->traffic));
    add_parts(o, t);
    return o;
}

status trainer_folder_close(trainer *t, train_summary *sum, status st, error *err)
{
    if (!t->o->run || !t->step_seconds) return st;
    if (t->delay_file >= 0) close(t->delay_file);
    if (!st) sum->memory = memory_of(t);
    if (!st) sum->delay = delay_of(t);
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

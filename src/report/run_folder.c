/* run_folder.c - files of a run, judged.
 *
 * I1  What is taken is whole: iterations from 1 on and ascending, times that are finite and above
 *     zero, a summary with its numbers. */
#include "report/run_folder.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"

enum { METRICS_BYTES_MAX = 256 << 20, SUMMARY_BYTES_MAX = 16 << 20 };

static const char again[] = "repair: name the folder of a run (moefold train RECIPE --run DIR)";

/* ---- metrics */

static double number(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    return json_is_number(v) ? json_number_value(v) : (double)NAN;
}

/* A line at hand. */
typedef struct line_at {
    const char *path;
    int64_t number;
    error *err;
} line_at;

static status refuse(const line_at *at, const char *what)
{
    return error_set(at->err, ERR_INPUT, "%s:%lld: %s; %s", at->path, (long long)at->number, what,
                     again);
}

static status take_iteration(run_line *out, const json_t *o, const line_at *at)
{
    const json_t *n = json_object_get(o, "iteration");
    double ms = number(o, "elapsed_ms");
    if (!json_is_integer(n) || json_integer_value(n) < 1)
        return refuse(at, "an iteration without its number");
    if (!(ms > 0) || !isfinite(ms)) return refuse(at, "an iteration without elapsed_ms");
    *out = (run_line){.iteration = json_integer_value(n), .seconds = ms / 1000};
    out->loss = number(json_object_get(o, "losses"), "lm loss");
    out->norm = number(o, "grad_norm");
    out->lr = number(o, "learning_rate");
    return OK;
}

typedef struct lines_read {
    run_lines *out;
    int64_t room, validation_room;
    arena *a;
} lines_read;

static status take_line(lines_read *l, const json_t *o, const line_at *at)
{
    run_lines *out = l->out;
    const char *event = json_string_value(json_object_get(o, "event"));
    if (!event) return refuse(at, "not a line of metrics (no event)");
    if (strcmp(event, "iteration") == 0) {
        run_line line;
        TRY(take_iteration(&line, o, at));
        while (out->n && out->list[out->n - 1].iteration >= line.iteration) out->n--;
        ARENA_GROW(l->a, out->list, out->n, l->room);
        out->list[out->n++] = line;
    } else if (strcmp(event, "validation") == 0) {
        double loss = number(json_object_get(o, "losses"), "lm loss"), n = number(o, "iteration");
        if (!isfinite(loss) || !isfinite(n)) return OK;
        if (out->n_validations * 2 + 2 > l->validation_room) {
            l->validation_room = l->validation_room ? l->validation_room * 2 : 64;
            double *larger = ARENA_ARRAY(l->a, double, l->validation_room);
            if (out->validation)
                memcpy(larger, out->validation, sizeof *larger * 2 * (size_t)out->n_validations);
            out->validation = larger;
        }
        out->validation[out->n_validations * 2] = n;
        out->validation[out->n_validations * 2 + 1] = loss;
        out->n_validations++;
    }
    return OK;
}

status run_lines_parse(run_lines *out, const char *path, const char *data, size_t n, arena *a,
                       error *err)
{
    lines_read l = {.out = out, .a = a};
    line_at at = {path, 0, err};
    *out = (run_lines){0};
    for (size_t from = 0, length; from < n; from += length + 1) {
        const char *end = memchr(data + from, '\n', n - from);
        length = end ? (size_t)(end - data) - from : n - from;
        at.number++;
        json_t *o = json_line(data + from, length, JSON_REJECT_DUPLICATES);
        if (!o && !end) break; /* cut by a crash */
        status s = json_is_object(o) ? take_line(&l, o, &at) : refuse(&at, "not a JSON object");
        json_decref(o);
        if (s) return s;
    }
    if (out->n) return OK;
    return error_set(err, ERR_INPUT,
                     "%s: it has no iteration, because the run did not finish a step; %s", path,
                     again);
}

/* ---- summary */

static bool is_parts(const json_t *side)
{
    size_t i;
    const json_t *part, *parts = json_object_get(side, "parts");
    if (!json_is_array(parts) || !(number(side, "step_s") > 0)) return false;
    json_array_foreach(parts, i, part)
    {
        if (!json_is_string(json_object_get(part, "title"))) return false;
        if (!json_is_string(json_object_get(part, "name"))) return false;
        if (!isfinite(number(part, "seconds"))) return false;
    }
    return true;
}

static bool is_counts(const json_t *list)
{
    size_t i;
    const json_t *v;
    json_array_foreach(list, i, v) if (!json_is_integer(v)) return false;
    return json_array_size(list) > 0;
}

/* What is wrong with it; NULL: nothing. */
static const char *memory_fault(const json_t *memory)
{
    const json_t *over = json_object_get(memory, "over_step"),
                 *saved = json_object_get(over, "saved"),
                 *temp = json_object_get(over, "temporaries"),
                 *process = json_object_get(memory, "process");
    static const char *const counted[] = {"ranks", "before_bytes", "first_step_bytes",
                                          "last_step_bytes"};
    if (!json_is_integer(json_object_get(memory, "planned_bytes")))
        return "memory has no planned_bytes";
    const json_t *all = json_object_get(memory, "allocated_bytes");
    if (all && !json_is_integer(all)) return "allocated_bytes of memory is no number of bytes";
    bool whole = is_counts(saved) && is_counts(temp) &&
                 json_array_size(saved) == json_array_size(temp) && number(over, "step_s") > 0;
    if (over && !whole)
        return "over_step of memory needs step_s and as many saved as temporary bytes";
    for (int i = 0; process && i < 4; i++)
        if (!json_is_integer(json_object_get(process, counted[i])))
            return "process of memory lacks its ranks and bytes";
    return NULL;
}

static const char *summary_fault(const json_t *o)
{
    size_t i;
    const json_t *v, *steps = json_object_get(o, "step_seconds");
    const char *what = json_string_value(json_object_get(o, "moefold"));
    const char *outcome = json_string_value(json_object_get(o, "outcome"));
    if (!what || strcmp(what, "run") != 0) return "not a summary of a run (moefold is not \"run\")";
    if (json_integer_value(json_object_get(o, "version")) != 1)
        return "version is not 1, the only one that this program reads";
    if (!outcome || !text_in("finished|interrupted|failed", '|', outcome))
        return "outcome is not finished, interrupted or failed";
    if (!json_is_array(steps)) return "there is no list step_seconds";
    json_array_foreach(steps, i, v)
    {
        if (!(json_number_value(v) > 0)) return "a step without duration";
        if (json_number_value(v) > 1e7) return "a step of more than 10,000,000 s";
    }
    static const char *const sides[] = {"predicted", "measured"};
    for (int k = 0; k < 2; k++) {
        const json_t *side = json_object_get(o, sides[k]);
        if (side && !is_parts(side)) return k ? "measured has no parts" : "predicted has no parts";
    }
    const json_t *memory = json_object_get(o, "memory");
    return memory ? memory_fault(memory) : NULL;
}

status run_summary_parse(json_t **out, const char *path, const char *data, size_t n, error *err)
{
    error why = {{0}};
    status s = json_parse(path, data, n, out, &why);
    if (s)
        return error_set(err, s,
                         "%s: cut short, or not JSON; repair: remove it (the report then shows "
                         "what metrics.jsonl has), or run again",
                         why.text);
    const char *fault = summary_fault(*out);
    if (!fault) return OK;
    json_decref(*out);
    *out = NULL;
    return error_set(err, ERR_INPUT, "%s: %s; %s", path, fault, again);
}

/* ---- the folder */

static const char *in_folder(const char *path, const char *name, arena *a)
{
    const char *full = arena_text(a, "%s/%s", path, name);
    return file_exists(full) ? full : NULL;
}

bool run_folder_is(const char *path)
{
    arena *a = arena_create();
    bool is = file_is_folder(path) && !in_folder(path, "config.json", a) &&
              (in_folder(path, "recipe.yaml", a) || in_folder(path, "metrics.jsonl", a) ||
               in_folder(path, "summary.json", a));
    arena_destroy(a);
    return is;
}

status run_folder_read(run_folder *out, const char *path, arena *a, error *err)
{
    *out = (run_folder){.path = path, .recipe = in_folder(path, "recipe.yaml", a)};
    const char *metrics = in_folder(path, "metrics.jsonl", a);
    const char *summary = in_folder(path, "summary.json", a);
    if (!out->recipe || !metrics)
        return error_set(err, ERR_INPUT, "%s: a run's folder without %s; %s", path,
                         out->recipe ? "metrics.jsonl: the run did not finish its first step"
                                     : "recipe.yaml",
                         again);
    out->trace = in_folder(path, "trace.json.gz", a);
    out->routing = in_folder(path, "routing.json", a);
    char *data;
    size_t n;
    TRY(file_read(a, metrics, METRICS_BYTES_MAX, &data, &n, err));
    TRY(run_lines_parse(&out->lines, metrics, data, n, a, err));
    if (summary) TRY(file_read(a, summary, SUMMARY_BYTES_MAX, &data, &n, err));
    if (summary) TRY(run_summary_parse(&out->summary, summary, data, n, err));
    return OK;
}

void run_folder_release(run_folder *r)
{
    json_decref(r->summary);
    r->summary = NULL;
}

int64_t run_steps(const run_folder *r, double **out, arena *a)
{
    const json_t *list = json_object_get(r->summary, "step_seconds");
    int64_t n = (int64_t)json_array_size(list), from = r->lines.n > 1;
    bool listed = n > 0;
    if (!listed) n = r->lines.n - from;
    double *steps = ARENA_ARRAY(a, double, n + 1);
    for (int64_t i = 0; i < n; i++)
        steps[i] = listed ? json_number_value(json_array_get(list, (size_t)i))
                          : r->lines.list[i + from].seconds;
    *out = steps;
    return n;
}

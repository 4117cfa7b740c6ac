/* store.c - the folder of a tuning.
 *
 * I1  A line is appended whole; a last line without its end is what a crash left, and is dropped
 *     with the trial it was of. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "config/export.h"
#include "measure/tune/tune.h"

enum { STORE_BYTES_MAX = 64 << 20 };
static const double STEP_SECONDS_MAX = 1e7; /* months: no trial takes so long */

const char *trial_end_name(trial_end e)
{
    static const char *const names[TRIAL_ENDS] = {"pending", "measured", "no memory",
                                                  "crashed", "failed",   "too slow"};
    return names[e];
}

static const char *path_of(const tune *t, const char *name)
{
    return arena_text(t->a, "%s/%s", t->dir, name);
}

const char *tune_path(const tune *t, const trial *x, const char *name)
{
    return arena_text(t->a, "%s/%03d/%s", t->dir, x->number, name);
}

/* ---- lines */

static json_t *line_of(const trial *x)
{
    json_t *o =
        json_pack("{s:i, s:i, s:s, s:s, s:s, s:f, s:f, s:f, s:f, s:I}", "trial", x->number, "from",
                  x->from, "change", x->change, "reason", x->reason, "end", trial_end_name(x->end),
                  "step_s", x->step_s, "spread", x->spread, "expected_s", x->expected_s, "seconds",
                  x->seconds, "peak_bytes", (json_int_t)x->peak_bytes);
    if (x->rounds) json_object_set_new(o, "rounds", json_integer(x->rounds));
    if (x->said) json_object_set_new(o, "said", json_string(x->said));
    if (x->evidence) {
        json_object_set_new(o, "wall", json_string(wall_name(x->wall)));
        json_object_set_new(o, "evidence", json_string(x->evidence));
    }
    if (!x->has_parts) return o;
    step_part parts[STEP_PARTS];
    price_parts(parts, &(price){.step_s = 1});
    json_t *list = json_object();
    for (int i = 0; i < STEP_PARTS; i++)
        json_object_set_new(list, parts[i].name, json_real(x->parts[i]));
    json_object_set_new(o, "parts", list);
    return o;
}

static const char *word(const tune *t, json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? arena_text(t->a, "%s", s) : NULL;
}

static void take_parts(trial *x, json_t *list)
{
    step_part parts[STEP_PARTS];
    price_parts(parts, &(price){.step_s = 1});
    x->has_parts = json_is_object(list);
    for (int i = 0; i < STEP_PARTS; i++)
        x->parts[i] = json_number_value(json_object_get(list, parts[i].name));
}

/* A line that somebody wrote may have a change that is none: it would be recommended. */
static bool is_change(const tune *t, const char *change)
{
    arena *a = arena_create();
    recipe *r = ARENA_NEW(a, recipe);
    bool is = change && tune_recipe(t, change, r, a);
    arena_destroy(a);
    return is;
}

static bool take_line(tune *t, json_t *o)
{
    json_int_t number = json_integer_value(json_object_get(o, "trial"));
    trial x = {.number = number >= 0 && number < TRIALS_MAX ? (int)number : TRIALS_MAX,
               .from = (int)json_integer_value(json_object_get(o, "from")),
               .change = word(t, o, "change"),
               .reason = word(t, o, "reason"),
               .said = word(t, o, "said"),
               .step_s = json_number_value(json_object_get(o, "step_s")),
               .spread = json_number_value(json_object_get(o, "spread")),
               .expected_s = json_number_value(json_object_get(o, "expected_s")),
               .rounds = (int)json_integer_value(json_object_get(o, "rounds")),
               .seconds = json_number_value(json_object_get(o, "seconds")),
               .peak_bytes = json_integer_value(json_object_get(o, "peak_bytes")),
               .evidence = word(t, o, "evidence"),
               .end = TRIAL_ENDS};
    const char *end = json_string_value(json_object_get(o, "end"));
    const char *wall_word = json_string_value(json_object_get(o, "wall"));
    for (int e = 0; e < TRIAL_ENDS; e++)
        if (text_equal(end, trial_end_name((trial_end)e))) x.end = (trial_end)e;
    for (int w = 0; w < WALL_COUNT; w++)
        if (text_equal(wall_word, wall_name((wall)w))) x.wall = (wall)w;
    take_parts(&x, json_object_get(o, "parts"));
    bool timed = x.end != TRIAL_MEASURED || (x.step_s > 0 && x.step_s < STEP_SECONDS_MAX);
    bool good = x.reason && x.end != TRIAL_ENDS && x.number <= t->n && x.number < TRIALS_MAX;
    if (!good || !timed || !is_change(t, x.change)) return false;
    t->trials[x.number] = x;
    if (x.number == t->n) t->n++;
    return true;
}

/* `mends`: an incomplete last line is removed from the file, else passed over. */
static status read_lines(tune *t, bool mends, error *err)
{
    const char *path = path_of(t, "trials.jsonl");
    char *data;
    size_t n;
    if (!file_exists(path)) return OK;
    status s = file_read(t->a, path, STORE_BYTES_MAX, &data, &n, err);
    int number = 0;
    for (char *line = data; !s && *line; number++) {
        char *end = strchr(line, '\n');
        if (!end) { /* I1 */
            if (!mends || truncate(path, line - data) == 0) return OK;
            return error_set(err, ERR_MACHINE,
                             "%s: the last line is incomplete and cannot be removed: %s", path,
                             strerror(errno));
        }
        json_t *o = json_line(line, (size_t)(end - line), 0);
        if (!o || !take_line(t, o))
            s = error_set(err, ERR_INPUT,
                          "%s:%d: not a line of `moefold tune`; repair: remove the line, or give "
                          "another --dir",
                          path, number + 1);
        json_decref(o);
        line = end + 1;
    }
    return s;
}

static status append(const tune *t, const trial *x, error *err)
{
    const char *path = path_of(t, "trials.jsonl");
    json_t *o = line_of(x);
    const char *text;
    status s = json_print(t->a, path, o, JSON_COMPACT | JSON_REAL_PRECISION(12), &text, err);
    json_decref(o);
    if (s) return s;
    FILE *f = fopen(path, "a");
    bool good = f && fprintf(f, "%s\n", text) > 0;
    if (f && fclose(f) != 0) good = false;
    return good ? OK : error_set(err, ERR_MACHINE, "cannot write %s: %s", path, file_why());
}

/* ---- the folder */

static textbuf recipe_text(const tune *t, const recipe *r, const char *path)
{
    textbuf text = text_init(t->a);
    recipe *own = ARENA_NEW(t->a, recipe);
    *own = *r;
    own->a = t->a;
    recipe_relocate(own, path);
    export_yaml(own, false, &text);
    return text;
}

static status write_recipe(const tune *t, const recipe *r, const char *path, error *err)
{
    textbuf text = recipe_text(t, r, path);
    return file_write(path, text.s, text.n, err);
}

/* Line by line: the first that is another one is named. */
static status same_start(const tune *t, error *err)
{
    const char *path = path_of(t, "start.yaml");
    char *old;
    size_t n;
    if (!file_exists(path)) return write_recipe(t, t->start, path, err);
    TRY(file_read(t->a, path, STORE_BYTES_MAX, &old, &n, err));
    const char *now = recipe_text(t, t->start, path).s, *was = old;
    while (*now && *was) {
        size_t x = strcspn(now, "\n"), y = strcspn(was, "\n");
        if (x != y || strncmp(now, was, x) != 0) break;
        now += x + (now[x] == '\n');
        was += y + (was[y] == '\n');
    }
    if (!*now && !*was) return OK;
    return error_set(err, ERR_INPUT,
                     "--dir %s: holds trials of another recipe: '%.*s' there, '%.*s' here; repair: "
                     "give another --dir",
                     t->dir, (int)strcspn(was, "\n"), was, (int)strcspn(now, "\n"), now);
}

status tune_open(tune *t, error *err)
{
    TRY(file_make_folder(t->dir, err));
    TRY(same_start(t, err));
    TRY(read_lines(t, true, err));
    tune_learn(t);
    return OK;
}

status tune_look(tune *t, error *err)
{
    TRY(read_lines(t, false, err));
    tune_learn(t);
    return OK;
}

status tune_write_recipe(const tune *t, const trial *x, error *err)
{
    recipe *r = ARENA_NEW(t->a, recipe);
    TRY(file_make_folder(arena_text(t->a, "%s/%03d", t->dir, x->number), err));
    if (!tune_recipe(t, x->change, r, t->a))
        return error_set(err, ERR_RULE, "trial %d: the recipe cannot be laid out: %s", x->number,
                         x->change);
    return write_recipe(t, r, tune_path(t, x, "recipe.yaml"), err);
}

status tune_record(tune *t, const trial *x, error *err)
{
    t->trials[x->number] = *x;
    if (x->number == t->n) t->n++;
    status s = append(t, x, err);
    if (s) return s;
    tune_learn(t);
    const char *heading = arena_text(
        t->a, "# %s, scaled to what the trials of `moefold tune` measured\n", t->base.path);
    const char *text = hardware_text(&t->hw, heading, NULL, NULL, t->a);
    s = file_write(path_of(t, "hardware.yaml"), text, strlen(text), err);
    const trial *best = tune_pick(t);
    recipe *r = ARENA_NEW(t->a, recipe);
    if (s || !best || !tune_recipe(t, best->change, r, t->a)) return s;
    return write_recipe(t, r, path_of(t, "best.yaml"), err);
}

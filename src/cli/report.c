/* report.c - `moefold report`: a recipe, a plan, a run, a tuning or a profile as one page that
 * needs nothing else. */
#include "config/appended.h"
#include "config/models/models.h"
#include "cli/profile.h"
#include "cli/report_run.h"
#include "cli/tune.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/waiting.h"
#include "cli/verdict.h"
#include "library/price.h"
#include "report/page.h"
#include "report/plan_file.h"

/* So long a recipe is compared with others. */
static const double SECONDS = 12;

typedef struct report_words {
    const char *out, *stack, *recipe, *without, *steps; /* the last two: of a profile */
    bool brief;
} report_words;

/* ---- what is given */

static bool is_plan(const char *path)
{
    arena *a = arena_create();
    char *data;
    size_t n;
    error err = {{0}};
    bool is = file_exists(path) && !file_is_folder(path) &&
              file_read(a, path, JSON_BYTES_MAX, &data, &n, &err) == OK && plan_file_is(data);
    arena_destroy(a);
    return is;
}

static bool is_tuning(const char *path, arena *a)
{
    return file_exists(arena_text(a, "%s/start.yaml", path)) &&
           file_exists(arena_text(a, "%s/trials.jsonl", path));
}

/* The word that names what is reported on, where it is a plan, the folder of a run or of a tuning;
 * else NULL. */
static void find_files(int argc, char **argv, const char **plan, const char **run,
                       const char **tuning, arena *a)
{
    *plan = *run = *tuning = NULL;
    for (int i = 1; i < argc; i++) {
        bool valued = text_in("-o|--out|--stack|--versions|--without|--steps", '|', argv[i - 1]);
        if (argv[i][0] == '-' || valued || strchr(argv[i], '=')) continue;
        if (run_folder_is(argv[i]))
            *run = argv[i];
        else if (is_tuning(argv[i], a))
            *tuning = argv[i];
        else if (is_plan(argv[i]))
            *plan = argv[i];
        return;
    }
}

/* ---- one recipe */

static status price_it(report_job *j, const report_words *w, arena *a, error *err)
{
    priced *q = ARENA_NEW(a, priced);
    *q = (priced){.o.stack = w->stack};
    status st = price_ready(q, j->given, NULL, a, err);
    j->s = q->s;
    j->hw = q->hw;
    j->found = &q->found;
    j->o = &q->o;
    j->why_not = q->why_not;
    return st;
}

static json_t *page_data(const char *kind)
{
    return json_pack("{s:s, s:s}", "kind", kind, "version", cli_version);
}

/* Recipe and overrides, without options of `report`. */
static const char *recipe_words(int argc, char **argv, arena *a)
{
    textbuf t = text_init(a);
    for (int i = 1; i < argc; i++) {
        if (text_equal(argv[i], "--brief") || text_in("-o|--out|--without|--steps", '|', argv[i])) {
            i += !text_equal(argv[i], "--brief");
            continue;
        }
        text_add(&t, "%s%s", t.n ? " " : "", word_quoted(a, argv[i]));
    }
    return t.s;
}

/* No program can be built: what stands against it, and what would repair it. */
static json_t *refused_json(const report_job *j, const error *why, arena *a)
{
    const setup *s = j->s;
    page_refused_answer x = {.recipe = s->r.name,
                             .words = j->words,
                             .gpu = j->hw->name,
                             .gpus = recipe_int(&s->r, K_N_GPUS),
                             .model = answer_model(s, a),
                             .why_not = why->text};
    edits fix;
    if (rules_fix(j->given, a, &fix)) x.fix = edits_words(fix, a);
    x.violations = answer_violations(&x.n_violations, j->found, a);
    return answer_json(page_refused_answer, &x);
}

static status report_recipe(const recipe *r, const report_words *w, bool *good, arena *a,
                            error *err)
{
    report_job j = {.given = r, .words = w->recipe, .seconds = w->brief ? 0 : SECONDS};
    status st = price_it(&j, w, a, err);
    if (st && !j.why_not) return st;
    bool fits = false;
    json_t *data = page_data("recipe");
    if (st)
        json_object_set_new(data, "refused", refused_json(&j, err, a));
    else
        json_object_set_new(data, "own", report_json(&j, &fits, a));
    if (st) fprintf(stderr, "moefold report: %s\n", err->text);
    *good = fits && !j.found->n_errors;
    st = page_write(w->out, arena_text(a, "moefold: %s", r->name), data, err);
    json_decref(data);
    return st;
}

/* ---- a run */

static status report_run(const char *path, const report_words *w, bool *good, arena *a, error *err)
{
    run_folder f;
    recipe *r = ARENA_NEW(a, recipe);
    report_job j = {.given = r};
    bool fits;
    json_t *run = NULL, *data;
    status st = run_folder_read(&f, path, a, err);
    if (!st) recipe_init(r, a, j.words = f.recipe);
    if (!st) st = recipe_read_yaml(r, f.recipe, err);
    if (!st) st = recipe_read_machine(r, err);
    if (!st) st = model_fill(r, err);
    if (!st) st = price_it(&j, w, a, err);
    if (!st) st = report_json_run(&run, &f, j.s, a, err);
    if (!st) {
        data = page_data("run");
        json_object_set_new(data, "own", report_json(&j, &fits, a));
        json_object_set_new(data, "run", run);
        *good = true;
        st = page_write(w->out, arena_text(a, "moefold: run %s", path), data, err);
        json_decref(data);
    }
    run_folder_release(&f);
    return st;
}

/* ---- a tuning */

/* The recipe of a file in the folder, priced on a machine; NULL: the recipe's own. */
static status price_file(report_job *j, const report_words *w, const char *path,
                         const char *machine, arena *a, error *err)
{
    recipe *r = ARENA_NEW(a, recipe);
    *j = (report_job){.given = r, .words = path};
    recipe_init(r, a, path);
    TRY(recipe_read_yaml(r, path, err));
    if (machine) recipe_set(r, K_GPU, value_of_text(machine), "what the trials measured");
    TRY(recipe_read_machine(r, err));
    TRY(model_fill(r, err));
    return price_it(j, w, a, err);
}

static const page_tune_answer *tuning_of(const tune *t, arena *a)
{
    page_tune_answer *x = ARENA_NEW(a, page_tune_answer);
    page_learned_answer *learned = ARENA_ARRAY(a, page_learned_answer, STEP_PARTS);
    price *nothing = ARENA_NEW(a, price);
    step_part parts[STEP_PARTS];
    price_parts(parts, nothing);
    *x = (page_tune_answer){.told = tune_answer_of(t, "", a), .learned = learned};
    for (int i = 0; i < STEP_PARTS && t->n_learned; i++)
        if (t->measured[i] > 0 || t->predicted[i] > 0)
            learned[x->n_learned++] =
                (page_learned_answer){.title = parts[i].title,
                                      .measured_s = t->measured[i] / t->n_learned,
                                      .predicted_s = t->predicted[i] / t->n_learned};
    return x;
}

/* What is recommended is drawn, on the machine as the trials measured it. */
static status report_tune(const char *dir, const report_words *w, bool *good, arena *a, error *err)
{
    report_job start, best;
    const char *path = arena_text(a, "%s/best.yaml", dir);
    const char *machine = arena_text(a, "%s/hardware.yaml", dir);
    bool fits;
    TRY(price_file(&start, w, arena_text(a, "%s/start.yaml", dir), NULL, a, err));
    tune *t = ARENA_NEW(a, tune);
    *t = (tune){.dir = dir, .start = start.given, .base = *start.hw, .a = a};
    TRY(tune_look(t, err));
    if (!file_exists(path) ||
        price_file(&best, w, path, file_exists(machine) ? machine : NULL, a, err))
        best = start;
    json_t *data = page_data("tune");
    json_object_set_new(data, "tune", answer_json(page_tune_answer, tuning_of(t, a)));
    json_object_set_new(data, "own", report_json(&best, &fits, a));
    *good = true;
    status st = page_write(w->out, arena_text(a, "moefold: trials in %s", dir), data, err);
    json_decref(data);
    return st;
}

/* ---- a profile beside its recipe */

static status report_profile(const recipe *r, const char *path, const report_words *w, bool *good,
                             arena *a, error *err)
{
    report_job j = {.given = r, .words = w->recipe};
    bool fits;
    profiled *q = ARENA_NEW(a, profiled);
    q->path = path;
    TRY(profile_options(q, w->without, w->steps, err));
    TRY(price_it(&j, w, a, err));
    TRY(profile_look(q, r, j.o, a, err));
    json_t *data = page_data("profile");
    json_object_set_new(data, "profile", profile_json(q, a));
    json_object_set_new(data, "own", report_json(&j, &fits, a));
    *good = true;
    status st = page_write(w->out, arena_text(a, "moefold: profile %s", path), data, err);
    json_decref(data);
    return st;
}

/* ---- a plan, or a difference */

/* The winner as a recipe, from the plan's own text. NULL: the plan has none, or it cannot be
 * priced here. */
static json_t *winner_data(const json_t *plan, const report_words *w, arena *a)
{
    const char *text = json_string_value(json_object_get(plan, "recipe"));
    recipe *r = ARENA_NEW(a, recipe);
    error err = {{0}};
    if (!text) return NULL;
    recipe_init(r, a, "the plan's first");
    status st = recipe_parse_yaml(r, r->name, text, strlen(text), &err);
    if (!st) st = recipe_read_machine(r, &err);
    if (!st) st = model_fill(r, &err);
    report_job j = {.given = r, .words = "best.yaml", .winner = true};
    j.seconds = w->brief ? 0 : SECONDS;
    if (!st) st = price_it(&j, w, a, &err);
    bool fits;
    return st ? NULL : report_json(&j, &fits, a);
}

/* Of parts of a step, by their names: a difference has only these. */
static json_t *part_titles(arena *a)
{
    step_part parts[STEP_PARTS];
    json_t *titles = json_object();
    price_parts(parts, ARENA_NEW(a, price));
    for (int i = 0; i < STEP_PARTS; i++)
        json_object_set_new(titles, parts[i].name, json_string(parts[i].title));
    return titles;
}

static status report_plan(const char *path, const report_words *w, bool *good, arena *a, error *err)
{
    json_t *plan;
    char *text;
    size_t n;
    status st = file_read(a, path, JSON_BYTES_MAX, &text, &n, err);
    if (!st) st = plan_file_parse(&plan, path, text, n, err);
    if (st) return st;
    const bool diff = plan_file_is_diff(plan);
    const char *kind = diff ? "diff" : "plan";
    json_t *data = page_data(kind), *own = diff ? NULL : winner_data(plan, w, a);
    *good = diff || json_is_true(json_object_get(plan, "fits"));
    json_object_set_new(data, "file", json_string(path));
    json_object_set_new(data, kind, plan);
    if (diff) json_object_set_new(data, "titles", part_titles(a));
    if (own) json_object_set_new(data, "own", own);
    st = page_write(w->out, arena_text(a, "moefold: %s %s", kind, path), data, err);
    json_decref(data);
    return st;
}

/* ---- the command */

int command_report(int argc, char **argv)
{
    report_words w = {0};
    bool done = false, good = true;
    const char *plan, *run, *tuning, *word = NULL;
    const cli_option options[] = {
        {"-o", "FILE", "the page to write (HTML)", NULL, &w.out},
        {"--out", "FILE", "the same", NULL, &w.out},
        {"--brief", NULL,
         "for a recipe: leave out the memory ladder, single changes and the search", &w.brief,
         NULL},
        {"--stack", "NAME", "container generation; unset: the newest in the hardware file", NULL,
         &w.stack},
        {"--without", "optimizer", "for a profile of a step that has no optimizer", NULL,
         &w.without},
        {"--steps", "N", "for a profile: the number of steps in its file", NULL, &w.steps},
    };
    arena *a = arena_create();
    recipe *r = ARENA_NEW(a, recipe);
    error err = {{0}};
    find_files(argc, argv, &plan, &run, &tuning, a);
    cli_words words = {"report", argc, argv, options, 6};
    bool of_files = plan || run || tuning;
    int measured = of_files ? 0 : profile_find_file(&words, a);
    cli_words of_recipe = profile_recipe_words(&words, measured, a);
    status st = of_files ? cli_read_plain(&words, &word, &done, &err)
                         : cli_read(a, &of_recipe, r, &done, &err);
    if (!st && !done && !w.out)
        st = error_set(&err, ERR_INPUT, "no output file is given; repair: -o page.html");
    if (!st && !done && !of_files) words_stack(r, w.stack);
    waiting_begin("report", "simulating the step", WAITING_ABOUT,
                  w.brief || of_files || measured ? 3 : SECONDS + 2);
    w.recipe = recipe_words(of_recipe.argc, of_recipe.argv, a);
    if (!st && !done)
        st = plan       ? report_plan(plan, &w, &good, a, &err)
             : run      ? report_run(run, &w, &good, a, &err)
             : tuning   ? report_tune(tuning, &w, &good, a, &err)
             : measured ? report_profile(r, argv[measured], &w, &good, a, &err)
                        : report_recipe(r, &w, &good, a, &err);
    waiting_end();
    int code = st ? cli_fail("report", st, &err) : good ? OK : ERR_RULE;
    if (!st && !done) printf("Written to %s: open it in a browser\n", w.out);
    arena_destroy(a);
    return code;
}

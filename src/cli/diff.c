/* diff.c - `moefold diff A B`: what differs between two recipes, and what each difference costs.
 *
 * I1  Each side is read by the words of the command without the other's name, so overrides and
 *     flags hold for both. */
#include "cli/diff_profiles.h"
#include "cli/diff_runs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/git.h"
#include "base/waiting.h"
#include "predict/machine.h"

/* About so long changes are priced. */
enum { SECONDS = 30 };

typedef struct diff_words {
    bool json, why, everything;
    const char *tolerance, *stack;
} diff_words;

/* ---- operands */

/* Options that take a value: the word behind them is none of the two. */
static const char with_value[] =
    "--tolerance|--stack|--versions|--gpus|--seq|--with|--from-megatron|--set|--command";

static bool is_operand(const cli_words *w, int i, arena *a)
{
    const char *word = w->argv[i];
    if (word[0] == '-' && word[1]) return false;
    if (text_in(with_value, '|', w->argv[i - 1])) return false;
    if (file_exists(word) || git_is_revision(word)) return true;
    return !strchr(word, '=') && !word_short(a, word);
}

static bool starts(const char *path, const char *with)
{
    arena *a = arena_create();
    char *data;
    size_t n;
    error err = {{0}};
    bool is = file_read(a, path, 1 << 20, &data, &n, &err) == OK &&
              text_starts(data + strspn(data, " \t\r\n"), with);
    arena_destroy(a);
    return is;
}

/* What is not compared is refused by name, not as a broken recipe. */
static status refuse(const char *word, error *err)
{
    static const char *const ends[][2] = {{".jsonl", "metrics of a run (name its folder)"},
                                          {".nsys-rep", "a report of Nsight Systems (export it: "
                                                        "nsys export --type sqlite)"}};
    size_t length = strlen(word);
    const char *what = NULL;
    if (!file_exists(word) || file_is_folder(word)) return OK;
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        size_t n = strlen(ends[i][0]);
        if (length > n && strcmp(word + length - n, ends[i][0]) == 0) what = ends[i][1];
    }
    if (!what && starts(word, "{\"displayTimeUnit\"")) what = "a trace (`moefold trace A B`)";
    if (!what) return OK;
    return error_set(err, ERR_INPUT,
                     "%s: %s; recipes, folders of runs (train --run), profiles and logs are "
                     "compared. Name one of these (REVISION:path for an older recipe)",
                     word, what);
}

static status find_operands(const cli_words *w, int at[2], arena *a, error *err)
{
    int n = 0;
    for (int i = 1; i < w->argc; i++) {
        if (!is_operand(w, i, a)) continue;
        if (n == 2)
            return error_set(err, ERR_INPUT, "'%s': two are named already, '%s' and '%s'",
                             w->argv[i], w->argv[at[0]], w->argv[at[1]]);
        TRY(refuse(w->argv[i], err));
        at[n++] = i;
    }
    if (n == 2) return OK;
    return error_set(err, ERR_INPUT,
                     "name two recipes, folders of runs, profiles or logs, as in `moefold diff "
                     "old.yaml new.yaml`, "
                     "`moefold diff main:recipes/a.yaml recipes/a.yaml` or `moefold diff runs/a "
                     "runs/b`%s%s",
                     n ? "; there is only " : "", n ? w->argv[at[0]] : "");
}

/* One of the two: its place among the words, the other one's, and what was measured of it. */
typedef struct diff_side {
    int at, other;
    const diff_run *run;
} diff_side;

/* I1. A run's folder is read by its recipe. */
static status read_side(recipe *r, const cli_words *w, diff_side d, arena *a, error *err)
{
    cli_words own = *w;
    bool done;
    own.argv = ARENA_ARRAY(a, char *, w->argc + 1);
    own.argc = 0;
    for (int i = 0; i < w->argc; i++) {
        if (i == d.other) continue;
        bool folder = i == d.at && d.run->word;
        own.argv[own.argc++] = folder ? arena_text(a, "%s", d.run->recipe) : w->argv[i];
    }
    return cli_read(a, &own, r, &done, err);
}

static status read_runs(diff_runs *r, const cli_words *w, const int at[2], arena *a, error *err)
{
    for (int i = 0; i < 2; i++) TRY(diff_run_read(&r->side[i], w->argv[at[i]], a, err));
    diff_runs_alike(r->side, a);
    r->both = r->side[0].word && r->side[1].word;
    for (int i = 0; i < 2; i++)
        if (r->side[i].word) r->c.steps[i] = compare_steps(&r->side[i].m, a);
    if (r->both) compare_runs(&r->c, &r->side[0].m, &r->side[1].m, a);
    return OK;
}

/* ---- verdict */

static status read_tolerance(const char *word, double *out, error *err)
{
    char *end = NULL;
    *out = 0.05;
    if (!word) return OK;
    double percent = strtod(word, &end);
    if (*end == '%') end++;
    *out = percent / 100;
    if (end != word && !*end && percent >= 0 && isfinite(percent)) return OK;
    return error_set(err, ERR_INPUT,
                     "--tolerance %s: a percentage of 0 or more is needed, as in --tolerance 2",
                     word);
}

static diff_verdict judge(const differences *d, double tolerance)
{
    diff_verdict v = {.tolerance = tolerance, .priced = !d->a.why_not && !d->b.why_not};
    if (!v.priced) return v;
    v.time = d->b.p.step_s / d->a.p.step_s - 1;
    v.memory = (double)d->b.p.peak_bytes / (double)d->a.p.peak_bytes - 1;
    v.time_differs = fabs(v.time) > tolerance;
    v.memory_differs = fabs(v.memory) > tolerance;
    return v;
}

/* Of two runs: what was measured counts, and noise is no difference. */
static void judge_runs(diff_verdict *v, const diff_runs *r)
{
    int64_t p = r->side[0].m.peak_bytes, q = r->side[1].m.peak_bytes;
    v->measured = true;
    v->noise = r->c.noise;
    v->time = r->c.change;
    v->time_differs = fabs(v->time) > v->tolerance && !v->noise;
    v->memory = p && q ? (double)q / (double)p - 1 : 0;
    v->memory_differs = fabs(v->memory) > v->tolerance;
}

/* ---- the command */

static bool asks_help(const cli_words *w)
{
    for (int i = 1; i < w->argc; i++)
        if (text_in("--help|-h", '|', w->argv[i])) return true;
    return false;
}

static void print_all(const differences *d, const diff_verdict *v, const diff_runs *r,
                      const diff_words *w, arena *a)
{
    const diff_runs *runs = r->side[0].word || r->side[1].word ? r : NULL;
    if (w->json)
        cli_json_print(diff_json(d, v, runs, a));
    else
        diff_print(d, v, runs, (diff_more){w->why, w->everything}, a);
}

/* Two profiles or logs have no recipes. ERR_INPUT: one of them and something else. */
static status compare_profiles(const cli_words *w, const int at[2], const diff_words *own,
                               int *code, arena *a, error *err)
{
    diff_files f = {{w->argv[at[0]], w->argv[at[1]]}, 0, false};
    for (int i = 0; i < 2; i++)
        if (!diff_is_profile(f.words[i]))
            return error_set(err, ERR_INPUT,
                             "%s is a profile or a log, %s is not; repair: `moefold profile RECIPE "
                             "%s` compares it with a prediction",
                             f.words[1 - i], f.words[i], f.words[1 - i]);
    cli_words rest = *w;
    const char *none = NULL;
    bool done;
    rest.argv = ARENA_ARRAY(a, char *, w->argc + 1);
    rest.argc = 0;
    for (int i = 0; i < w->argc; i++)
        if (i != at[0] && i != at[1]) rest.argv[rest.argc++] = w->argv[i];
    TRY(cli_read_plain(&rest, &none, &done, err));
    TRY(read_tolerance(own->tolerance, &f.tolerance, err));
    f.json = own->json;
    return diff_profiles(&f, code, a, err);
}

static status compare(const cli_words *w, const diff_words *own, int *code, arena *a, error *err)
{
    int at[2];
    double tolerance = 0;
    recipe *x = ARENA_NEW(a, recipe), *y = ARENA_NEW(a, recipe);
    differences *d = ARENA_NEW(a, differences);
    diff_runs *r = ARENA_NEW(a, diff_runs);
    status st = find_operands(w, at, a, err);
    if (!st && (diff_is_profile(w->argv[at[0]]) || diff_is_profile(w->argv[at[1]])))
        return compare_profiles(w, at, own, code, a, err);
    if (!st) st = read_runs(r, w, at, a, err);
    if (!st) st = read_side(x, w, (diff_side){at[0], at[1], &r->side[0]}, a, err);
    if (!st) st = read_side(y, w, (diff_side){at[1], at[0], &r->side[1]}, a, err);
    if (!st) st = read_tolerance(own->tolerance, &tolerance, err);
    price_options o = {.stack = own->stack};
    try_budget budget = {.left = TRY_SECONDS(SECONDS)};
    diff_job j = {x, y, machine_of_setup, &o, &budget};
    waiting_begin("diff", "pricing both", WAITING_AT_MOST, SECONDS);
    if (!st) st = differences_find(d, &j, a, err);
    waiting_end();
    if (!st) st = hardware_has_stack(d->a.hw, own->stack, err);
    if (!st) {
        diff_verdict v = judge(d, tolerance);
        if (r->both) judge_runs(&v, r);
        *code = diff_is_beyond(&v) ? ERR_RULE : OK;
        print_all(d, &v, r, own, a);
    }
    for (int i = 0; i < 2; i++) diff_run_release(&r->side[i]);
    return st;
}

int command_diff(int argc, char **argv)
{
    diff_words w = {0};
    const cli_option options[] = {
        {"--tolerance", "PERCENT",
         "exit with 1 if step time or peak memory differ by more; unset: 5", NULL, &w.tolerance},
        {"--stack", "NAME", "container generation; unset: the newest in the hardware file", NULL,
         &w.stack},
        {"--why", NULL, "add knobs that follow, and which parts each change moved", &w.why, NULL},
        {"--everything", NULL, "add all figures of both", &w.everything, NULL},
        {"--json", NULL, "print JSON (docs/JSON.md)", &w.json, NULL},
    };
    arena *a = arena_create();
    error err = {{0}};
    int code = OK;
    bool done = false;
    cli_words words = {"diff", argc, argv, options, 5};
    status st = OK;
    if (asks_help(&words))
        st = cli_read(a, &words, ARENA_NEW(a, recipe), &done, &err);
    else
        st = compare(&words, &w, &code, a, &err);
    if (st) code = cli_fail("diff", st, &err);
    arena_destroy(a);
    return code;
}

/* diff.c - `moefold diff A B`: what differs between two recipes, and what each difference costs.
 *
 * I1  Each side is read by the words of the command without the other's name, so overrides and
 *     flags hold for both. */
#include "cli/diff.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/git.h"
#include "run/timing.h"

/* So long changes are priced. */
static const double SECONDS = 30;

typedef struct diff_words {
    bool json;
    const char *tolerance, *stack;
} diff_words;

/* ---- operands */

/* Options that take a value: the word behind them is none of the two. */
static const char with_value[] =
    "--tolerance|--stack|--gpus|--seq|--with|--from-megatron|--set|--command";

static bool is_operand(const cli_words *w, int i, arena *a)
{
    const char *word = w->argv[i];
    if (word[0] == '-' && word[1]) return false;
    if (text_in(with_value, '|', w->argv[i - 1])) return false;
    if (file_exists(word) || git_is_revision(word)) return true;
    return !strchr(word, '=') && !cli_short_word(a, word);
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

/* What is not compared yet is refused by name, not as a broken recipe. */
static status refuse(const char *word, arena *a, error *err)
{
    static const char *const ends[][2] = {{".jsonl", "metrics of a run"},
                                          {".log", "a log"},
                                          {".sqlite", "a profile of Nsight Systems"},
                                          {".nsys-rep", "a profile of Nsight Systems"},
                                          {".json.gz", "a packed trace"}};
    size_t length = strlen(word);
    const char *what = NULL;
    if (!file_exists(word)) return OK;
    if (file_is_folder(word) && (file_exists(arena_text(a, "%s/metrics.jsonl", word)) ||
                                 file_exists(arena_text(a, "%s/summary.json", word))))
        what = "a run folder";
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        size_t n = strlen(ends[i][0]);
        if (length > n && strcmp(word + length - n, ends[i][0]) == 0) what = ends[i][1];
    }
    if (!what && starts(word, "{\"displayTimeUnit\"")) what = "a trace (`moefold trace A B`)";
    if (!what && starts(word, "SQLite format 3")) what = "a profile of Nsight Systems";
    if (!what) return OK;
    return error_set(err, ERR_INPUT,
                     "%s: %s; only recipes are compared yet. Name the recipe that it came from "
                     "(REVISION:path for an older one)",
                     word, what);
}

static status find_operands(const cli_words *w, int at[2], arena *a, error *err)
{
    int n = 0;
    for (int i = 1; i < w->argc; i++) {
        if (!is_operand(w, i, a)) continue;
        if (n == 2)
            return error_set(err, ERR_INPUT, "'%s': two recipes are named already, '%s' and '%s'",
                             w->argv[i], w->argv[at[0]], w->argv[at[1]]);
        status s = refuse(w->argv[i], a, err);
        if (s) return s;
        at[n++] = i;
    }
    if (n == 2) return OK;
    return error_set(err, ERR_INPUT,
                     "name two recipes, as in `moefold diff old.yaml new.yaml` or `moefold diff "
                     "main:recipes/a.yaml recipes/a.yaml`%s%s",
                     n ? "; there is only " : "", n ? w->argv[at[0]] : "");
}

/* I1 */
static status read_side(recipe *r, const cli_words *w, int without, arena *a, error *err)
{
    cli_words own = *w;
    bool done;
    own.argv = ARENA_ARRAY(a, char *, w->argc + 1);
    own.argc = 0;
    for (int i = 0; i < w->argc; i++)
        if (i != without) own.argv[own.argc++] = w->argv[i];
    return cli_read(a, &own, r, &done, err);
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
                     "--tolerance %s: a number of percent from 0 on is wanted, as in --tolerance 2",
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

/* ---- the command */

static bool asks_help(const cli_words *w)
{
    for (int i = 1; i < w->argc; i++)
        if (text_in("--help|-h", '|', w->argv[i])) return true;
    return false;
}

static status compare(const cli_words *w, const diff_words *own, int *code, arena *a, error *err)
{
    int at[2];
    double tolerance = 0;
    recipe *x = ARENA_NEW(a, recipe), *y = ARENA_NEW(a, recipe);
    differences *d = ARENA_NEW(a, differences);
    status st = find_operands(w, at, a, err);
    if (!st) st = read_side(x, w, at[1], a, err);
    if (!st) st = read_side(y, w, at[0], a, err);
    if (!st) st = read_tolerance(own->tolerance, &tolerance, err);
    price_options o = {.stack = own->stack};
    diff_job j = {x, y, timing_machine, &o, clock_seconds() + SECONDS};
    if (!st) st = differences_find(d, &j, a, err);
    if (!st) st = hardware_has_stack(d->a.hw, own->stack, err);
    if (st) return st;
    diff_verdict v = judge(d, tolerance);
    *code = diff_is_beyond(&v) ? ERR_RULE : OK;
    if (own->json)
        cli_json_print(diff_json(d, &v, a));
    else
        diff_print(d, &v, a);
    return OK;
}

int command_diff(int argc, char **argv)
{
    diff_words w = {0};
    const cli_option options[] = {
        {"--tolerance", "PERCENT",
         "exit code 1 where step time or peak memory differ by more; unset: 5", NULL, &w.tolerance},
        {"--stack", "NAME", "container generation; unset: the newest described", NULL, &w.stack},
        {"--json", NULL, "print for programs (docs/JSON.md)", &w.json, NULL},
    };
    arena *a = arena_create();
    error err = {{0}};
    int code = OK;
    bool done = false;
    cli_words words = {"diff", argc, argv, options, 3};
    status st = OK;
    if (asks_help(&words))
        st = cli_read(a, &words, ARENA_NEW(a, recipe), &done, &err);
    else
        st = compare(&words, &w, &code, a, &err);
    if (st) code = cli_fail("diff", st, &err);
    arena_destroy(a);
    return code;
}

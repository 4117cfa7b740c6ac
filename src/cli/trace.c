/* trace.c - `moefold trace A B`: two traces on one time axis, and the operations that differ
 * most. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "answer/answer.h"
#include "cli/cli.h"
#include "base/waiting.h"
#include "predict/trace/compare.h"

enum { TOP = 20, TOP_MAX = 10000 };

typedef struct trace_command {
    bool json;
    const char *out, *top;
    int64_t n_top;
    const char *paths[2];
    trace t[2];
    trace_comparison c;
} trace_command;

/* ---- for people */

static const char side[2] = {'A', 'B'};

static void print_head(const trace_command *q, arena *a)
{
    for (int i = 0; i < 2; i++) {
        const trace *t = &q->t[i];
        const char name[] = {side[i], 0};
        cli_print(name, "%s: %s, %s%s%s; %s of a step of %s, %s operations and waits of %s ranks\n",
                  q->paths[i], t->source, t->recipe, *t->machine ? " on " : "", t->machine,
                  text_seconds(a, t->span), text_seconds(a, t->step), text_grouped(a, t->n),
                  text_grouped(a, t->n_ranks));
    }
}

/* Of compute, which every rank has: what its stream did, a rank in the mean. */
static void print_streams(const trace_command *q, arena *a)
{
    cli_print("\nStreams", "seconds per rank and step (mean): operations, waits, idle\n\n");
    for (int i = 0; i < 2; i++) {
        const trace *t = &q->t[i];
        trace_sum *sums;
        int64_t n = trace_sums(t, &sums, a);
        for (int s = 0; s < t->n_streams; s++) {
            double all[3] = {0}, ranks = 0;
            for (int64_t k = 0; k < n; k++) {
                if (sums[k].stream != s) continue;
                all[0] += sums[k].operations;
                all[1] += sums[k].waits;
                all[2] += sums[k].idle;
                ranks += trace_steps_of(t);
            }
            if (ranks > 0)
                printf("         %c  %-32s %10.4g s %10.4g s %10.4g s\n", side[i], t->streams[s],
                       all[0] / ranks, all[1] / ranks, all[2] / ranks);
        }
    }
}

static void print_count(double n)
{
    if (n >= 1 || n == 0)
        printf(" %9.0f", n);
    else
        printf(" %9.2f", n);
}

static void print_rows(const trace_command *q)
{
    const trace_comparison *c = &q->c;
    cli_print("\nDiffer", "most, mean per rank and step (%s):\n\n",
              c->whole
                  ? "both traces are whole steps: sums are compared"
                  : "the traces are windows of steps: mean durations are compared, at A's count");
    printf("         %12s %9s %12s %9s %12s\n", "B - A", "times A", "each A", "times B", "each B");
    int64_t n = 0;
    for (int64_t i = 0; i < c->n && n < q->n_top; i++) {
        const trace_row *r = &c->rows[i];
        if (r->difference == 0) break;
        n++;
        printf("         %+10.4g s", r->difference);
        for (int s = 0; s < 2; s++) {
            print_count(r->n[s]);
            printf(" %10.4g s", r->n[s] > 0 ? r->seconds[s] / r->n[s] : 0);
        }
        bool wait = r->what == TRACE_WAIT;
        printf("  %s%s%s%s (%s)\n", wait ? "wait for " : "", *r->name ? r->name : "-",
               r->phase ? ", " : "", r->phase ? r->phase : "", r->kind);
    }
    if (!n) printf("         nothing: every operation takes equally long in both\n");
}

/* ---- for programs */

static trace_end_answer end_of(const trace *t, const char *path)
{
    return (trace_end_answer){path,    t->source, t->recipe, t->machine,
                              t->span, t->step,   t->n,      t->n_ranks};
}

static void print_json(const trace_command *q, arena *a)
{
    int n = (int)(q->c.n < q->n_top ? q->c.n : q->n_top);
    trace_row_answer *rows = ARENA_ARRAY(a, trace_row_answer, n);
    for (int i = 0; i < n; i++) {
        const trace_row *r = &q->c.rows[i];
        rows[i] = (trace_row_answer){.what = r->what == TRACE_WAIT ? "wait" : "operation",
                                     .name = r->name,
                                     .kind = r->kind,
                                     .difference_s = r->difference,
                                     .times = {r->n[0], r->n[1]},
                                     .seconds = {r->seconds[0], r->seconds[1]},
                                     .phase = r->phase};
    }
    const trace_end_answer ends[] = {end_of(&q->t[0], q->paths[0]), end_of(&q->t[1], q->paths[1])};
    const traces_answer x = {&ends[0], &ends[1], q->c.whole, rows, n};
    cli_json_print(answer_json(traces_answer, &x));
}

/* ---- the command */

static status find_paths(int argc, char **argv, const char *paths[2], error *err)
{
    int n = 0;
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] == '-' || text_in("-o|--out|--top", '|', argv[i - 1])) continue;
        if (n == 2)
            return error_set(err, ERR_INPUT, "'%s': two traces are named already, '%s' and '%s'",
                             argv[i], paths[0], paths[1]);
        paths[n++] = argv[i];
    }
    if (n == 2) return OK;
    return error_set(err, ERR_INPUT,
                     "name two traces, as `moefold price RECIPE --trace FILE` writes them%s%s",
                     n ? "; there is only " : "", n ? paths[0] : "");
}

static status compare(trace_command *q, arena *a, error *err)
{
    status st = OK;
    waiting_begin("trace", "reading both", WAITING_UNKNOWN, 0);
    for (int i = 0; i < 2 && !st; i++) {
        st = trace_read(&q->t[i], q->paths[i], a, err);
        waiting_part(0.5 * (i + 1));
    }
    waiting_end();
    if (st) return st;
    trace_compare(&q->c, &q->t[0], &q->t[1], a);
    if (!q->c.common)
        return error_set(err, ERR_INPUT,
                         "no operation of %s is in %s: are these traces of different models? "
                         "repair: compare traces of one model",
                         q->paths[0], q->paths[1]);
    if (!q->out) return OK;
    trace both;
    trace_merge(&both, &q->t[0], &q->t[1], a);
    return trace_write(&both, q->out, err);
}

/* The words without the two names, which cli_read_plain would not take. */
static status read_options(const cli_words *w, trace_command *q, bool *done, arena *a, error *err)
{
    cli_words own = *w;
    const char *none = NULL;
    own.argv = ARENA_ARRAY(a, char *, w->argc + 1);
    own.argc = 0;
    for (int i = 0; i < w->argc; i++)
        if (i == 0 || (w->argv[i] != q->paths[0] && w->argv[i] != q->paths[1]))
            own.argv[own.argc++] = w->argv[i];
    status st = cli_read_plain(&own, &none, done, err);
    q->n_top = TOP;
    if (!st && !*done && q->top) st = word_count("--top", q->top, TOP_MAX, &q->n_top, err);
    return st;
}

int command_trace(int argc, char **argv)
{
    arena *a = arena_create();
    trace_command *q = ARENA_NEW(a, trace_command);
    const cli_option options[] = {
        {"-o", "FILE", "write both on one time axis (gzip if the name ends in .gz)", NULL, &q->out},
        {"--out", "FILE", "the same", NULL, &q->out},
        {"--top", "N", "rows to print; unset: 20", NULL, &q->top},
        {"--json", NULL, "print JSON (docs/JSON.md)", &q->json, NULL},
    };
    error err = {{0}};
    bool done = false;
    cli_words words = {"trace", argc, argv, options, 4};
    status found = find_paths(argc, argv, q->paths, &err);
    error other = {{0}};
    status st = read_options(&words, q, &done, a, &other);
    if (st) err = other;
    if (!st && !done) st = found;
    if (!st && !done) st = compare(q, a, &err);
    int code = st ? cli_fail("trace", st, &err) : OK;
    if (!st && !done && q->json) print_json(q, a);
    if (!st && !done && !q->json) {
        print_head(q, a);
        print_streams(q, a);
        print_rows(q);
        if (q->out) cli_print("\nTrace", "%s: both on one time axis\n", q->out);
    }
    arena_destroy(a);
    return code;
}

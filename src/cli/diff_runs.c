/* diff_runs.c - what was measured, beside each other: steps, parts, operations, memory. */
#include "answer/answer.h"
#include "cli/diff_runs.h"
#include "cli/screen.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"

/* ---- reading */

/* Of one rank, what others had of its core is no part of its steps. Of several each waits for what
 * the others lost, and the mean says only how much that may be (compare_runs.h, I1). */
static void take_delays(measured_side *m, double *steps, const json_t *summary)
{
    const json_t *list = json_object_get(summary, "delay_seconds");
    double mean = json_number_value(json_object_get(summary, "delay_s"));
    bool alone = json_integer_value(json_object_get(summary, "ranks")) == 1;
    if (!(mean > 0) || !isfinite(mean)) return;
    bool each = alone && (int64_t)json_array_size(list) == m->n;
    for (int64_t i = 0; each && i < m->n; i++) {
        double x = json_number_value(json_array_get(list, (size_t)i));
        each = x >= 0 && x < steps[i];
    }
    *(each ? &m->left_out : &m->delay) = mean;
    for (int64_t i = 0; each && i < m->n; i++)
        steps[i] -= json_number_value(json_array_get(list, (size_t)i));
}

static status read_folder(diff_run *out, const char *word, arena *a, error *err)
{
    run_folder *f = &out->folder;
    double *steps;
    status s = run_folder_read(f, word, a, err);
    if (s) return s;
    out->recipe = f->recipe;
    out->m = (measured_side){.name = word, .n = run_steps(f, &steps, a)};
    out->m.steps = steps;
    out->m.loss_at = f->lines.list[f->lines.n - 1].iteration;
    out->m.loss = f->lines.list[f->lines.n - 1].loss;
    out->m.peak_bytes =
        json_integer_value(json_object_get(json_object_get(f->summary, "memory"), "planned_bytes"));
    take_delays(&out->m, steps, f->summary);
    if (!f->trace) return OK;
    s = trace_read(&out->t, f->trace, a, err);
    out->m.t = &out->t;
    return s;
}

/* Of a run that did not end there is no summary, and so only the seconds of its metrics, with those
 * in which others had the core: the other run is taken so, too. */
void diff_runs_alike(diff_run side[2], arena *a)
{
    for (int i = 0; i < 2; i++) {
        run_folder *f = &side[i].folder;
        if (!side[0].word || !side[1].word || !f->summary || side[1 - i].folder.summary) continue;
        double *steps;
        run_folder_release(f);
        int64_t n = run_steps(f, &steps, a);
        if (n < 1) return;
        side[i].m.n = n;
        side[i].m.steps = steps;
        side[i].m.delay = side[i].m.left_out = 0;
    }
}

static const struct {
    bool (*is)(const char *path);
    status (*read)(diff_run *out, const char *word, arena *a, error *err);
} readers[] = {{run_folder_is, read_folder}};

status diff_run_read(diff_run *out, const char *word, arena *a, error *err)
{
    *out = (diff_run){0};
    for (size_t i = 0; i < sizeof readers / sizeof readers[0]; i++) {
        if (!readers[i].is(word)) continue;
        out->word = word;
        TRY(readers[i].read(out, word, a, err));
        if (out->m.n > 0) return OK;
        return error_set(
            err, ERR_INPUT,
            "%s: has one step, and the first is not compared; repair: run at least %d steps", word,
            STEPS_FOR_BAND + 1);
    }
    return OK;
}

void diff_run_release(diff_run *r)
{
    run_folder_release(&r->folder);
}

/* ---- for people */

static void print_steps(const diff_runs *r, arena *a)
{
    cli_print("\nMeasured", "seconds of a step\n\n");
    printf("         %12s %12s %12s %8s\n", "median", "a tenth", "nine tenths", "steps");
    for (int i = 0; i < 2; i++) {
        const diff_run *x = &r->side[i];
        if (!x->word) continue;
        const side_steps *s = &r->c.steps[i];
        printf("         %10.4g s %10.4g s %10.4g s %8lld  %c", s->median, s->low, s->high,
               (long long)x->m.n, 'A' + i);
        if (isfinite(x->m.loss))
            printf("; lm loss %.5g at step %lld", x->m.loss, (long long)x->m.loss_at);
        if (x->m.peak_bytes) printf("; %s planned", text_bytes(a, x->m.peak_bytes));
        if (x->m.delay > 0.01 * s->median)
            printf("; %.3g s of a step without a core: other programs had it", x->m.delay);
        if (x->m.left_out > 0.01 * s->median)
            printf("; %.3g s of a step are left out: other programs had the core", x->m.left_out);
        printf("\n");
    }
}

static void print_parts(const runs_compared *c)
{
    double least = (c->step_s[0] + c->step_s[1]) * 5e-4, small[2] = {0};
    cli_print(
        "\nTraced",
        "a step by kind, measured, mean over ranks; the last column is relative to A's step\n\n");
    printf("         %-36s %12s %12s %12s\n", "", "A", "B", "B - A");
    for (int i = 0; i < STEP_PARTS; i++) {
        double x = c->parts[0][i].seconds, y = c->parts[1][i].seconds;
        bool rest = i == STEP_PARTS - 1;
        if (rest || (fabs(x) < least && fabs(y) < least)) {
            small[0] += x;
            small[1] += y;
            if (!rest) continue;
            x = small[0];
            y = small[1];
        }
        bool message = i >= COST_TP && i <= COST_COPY;
        char title[80];
        snprintf(title, sizeof title, "%s%s", c->parts[0][i].title, message ? ", exposed" : "");
        printf("         %-36s %10.4g s %10.4g s %+10.4g s %+7.1f %%\n", title, x, y, y - x,
               100 * (y - x) / c->step_s[0]);
    }
    printf("         %-36s %10.4g s %10.4g s %+10.4g s %+7.1f %%\n", "step", c->step_s[0],
           c->step_s[1], c->step_s[1] - c->step_s[0], 100 * (c->step_s[1] / c->step_s[0] - 1));
}

static void print_rows(const runs_compared *c)
{
    if (!c->n_rows) {
        cli_print("\nDiffer", "no operation differs by more than noise and 1 %% of the step\n");
        return;
    }
    cli_print("\nDiffer",
              "operations that differ by more than their noise, mean per rank and step:\n\n");
    printf("         %12s %9s %12s %12s %12s\n", "B - A", "of step", "A", "B", "noise");
    for (int i = 0; i < c->n_rows; i++) {
        const trace_row *w = &c->rows[i].row;
        printf("         %+10.4g s %+7.1f %% %10.4g s %10.4g s %10.4g s  %s%s%s%s (%s)\n",
               w->difference, 100 * w->difference / c->step_s[0], w->seconds[0], w->seconds[1],
               c->rows[i].noise, w->what == TRACE_WAIT ? "wait for " : "", *w->name ? w->name : "-",
               w->phase ? ", " : "", w->phase ? w->phase : "", w->kind);
    }
}

/* Knobs that a build has derived otherwise: the recipes do not show them. */
static void print_derived(const diff_runs *r, const differences *d)
{
    const json_t *x = json_object_get(r->side[0].folder.summary, "knobs");
    const json_t *y = json_object_get(r->side[1].folder.summary, "knobs");
    for (int k = 0; k < K_COUNT; k++) {
        const char *p = json_string_value(json_object_get(x, knobs[k].key));
        const char *q = json_string_value(json_object_get(y, knobs[k].key));
        bool known = false;
        for (int i = 0; i < d->n_knobs; i++) known = known || d->knobs[i].k == (knob_id)k;
        if (p && q && !known && strcmp(p, q) != 0)
            printf("       ! %-50s %s -> %s (derived differently: another build)\n", knobs[k].key,
                   p, q);
    }
}

static void print_one(const diff_runs *r, const differences *d)
{
    int i = r->side[0].word ? 0 : 1;
    const diff_end *e = i ? &d->b : &d->a;
    if (!e->why_not)
        printf("\n"
               "         %c was measured at %.4g s a step and is predicted at %.4g s; the other "
               "side is a recipe, so its numbers below are predicted.\n",
               'A' + i, r->c.steps[i].median, e->p.step_s);
}

void diff_runs_print(const diff_runs *r, const differences *d, arena *a)
{
    if (r->both) print_derived(r, d);
    print_steps(r, a);
    if (!r->both) {
        print_one(r, d);
        return;
    }
    if (r->c.has_parts) print_parts(&r->c);
    if (r->c.has_parts && !r->c.noise) print_rows(&r->c);
    if (r->c.band <= 0)
        cli_print("\nNoise", "unknown: both runs need at least %d steps\n", STEPS_FOR_BAND + 1);
    else
        cli_print("\nNoise",
                  "steps vary, so medians of runs like these may differ by %.1f %%; they "
                  "differ by %.1f %%: %s\n",
                  100 * r->c.band, 100 * fabs(r->c.change),
                  r->c.noise ? "noise" : "more than noise");
}

void diff_runs_screen_one(const diff_runs *r, const differences *d, arena *a)
{
    int i = r->side[0].word ? 0 : 1;
    const diff_end *e = i ? &d->b : &d->a;
    if (!e->why_not)
        screen_line("RUN",
                    "%c was measured at %s a step and is predicted at %s; the other side is a "
                    "recipe, so all else here is predicted",
                    'A' + i, screen_seconds(a, r->c.steps[i].median),
                    screen_seconds(a, e->p.step_s));
}

void diff_runs_screen_noise(const diff_runs *r, arena *a)
{
    for (int i = 0; i < 2; i++) {
        const diff_run *x = &r->side[i];
        double lost = x->m.delay > x->m.left_out ? x->m.delay : x->m.left_out;
        if (lost > 0.01 * r->c.steps[i].median)
            screen_line("BUSY", "other programs had the cores of %c for %s of a step%s", 'A' + i,
                        screen_seconds(a, lost), x->m.left_out > 0 ? ", which is left out" : "");
    }
    if (r->c.band <= 0)
        screen_line("NOISE", "unknown: both runs need at least %d steps", STEPS_FOR_BAND + 1);
    else
        screen_line("NOISE",
                    "medians of runs like these may differ by %.1f %%; they differ by "
                    "%.1f %%: %s",
                    100 * r->c.band, 100 * fabs(r->c.change),
                    r->c.noise ? "noise" : "more than noise");
}

/* ---- for programs */

static const measured_end_answer *end_of(const diff_run *x, const side_steps *s, arena *a)
{
    if (!x->word) return NULL;
    measured_end_answer *end = ARENA_NEW(a, measured_end_answer);
    *end = (measured_end_answer){.run = x->word,
                                 .median_s = s->median,
                                 .low_s = s->low,
                                 .high_s = s->high,
                                 .steps = x->m.n,
                                 .planned_bytes = x->m.peak_bytes ? x->m.peak_bytes : FIELD_NONE,
                                 .loss = x->m.loss};
    return end;
}

static const both_runs_answer *both_of(const runs_compared *c, arena *a)
{
    both_runs_answer *both = ARENA_NEW(a, both_runs_answer);
    operation_row_answer *rows = ARENA_ARRAY(a, operation_row_answer, c->n_rows);
    two_seconds_answer *parts = ARENA_ARRAY(a, two_seconds_answer, STEP_PARTS);
    for (int i = 0; i < c->n_rows; i++) {
        const trace_row *w = &c->rows[i].row;
        rows[i] = (operation_row_answer){.what = w->what == TRACE_WAIT ? "wait" : "operation",
                                         .name = w->name,
                                         .kind = w->kind,
                                         .difference_s = w->difference,
                                         .seconds = {w->seconds[0], w->seconds[1]},
                                         .noise_s = c->rows[i].noise,
                                         .phase = w->phase};
    }
    for (int i = 0; i < STEP_PARTS && c->has_parts; i++)
        parts[i] = (two_seconds_answer){c->parts[0][i].name, c->parts[0][i].seconds,
                                        c->parts[1][i].seconds};
    *both = (both_runs_answer){.change = c->change,
                               .band = c->band > 0 ? c->band : NAN,
                               .noise = c->noise,
                               .operations = rows,
                               .n_operations = c->n_rows,
                               .parts = c->has_parts ? parts : NULL,
                               .n_parts = STEP_PARTS};
    return both;
}

const measured_ends_answer *diff_runs_answer(const diff_runs *r, arena *a)
{
    measured_ends_answer *x = ARENA_NEW(a, measured_ends_answer);
    *x = (measured_ends_answer){end_of(&r->side[0], &r->c.steps[0], a),
                                end_of(&r->side[1], &r->c.steps[1], a),
                                r->both ? both_of(&r->c, a) : NULL};
    return x;
}

/* profile_print.c - a profile for people, and for programs. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "answer/answer.h"
#include "cli/profile.h"
#include "cli/screen.h"
#include "cli/screen_price.h"

/* ---- for people: all figures */

static void print_head(const profiled *q, arena *a)
{
    const profile *p = &q->p;
    const profile_log *l = &p->log;
    if (p->source == SOURCE_LOG) {
        cli_print("Profile", "%s: %s, %s iterations", q->path, profile_source_name(p->source),
                  text_grouped(a, l->n_iterations));
        if (l->n_kept)
            printf("; median of the last %s: %.4g s (%.4g to %.4g s)", text_grouped(a, l->n_kept),
                   l->step_s, l->least_s, l->most_s);
        printf("\n\n");
        return;
    }
    cli_print("Profile", "%s: %s%s%s, %s kernels, %s host waits; %g step%s of %.4g s\n\n", q->path,
              profile_source_name(p->source), p->gpu ? " of " : "", p->gpu ? p->gpu : "",
              text_grouped(a, p->n_kernels), text_grouped(a, p->n_syncs), p->steps,
              p->steps == 1 ? "" : "s", p->span / p->steps);
}

static void print_seconds(double x)
{
    if (isnan(x))
        printf(" %12s", "?");
    else
        printf(" %10.4g s", x);
}

static void print_time(const profiled *q)
{
    double step = q->p.span / q->p.steps;
    cli_print("Time", "of a step, measured and predicted%s:\n\n",
              q->without_optimizer ? " (without the optimizer)" : "");
    printf("         %-44s %12s %7s %12s\n", "", "measured", "", "predicted");
    for (int i = 0; i < q->n_rows; i++) {
        const profile_row *r = &q->rows[i];
        bool message = false;
        for (int k = COST_TP; k <= COST_COPY; k++)
            message |= strcmp(r->name, cost_kind_name((cost_kind)k)) == 0;
        printf("         %-44s", r->title);
        print_seconds(r->measured);
        printf(isnan(r->measured) ? "        " : " %5.1f %%", 100 * r->measured / step);
        print_seconds(r->predicted);
        if (message && r->hidden > 0) printf("   and %.4g s hidden", r->hidden);
        printf("\n");
    }
    printf("         %-44s %10.4g s %5.1f %% %10.4g s   measured over predicted %.3f\n\n", "step",
           step, 100.0, q->predicted_step, step / q->predicted_step);
}

static void print_memory(const profiled *q, arena *a)
{
    if (!q->p.peak_bytes) return;
    cli_print("Memory", "measured %s reserved at most, predicted %s of %s usable\n\n",
              text_bytes(a, q->p.peak_bytes), text_bytes(a, q->predicted.peak_bytes),
              text_bytes(a, q->predicted.usable));
}

/* What no row names: a new row of the table explains it. */
static void print_unknown(const profiled *q, arena *a)
{
    const profile *p = &q->p;
    double lost = p->busy[KIND_UNKNOWN] + p->idle[CAUSE_UNKNOWN];
    cli_print("Explained", " %.1f %% of the time; %s of %s remain unexplained\n\n",
              100 * p->explained, text_seconds(a, lost), text_seconds(a, p->span));
    if (!p->n_unknown) return;
    cli_print("Unknown", "kernels that src/measure/profile/names.def does not list:\n\n");
    for (int i = 0; i < p->n_unknown; i++) {
        const profile_unknown *u = &p->unknown[i];
        printf("         %10.4g s %8s x  %.80s%s%.60s\n", u->seconds, text_grouped(a, u->n),
               u->name, u->op ? "  in " : "", u->op ? u->op : "");
    }
    printf("\n");
}

/* For which kernels the host was late. */
static void print_late(const profiled *q)
{
    double late[PROFILE_KINDS];
    memcpy(late, q->p.waited, sizeof late);
    if (q->p.source == SOURCE_LOG || !(q->measured.host > 0)) return;
    cli_print("Host", "launches these late:");
    for (int n = 0; n < 3; n++) {
        int most = 0;
        for (int k = 1; k < PROFILE_KINDS; k++)
            if (late[k] > late[most]) most = k;
        if (late[most] <= 0) break;
        printf("%s %s (%.4g s, %lld kernels)", n ? "," : "", profile_kind_title(most),
               late[most] / q->p.steps, (long long)((double)q->p.kernels[most] / q->p.steps));
        late[most] = 0;
    }
    printf("\n\n");
}

/* Where memory is not the wall, what is predicted to lose is no fix of it. */
static bool loses(const profiled *q, const price_change *c)
{
    return c->words && c->gain < -0.005 && q->measured.wall != WALL_MEMORY;
}

static void print_fixes(const profiled *q, arena *a)
{
    int n = 0, lost = 0;
    for (int i = 0; i < q->n_fixes; i++) {
        const profile_fix *f = &q->fixes[i];
        const price_change *c = &f->change;
        lost += loses(q, c);
        if (loses(q, c)) continue;
        if (!n++)
            cli_print("Fixes", "for that wall, in the guides' order, with their predicted gain (! "
                               "does not fit):\n\n");
        if (c->words)
            printf("         %2d. %+6.1f %% %10s%s  %s\n                   %s\n", n, 100 * c->gain,
                   text_bytes(a, c->peak_bytes), c->fits ? " " : "!", f->what, c->words);
        else
            printf("         %2d. %s\n", n, f->what);
    }
    if (n) printf("\n");
    if (!lost) return;
    cli_print("Not", "recommended, because they are predicted to be slower:");
    for (int i = 0, k = 0; i < q->n_fixes; i++)
        if (loses(q, &q->fixes[i].change))
            printf("%s %s (%+.1f %%)", k++ ? ";" : "", q->fixes[i].what,
                   100 * q->fixes[i].change.gain);
    printf("\n\n");
}

static void print_wall(const profiled *q)
{
    if (q->measured.evidence)
        cli_print("Wall", "%s: %s\n         (predicted: %s)\n\n", wall_name(q->measured.wall),
                  q->measured.evidence, wall_name(q->predicted.wall));
}

/* ---- for people: the screen */

static const double LEAST_ROW = 0.01; /* of the step, on either side: a row of its own */

static const char *seconds_or_none(double x, arena *a)
{
    return isnan(x) ? "?" : x == 0 ? "" : screen_seconds(a, x);
}

/* Rows of the table: by what was measured, the largest first; the small ones are one. */
static int by_size(const void *x, const void *y)
{
    const profile_row *l = x, *r = y;
    double a = isnan(l->measured) ? l->predicted : l->measured,
           b = isnan(r->measured) ? r->predicted : r->measured;
    return (a < b) - (a > b);
}

static void put_table(const profiled *q, arena *a)
{
    static const screen_column measured = {"measured", false, 0}, percent = {"", false, 0},
                               predicted = {"predicted", false, 0}, ratio = {"ratio", false, 2},
                               hidden = {"hidden", false, 1}, kind = {"of a step", true, 0};
    const screen_column all[] = {measured, percent, predicted, ratio, hidden, kind},
                        few[] = {measured, percent, predicted, ratio, kind};
    bool any_hidden = false;
    double step = q->p.span / q->p.steps, least = LEAST_ROW * fmax(step, q->predicted_step);
    profile_row rows[PROFILE_ROWS + 2], rest = {.title = "rest"};
    int n = 0;
    for (int i = 0; i < q->n_rows; i++) {
        const profile_row *r = &q->rows[i];
        any_hidden |= r->hidden >= least;
        if (isnan(r->measured) || r->measured >= least || r->predicted >= least ||
            r->hidden >= least) {
            rows[n++] = *r;
            continue;
        }
        rest.measured += r->measured;
        rest.predicted += r->predicted;
    }
    qsort(rows, (size_t)n, sizeof *rows, by_size);
    if (rest.measured > 0 || rest.predicted > 0) rows[n++] = rest;
    rows[n++] = (profile_row){.title = "step", .measured = step, .predicted = q->predicted_step};
    int columns = any_hidden ? 6 : 5;
    const char **cells = ARENA_ARRAY(a, const char *, n *columns);
    for (int i = 0; i < n; i++) {
        const profile_row *r = &rows[i];
        bool both = r->measured > 0 && r->predicted >= least;
        const char **c = cells + i * columns;
        c[0] = seconds_or_none(r->measured, a);
        c[1] = r->measured > 0 ? arena_text(a, "%.0f %%", 100 * r->measured / step) : "";
        c[2] = seconds_or_none(r->predicted, a);
        c[3] = both ? arena_text(a, "%.2f", r->measured / r->predicted) : "";
        if (any_hidden) c[4] = r->hidden > 0 ? screen_seconds(a, r->hidden) : "";
        c[columns - 1] = r->title;
    }
    printf("\n");
    screen_table(any_hidden ? all : few, columns, cells, n);
}

/* Of what the guides do against the wall: what is predicted to gain most; where nothing is, what
 * has no prediction. */
static void put_fixes(const profiled *q, arena *a)
{
    enum { SHOWN = 2 };
    bool used[FIXES_MAX] = {false};
    int shown = 0;
    for (; shown < SHOWN; shown++) {
        int best = -1;
        for (int i = 0; i < q->n_fixes; i++) {
            const price_change *c = &q->fixes[i].change;
            bool gains = c->words && c->gain > 0.0005 && c->fits && !used[i];
            if (gains && (best < 0 || c->gain > q->fixes[best].change.gain)) best = i;
        }
        if (best < 0) break;
        const profile_fix *f = &q->fixes[best];
        used[best] = true;
        screen_line(shown ? "" : "TRY", "%s speed, %s  %s:  %s", screen_percent(a, f->change.gain),
                    screen_fits(a, f->change.peak_bytes, q->predicted.usable), f->what,
                    f->change.words);
    }
    for (int i = 0; i < q->n_fixes && !shown; i++)
        if (!q->fixes[i].change.words) screen_line(shown++ ? "" : "TRY", "%s", q->fixes[i].what);
    if (q->n_fixes > shown)
        screen_line(shown ? "" : "TRY", "%d %sfor this in the guides (--why)%s", q->n_fixes - shown,
                    shown ? "more " : "", shown ? "" : ": none fits and is predicted to be faster");
}

static void put_step(const profiled *q, arena *a)
{
    const profile *p = &q->p;
    const profile_log *l = &p->log;
    double step = p->span / p->steps, ratio = step / q->predicted_step;
    const char *of = q->without_optimizer ? " without the optimizer" : "";
    if (p->source == SOURCE_LOG && l->n_kept)
        screen_line("STEP", "%s measured, the median of the last %s of %s iterations",
                    screen_band(a, l->step_s, l->least_s, l->most_s), text_grouped(a, l->n_kept),
                    text_grouped(a, l->n_iterations));
    else if (p->span > 0)
        screen_line("STEP", "%s measured%s", screen_seconds(a, step),
                    p->steps > 1 ? arena_text(a, ", the mean of %g steps", p->steps) : "");
    if (p->span > 0)
        screen_line("", "%s predicted%s: it took %.2f times as long",
                    screen_seconds(a, q->predicted_step), of, ratio);
}

static void put_notes(const profiled *q)
{
    const profile *p = &q->p;
    const profile_log *l = &p->log;
    if (!p->marked)
        screen_line("NOTE", "the file does not mark steps: %g assumed (--steps N sets the number)",
                    p->steps);
    double ratio = p->span / p->steps / q->predicted_step;
    if (p->span > 0 && (ratio < 0.2 || ratio > 5))
        screen_line("NOTE", "measured over predicted is %.3g: is this a whole step of this recipe?",
                    ratio);
    if (p->gpu && !text_contains(p->gpu, q->hw->name))
        screen_line("NOTE", "measured on %s, predicted for %s (cluster.gpu)", p->gpu, q->hw->name);
    if (p->n_devices > 1)
        screen_line("NOTE", "%lld devices in the file: the busiest is shown",
                    (long long)p->n_devices);
    if (p->gemms_alone)
        screen_line(
            "NOTE",
            "%lld GEMMs have no operation around their launch: experts, projections and head "
            "share names and are counted as GEMM (PyTorch: record CPU operations; Nsight: "
            "--trace cuda,nvtx with autograd's NVTX ranges)",
            (long long)p->gemms_alone);
    if (p->source == SOURCE_LOG && l->n_iterations && !l->n_timers)
        screen_line("NOTE",
                    "the log has no timers (--timing-log-level 2): the breakdown of the step "
                    "is predicted");
    int64_t batch = recipe_int(&q->s->r, K_GBS);
    if (l->global_batch && l->global_batch != batch)
        screen_line("NOTE", "the log's global batch size is %lld, the recipe's %lld",
                    (long long)l->global_batch, (long long)batch);
    if (l->nan_iterations || l->skipped_iterations)
        screen_line("NOTE", "%lld iterations were skipped, %lld had NaN",
                    (long long)l->skipped_iterations, (long long)l->nan_iterations);
}

static void put_screen(const profiled *q, arena *a)
{
    const profile *p = &q->p;
    bool cpu = q->hw->arch == ARCH_CPU;
    screen_head(q->s, q->hw, a);
    screen_line("FILE", "%s: %s%s%s", q->path, profile_source_name(p->source), p->gpu ? " of " : "",
                p->gpu ? p->gpu : "");
    put_step(q, a);
    if (q->measured.evidence)
        screen_line("LIMITED", "by %s: %s%s", screen_wall(wall_name(q->measured.wall), cpu),
                    q->measured.evidence,
                    q->measured.wall == q->predicted.wall
                        ? ", as predicted"
                        : arena_text(a, " (predicted: %s)",
                                     screen_wall(wall_name(q->predicted.wall), cpu)));
    if (p->peak_bytes)
        screen_line("MEMORY", "%s reserved at most; predicted %s of %s",
                    screen_bytes(a, (double)p->peak_bytes),
                    screen_bytes(a, (double)q->predicted.peak_bytes),
                    screen_bytes(a, (double)q->predicted.usable));
    put_fixes(q, a);
    if (p->span > 0 && p->explained < 0.995)
        screen_line("UNKNOWN", "%s of %s have no kind and no cause (--everything)",
                    screen_seconds(a, p->busy[KIND_UNKNOWN] + p->idle[CAUSE_UNKNOWN]),
                    screen_seconds(a, p->span));
    put_notes(q);
    if (!q->why && !q->everything)
        screen_line("NEXT", "--why: every fix and who waited for the host  --everything: all "
                            "figures");
    if (p->span > 0) put_table(q, a);
}

void profile_print(const profiled *q, arena *a)
{
    put_screen(q, a);
    if (!q->why && !q->everything) return;
    printf("\n");
    screen_hold();
    if (q->everything) {
        print_head(q, a);
        if (q->p.span > 0) {
            print_time(q);
            print_unknown(q, a);
        }
        print_memory(q, a);
    }
    print_late(q);
    print_wall(q);
    print_fixes(q, a);
    screen_release();
}

/* ---- for programs */

json_t *profile_json(const profiled *q, arena *a)
{
    const profile *p = &q->p;
    profile_row_answer *rows = ARENA_ARRAY(a, profile_row_answer, q->n_rows);
    for (int i = 0; i < q->n_rows; i++) {
        const profile_row *r = &q->rows[i];
        rows[i] = (profile_row_answer){r->name, r->title, r->hidden, r->measured, r->predicted};
    }
    unknown_answer *unknown = ARENA_ARRAY(a, unknown_answer, p->n_unknown);
    for (int i = 0; i < p->n_unknown; i++) {
        const profile_unknown *u = &p->unknown[i];
        unknown[i] = (unknown_answer){u->name, u->n, u->seconds, u->op};
    }
    timer_answer *timers = ARENA_ARRAY(a, timer_answer, p->log.n_timers);
    for (int i = 0; i < p->log.n_timers; i++) {
        const log_timer *t = &p->log.timers[i];
        timers[i] = (timer_answer){t->name, {t->min, t->max}};
    }
    fix_answer *fixes = ARENA_ARRAY(a, fix_answer, q->n_fixes);
    for (int i = 0; i < q->n_fixes; i++) {
        const price_change *c = &q->fixes[i].change;
        fixes[i] = (fix_answer){q->fixes[i].what, c->words, c->words ? c->gain : NAN,
                                c->words ? c->fits : MAYBE_UNKNOWN};
    }
    bool known = q->measured.evidence != NULL;
    const profile_answer x = {.recipe = q->s->r.name,
                              .file = q->path,
                              .source = profile_source_name(p->source),
                              .steps = p->steps,
                              .measured_step_s = p->span / p->steps,
                              .predicted_step_s = q->predicted_step,
                              .explained = p->explained,
                              .kernels = p->n_kernels,
                              .launches = p->n_launches,
                              .host_waits = p->n_syncs,
                              .iterations = p->log.n_iterations,
                              .gpu = p->gpu,
                              .rows = rows,
                              .n_rows = q->n_rows,
                              .unknown = unknown,
                              .n_unknown = p->n_unknown,
                              .timers_s = timers,
                              .n_timers_s = p->log.n_timers,
                              .measured_peak_bytes = p->peak_bytes ? p->peak_bytes : FIELD_NONE,
                              .predicted_peak_bytes = q->predicted.peak_bytes,
                              .wall = known ? wall_name(q->measured.wall) : NULL,
                              .evidence = q->measured.evidence,
                              .predicted_wall = wall_name(q->predicted.wall),
                              .fixes = fixes,
                              .n_fixes = q->n_fixes};
    return answer_json(profile_answer, &x);
}

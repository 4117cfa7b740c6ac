/* diff_profiles.c - two profiles or logs, kind by kind.
 *
 * I1  Neither has a recipe: what is compared is what was measured. A log has the steps' least and
 *     most beside their median, and half of that is its spread; a profile has one number, and its
 *     noise is not known. */
#include "answer/answer.h"
#include "cli/diff_profiles.h"
#include "cli/screen.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "measure/profile/profile.h"

static bool ends_in(const char *word, const char *end)
{
    size_t length = strlen(word), n = strlen(end);
    return length > n && strcmp(word + length - n, end) == 0;
}

/* A profile of PyTorch, and neither a model's config.json nor a plan. */
static bool is_torch(const char *word)
{
    char start[4096];
    int fd;
    error ignored;
    ssize_t n = file_open(word, &fd, &ignored) ? 0 : read(fd, start, sizeof start - 1);
    if (fd >= 0) close(fd);
    start[n < 0 ? 0 : n] = 0;
    return strstr(start, "\"schemaVersion\"") || strstr(start, "\"traceEvents\"");
}

bool diff_is_profile(const char *word)
{
    static const char *const ends[] = {".log", ".out", ".sqlite", ".json.gz"};
    if (!file_exists(word) || file_is_folder(word)) return false;
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        if (ends_in(word, ends[i])) return true;
    return ends_in(word, ".json") && is_torch(word);
}

typedef struct profile_side {
    profile p;
    double step, spread; /* seconds; spread -1: not known */
} profile_side;

typedef struct profile_diff {
    const diff_files *f;
    profile_side side[2];
    double change, band; /* of the step; band -1: not known */
    double memory;       /* 0: not known of both */
    bool noise, differ;
} profile_diff;

static status read_side(profile_side *s, const char *word, arena *a, error *err)
{
    TRY(profile_read(&s->p, word, 0, a, err));
    s->step = s->p.span / s->p.steps;
    s->spread = -1;
    if (s->p.source == SOURCE_LOG && s->p.log.n_kept > 1) /* I1 */
        s->spread = (s->p.log.most_s - s->p.log.least_s) / 2;
    if (s->step > 0 && isfinite(s->step)) return OK;
    return error_set(err, ERR_INPUT, "%s: it contains no step; repair: record a longer profile",
                     word);
}

static void judge(profile_diff *d)
{
    const profile_side *x = &d->side[0], *y = &d->side[1];
    d->change = y->step / x->step - 1;
    d->band = x->spread < 0 || y->spread < 0 ? -1 : hypot(x->spread, y->spread) / x->step;
    d->noise = d->band >= 0 && fabs(d->change) <= d->band;
    if (x->p.peak_bytes && y->p.peak_bytes)
        d->memory = (double)y->p.peak_bytes / (double)x->p.peak_bytes - 1;
    d->differ =
        (fabs(d->change) > d->f->tolerance && !d->noise) || fabs(d->memory) > d->f->tolerance;
}

/* ---- for people */

static void put_ends(const profile_diff *d, arena *a)
{
    for (int i = 0; i < 2; i++) {
        const profile *p = &d->side[i].p;
        const char name[] = {(char)('A' + i), 0};
        bool log = p->source == SOURCE_LOG;
        screen_line(name, "%s: %s%s%s; %s a step of %g%s%s", d->f->words[i],
                    profile_source_name(p->source), p->gpu ? ", " : "", p->gpu ? p->gpu : "",
                    screen_band(a, d->side[i].step, log ? p->log.least_s : d->side[i].step,
                                log ? p->log.most_s : d->side[i].step),
                    p->steps, p->peak_bytes ? ", " : "",
                    p->peak_bytes ? screen_bytes(a, (double)p->peak_bytes) : "");
    }
}

enum { COLUMNS_OF_ROW = 5, ROWS_MOST = PROFILE_KINDS + CAUSE_COUNT + 2 };

typedef struct row_list {
    const char *cells[COLUMNS_OF_ROW * ROWS_MOST];
    int n;
    double step; /* of A; rows of less than a part of it are left out */
    arena *a;
} row_list;

static void add_row(row_list *l, const char *title, double x, double y)
{
    if (fabs(x) < 5e-4 * l->step && fabs(y) < 5e-4 * l->step) return;
    const char **c = l->cells + COLUMNS_OF_ROW * l->n++;
    c[0] = screen_seconds(l->a, x);
    c[1] = screen_seconds(l->a, y);
    c[2] = arena_text(l->a, "%s%s", y < x ? "-" : "+", screen_seconds(l->a, fabs(y - x)));
    c[3] = screen_percent(l->a, (y - x) / l->step);
    c[4] = title;
}

static void put_rows(const profile_diff *d, arena *a)
{
    static const screen_column columns[COLUMNS_OF_ROW] = {{"A", false, 0},
                                                          {"B", false, 0},
                                                          {"B - A", false, 0},
                                                          {"of A's step", false, 1},
                                                          {"measured, by kind", true, 0}};
    row_list l = {.step = d->side[0].step, .a = a};
    const profile *p = &d->side[0].p, *q = &d->side[1].p;
    for (int k = 0; k < PROFILE_KINDS; k++)
        add_row(
            &l,
            arena_text(a, "%s%s", profile_kind_title(k), profile_is_message(k) ? ", exposed" : ""),
            p->busy[k] / p->steps, q->busy[k] / q->steps);
    add_row(&l, "forward and backward (from the log)", p->mixed / p->steps, q->mixed / q->steps);
    for (int c = 0; c < CAUSE_COUNT; c++)
        add_row(&l, profile_cause_title((idle_cause)c), p->idle[c] / p->steps,
                q->idle[c] / q->steps);
    add_row(&l, "step", d->side[0].step, d->side[1].step);
    printf("\n");
    screen_table(columns, COLUMNS_OF_ROW, l.cells, l.n);
}

static void print_text(const profile_diff *d, arena *a)
{
    put_ends(d, a);
    screen_line("VERDICT", "B's step is %.1f %% %s than A's%s; tolerance %.3g %%: %s",
                100 * fabs(d->change), d->change < 0 ? "shorter" : "longer",
                d->memory != 0 ? arena_text(a, ", its peak %.1f %% %s", 100 * fabs(d->memory),
                                            d->memory < 0 ? "smaller" : "larger")
                               : "",
                100 * d->f->tolerance,
                screen_coloured(a, d->differ ? COLOUR_WARNING : COLOUR_OK,
                                d->differ ? "they differ" : "they do not differ"));
    if (d->band < 0)
        screen_line("NOISE", "unknown: a profile has no steps to compare with each other");
    else
        screen_line("NOISE",
                    "steps vary, so medians may differ by %.1f %%; they differ by %.1f %%: %s",
                    100 * d->band, 100 * fabs(d->change), d->noise ? "noise" : "more than noise");
    put_rows(d, a);
}

/* ---- for programs */

static void print_json(const profile_diff *d)
{
    const profile *p = &d->side[0].p, *q = &d->side[1].p;
    profile_end_answer ends[2];
    two_seconds_answer kinds[PROFILE_KINDS], idle[CAUSE_COUNT];
    for (int i = 0; i < 2; i++) {
        const profile *s = &d->side[i].p;
        ends[i] = (profile_end_answer){d->f->words[i], profile_source_name(s->source),
                                       d->side[i].step, s->steps, s->peak_bytes};
    }
    for (int k = 0; k < PROFILE_KINDS; k++)
        kinds[k] = (two_seconds_answer){profile_kind_name(k), p->busy[k] / p->steps,
                                        q->busy[k] / q->steps};
    for (int c = 0; c < CAUSE_COUNT; c++)
        idle[c] = (two_seconds_answer){profile_cause_name((idle_cause)c), p->idle[c] / p->steps,
                                       q->idle[c] / q->steps};
    const profiles_answer x = {.a = &ends[0],
                               .b = &ends[1],
                               .parts = kinds,
                               .n_parts = PROFILE_KINDS,
                               .idle = idle,
                               .n_idle = CAUSE_COUNT,
                               .time = d->change,
                               .memory = d->memory,
                               .band = d->band < 0 ? NAN : d->band,
                               .noise = d->noise,
                               .tolerance = d->f->tolerance,
                               .differ = d->differ};
    cli_json_print(answer_json(profiles_answer, &x));
}

status diff_profiles(const diff_files *f, int *code, arena *a, error *err)
{
    profile_diff *d = ARENA_NEW(a, profile_diff);
    status st = OK;
    d->f = f;
    for (int i = 0; i < 2 && !st; i++) st = read_side(&d->side[i], f->words[i], a, err);
    if (st) return st;
    judge(d);
    if (f->json)
        print_json(d);
    else
        print_text(d, a);
    *code = d->differ ? ERR_RULE : OK;
    return OK;
}

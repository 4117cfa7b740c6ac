/* tune_print.c - a tuning for people, turn by turn, and for programs. */
#include <stdio.h>

#include "cli/screen.h"
#include "cli/screen_price.h"
#include "cli/tune.h"

void tune_print_start(const tune *t, const setup *s, arena *a)
{
    bool cpu = t->base.arch == ARCH_CPU;
    screen_head(s, &t->base, a);
    screen_line("TRIALS", "in %s%s; %s of memory for each %s", t->dir,
                t->n ? arena_text(a, ", %d of them from before", t->n) : "",
                screen_bytes(a, (double)t->base.usable), screen_device(cpu));
    fflush(stdout);
}

void tune_print_trial(const trial *x, arena *a)
{
    screen_line(arena_text(a, "TRIAL %d", x->number), "%s", *x->change ? x->change : "no change");
    screen_line("", "because %s", x->reason);
    fflush(stdout);
}

void tune_print_end(const tune *t, const trial *x, bool everything)
{
    arena *a = arena_create();
    if (x->end != TRIAL_MEASURED) {
        screen_line("", "%s after %s%s%s", screen_coloured(a, COLOUR_ERROR, trial_end_name(x->end)),
                    screen_seconds(a, x->seconds), x->said ? ": " : "", x->said ? x->said : "");
        fflush(stdout);
        arena_destroy(a);
        return;
    }
    textbuf line = text_init(a);
    text_add(&line, "measured %s a step", screen_seconds(a, x->step_s));
    if (everything) text_add(&line, " (half of the steps within %.1f %%)", 100 * x->spread);
    const trial *before = NULL;
    for (int i = 0; i < x->number; i++)
        if (t->trials[i].end == TRIAL_MEASURED && (!before || t->trials[i].step_s < before->step_s))
            before = &t->trials[i];
    if (before)
        text_add(&line, ", %s against trial %d", screen_percent(a, x->step_s / before->step_s - 1),
                 before->number);
    if (x->expected_s > 0) text_add(&line, "; expected %s", screen_seconds(a, x->expected_s));
    if (x->evidence)
        text_add(&line, "; limited by %s",
                 screen_wall(wall_name(x->wall), t->base.arch == ARCH_CPU));
    screen_line("", "%s", line.s);
    if (x->evidence && everything) screen_line("", "%s: %s", wall_name(x->wall), x->evidence);
    fflush(stdout);
    arena_destroy(a);
}

void tune_print_close(int n)
{
    screen_line("CONFIRM",
                "the fastest %d trials are too close to tell apart: they run again, in turn", n);
    fflush(stdout);
}

void tune_print_confirmed(const tune *t)
{
    arena *a = arena_create();
    for (int i = 0; i < t->n; i++) {
        const trial *x = &t->trials[i];
        if (x->rounds)
            screen_line("", "trial %d: %s a step (median of %d rounds)", x->number,
                        screen_seconds(a, x->step_s), x->rounds);
    }
    fflush(stdout);
    arena_destroy(a);
}

static const trial *first_measured(const tune *t)
{
    for (int i = 0; i < t->n; i++)
        if (t->trials[i].end == TRIAL_MEASURED) return &t->trials[i];
    return NULL;
}

/* All trials, then what follows from them: that is what stays in sight. */
void tune_print_done(const tune *t, const char *why, double seconds)
{
    static const screen_column columns[] = {{"trial", false, 0},
                                            {"measured", false, 0},
                                            {"", false, 1},
                                            {"expected", false, 2},
                                            {"change", true, 0}};
    enum { N = sizeof columns / sizeof columns[0] };
    arena *a = arena_create();
    const trial *best = tune_pick(t), *first = first_measured(t);
    const char **cells = ARENA_ARRAY(a, const char *, N *(t->n + 1));
    for (int i = 0; i < t->n; i++) {
        const trial *x = &t->trials[i];
        const char **c = cells + N * i;
        bool timed = x->end == TRIAL_MEASURED;
        c[0] = arena_text(a, "%d", x->number);
        c[1] = timed ? screen_seconds(a, x->step_s) : trial_end_name(x->end);
        c[2] = timed && x != first ? screen_percent(a, x->step_s / first->step_s - 1) : NULL;
        c[3] = x->expected_s > 0 ? screen_seconds(a, x->expected_s) : NULL;
        c[4] = *x->change ? x->change : "none";
    }
    printf("\n");
    if (t->n) screen_table(columns, N, cells, t->n);
    if (t->n) printf("\n");
    if (best)
        screen_line("BEST", "trial %d, %s a step: %s", best->number,
                    screen_seconds(a, best->step_s),
                    *best->change ? best->change : "the recipe as given");
    else
        screen_line("BEST", "none: no trial was measured");
    if (best)
        screen_line("GAINED", "%.1f %% of the first trial's %s, in %d trial%s and %s",
                    100 * (1 - best->step_s / first->step_s), screen_seconds(a, first->step_s),
                    t->n, t->n > 1 ? "s" : "", screen_seconds(a, seconds));
    screen_line("ENDED", "%s", why);
    if (best)
        screen_line("NEXT", "moefold %s %s/best.yaml  moefold report %s -o page.html",
                    t->base.arch == ARCH_CPU ? "train" : "launch", t->dir, t->dir);
    screen_line("FILES", "%s/trials.jsonl  %s/hardware.yaml", t->dir, t->dir);
    arena_destroy(a);
}

const tune_answer *tune_answer_of(const tune *t, const char *why, arena *a)
{
    tune_answer *out = ARENA_NEW(a, tune_answer);
    trial_answer *trials = ARENA_ARRAY(a, trial_answer, t->n);
    const trial *best = tune_pick(t), *first = first_measured(t);
    for (int i = 0; i < t->n; i++) {
        const trial *x = &t->trials[i];
        trials[i] = (trial_answer){.trial = x->number,
                                   .from = x->from,
                                   .change = x->change,
                                   .reason = x->reason,
                                   .end = trial_end_name(x->end),
                                   .step_s = x->step_s,
                                   .spread = x->spread,
                                   .expected_s = x->expected_s,
                                   .seconds = x->seconds,
                                   .peak_bytes = x->peak_bytes,
                                   .rounds = x->rounds,
                                   .said = x->said,
                                   .wall = x->evidence ? wall_name(x->wall) : NULL,
                                   .evidence = x->evidence};
    }
    *out = (tune_answer){.dir = t->dir,
                         .ended = why,
                         .trials = trials,
                         .n_trials = t->n,
                         .best = best ? best->number : FIELD_NONE,
                         .gain = best ? first->step_s / best->step_s - 1 : NAN};
    return out;
}

json_t *tune_json(const tune *t, const char *why, arena *a)
{
    return answer_json(tune_answer, tune_answer_of(t, why, a));
}

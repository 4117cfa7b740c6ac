/* tune_print.c - a tuning for people, turn by turn, and for programs. */
#include <stdio.h>

#include "cli/tune.h"

void tune_print_start(const tune *t, const setup *s, arena *a)
{
    cli_print("Tune", "%s: %lld rank%s of %s, %s usable each; trials in %s%s\n", s->r.name,
              (long long)s->lay.world, s->lay.world == 1 ? "" : "s", t->base.name,
              text_bytes(a, t->base.usable), t->dir,
              t->n ? arena_text(a, ", %d of them from before", t->n) : "");
}

void tune_print_trial(const tune_next *n, arena *a)
{
    const trial *x = &n->next;
    printf("\n");
    cli_print(arena_text(a, "Trial %d", x->number), " %s\n          because %s\n",
              *x->change ? x->change : "no change", x->reason);
    fflush(stdout);
}

void tune_print_end(const tune *t, const trial *x)
{
    if (x->end != TRIAL_MEASURED) {
        printf("          %s after %.1f s%s%s\n", trial_end_name(x->end), x->seconds,
               x->said ? ": " : "", x->said ? x->said : "");
        return;
    }
    printf("          measured %.4g s a step (half of the steps within %.1f %%)", x->step_s,
           100 * x->spread);
    if (x->expected_s > 0)
        printf(", expected %.4g: %+.1f %%", x->expected_s, 100 * (x->step_s / x->expected_s - 1));
    const trial *before = NULL;
    for (int i = 0; i < x->number; i++)
        if (t->trials[i].end == TRIAL_MEASURED && (!before || t->trials[i].step_s < before->step_s))
            before = &t->trials[i];
    if (before)
        printf("; %+.1f %% against trial %d", 100 * (x->step_s / before->step_s - 1),
               before->number);
    printf("\n");
    if (x->evidence) printf("          wall: %s: %s\n", wall_name(x->wall), x->evidence);
    fflush(stdout);
}

void tune_print_close(int n)
{
    printf("\n");
    cli_print("Confirm",
              "the fastest %d trials are too close to tell apart: they run again, alternating\n",
              n);
    fflush(stdout);
}

void tune_print_confirmed(const tune *t)
{
    for (int i = 0; i < t->n; i++) {
        const trial *x = &t->trials[i];
        if (x->rounds)
            printf("          trial %d: %.4g s a step (median of %d rounds)\n", x->number,
                   x->step_s, x->rounds);
    }
    fflush(stdout);
}

static const trial *first_measured(const tune *t)
{
    for (int i = 0; i < t->n; i++)
        if (t->trials[i].end == TRIAL_MEASURED) return &t->trials[i];
    return NULL;
}

void tune_print_done(const tune *t, const char *why, double seconds)
{
    const trial *best = tune_pick(t), *first = first_measured(t);
    printf("\n");
    cli_print("Ended", "%s\n", why);
    if (!best) {
        cli_print("Best", "none: no trial was measured\n");
        return;
    }
    cli_print("Best", "trial %d, %.4g s a step: %s\n", best->number, best->step_s,
              *best->change ? best->change : "the recipe as given");
    cli_print("Gained", "%.1f %% of the first trial's %.4g s, in %d trials and %.0f s\n",
              100 * (1 - best->step_s / first->step_s), first->step_s, t->n, seconds);
    cli_print("Files", "%s/best.yaml; %s/trials.jsonl; %s/hardware.yaml\n", t->dir, t->dir, t->dir);
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

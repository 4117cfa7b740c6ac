/* tune_cluster.c - trials that run where only the user can: written, and told.
 *
 * I1  One trial is out at a time: the next one is chosen by what the last one said. */
#include <stdio.h>

#include "base/file.h"
#include "cli/launch.h"
#include "cli/screen.h"
#include "cli/tune.h"

enum { STEPS = 20 }; /* the later half counts */

static status write_trial(tune *t, trial *x, arena *a, error *err)
{
    recipe *r = ARENA_NEW(a, recipe);
    setup *s = ARENA_NEW(a, setup);
    textbuf b = text_init(a);
    if (!tune_recipe(t, x->change, r, a))
        return error_set(err, ERR_RULE, "trial %d cannot be laid out: %s", x->number, x->change);
    recipe_set(r, K_TRAIN_ITERS, value_of_int(STEPS), "a trial's");
    recipe_set(r, K_LOG_INTERVAL, value_of_int(1), "a trial's");
    TRY(setup_init(s, r, a, err));
    const megatron_job m = {.given = r,
                            .s = s,
                            .system = MEGATRON_LM,
                            .command = "tune",
                            .j = {.name = arena_text(a, "trial-%03d", x->number),
                                  .log = "log",
                                  .time = "1:00:00",
                                  .why_time = arena_text(a, "%d steps of one trial", STEPS)}};
    status st = launch_megatron(&b, &m, err);
    if (st == ERR_RULE)
        return error_set(err, st,
                         "trial %d (%s) is not written, because Megatron-LM would not run it; "
                         "repair: what is named above, as an override or by --pin",
                         x->number, *x->change ? x->change : "no change");
    TRY(st);
    TRY(tune_write_recipe(t, x, err));
    return file_write(tune_path(t, x, "job.sh"), b.s, b.n, err);
}

static const trial *pending(const tune *t)
{
    return t->n && t->trials[t->n - 1].end == TRIAL_PENDING ? &t->trials[t->n - 1] : NULL;
}

static void print_next(const tune *t, const trial *x, arena *a)
{
    tune_print_trial(x, a);
    screen_line("FILES", "%s (recipe)  %s (batch script of Megatron-LM)",
                tune_path(t, x, "recipe.yaml"), tune_path(t, x, "job.sh"));
    screen_line("NEXT", "sbatch it, then read its log:  moefold tune RECIPE --dir %s --tell LOG",
                t->dir);
}

status tune_write_next(tune *t, const tune_next *n, bool json, arena *a, error *err)
{
    const trial *out = pending(t);
    if (!out && !n->done) { /* I1 */
        trial x = n->next;
        x.end = TRIAL_PENDING;
        TRY(write_trial(t, &x, a, err));
        TRY(tune_record(t, &x, err));
        out = pending(t);
    }
    const char *why = out ? "a trial is waiting for its log: --tell LOG" : n->why;
    if (json)
        cli_json_print(tune_json(t, why, t->a));
    else if (out)
        print_next(t, out, a);
    else
        tune_print_done(t, why, 0);
    return OK;
}

status tune_take_log(tune *t, const char *log, bool json, arena *a, error *err)
{
    const trial *out = pending(t);
    if (!out)
        return error_set(
            err, ERR_INPUT,
            "--tell %s: no trial of %s is waiting for a log; repair: write one with --next first",
            log, t->dir);
    trial x = *out;
    TRY(trial_told(t, &x, log, err));
    TRY(tune_record(t, &x, err));
    if (json) {
        cli_json_print(tune_json(t, "told", t->a));
        return OK;
    }
    screen_line(arena_text(a, "TRIAL %d", x.number), "%s", *x.change ? x.change : "no change");
    tune_print_end(t, &x, true);
    screen_line("NEXT", "moefold tune RECIPE --dir %s --next  moefold report %s -o page.html",
                t->dir, t->dir);
    return OK;
}

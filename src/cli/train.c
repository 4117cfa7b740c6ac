/* train.c - `moefold train`: runs a recipe on this machine. */
#include <stdio.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "kernels/cpu/blas.h"
#include "run/trainer.h"

/* A recipe that breaks a rule does not start, as `check` says. */
static bool refuse(const setup *s, arena *a)
{
    violations found;
    rules_check(&found, s, false, a);
    for (int i = 0; i < found.n; i++) {
        const violation *v = &found.list[i];
        if (v->rule->severity == NOTE) continue;
        fprintf(stderr, "moefold train: %s %s: %s\n", severity_name(v->rule->severity), v->rule->id,
                v->message);
        for (const char *const *p = v->n_repairs ? v->repairs[0] : NULL; p && *p; p++)
            fprintf(stderr, "    repair: %s\n", cli_quoted(a, *p));
    }
    return found.n_errors > 0;
}

/* Knobs that ask for what `train` does not do yet: better said than ignored. */
static const knob_id not_yet[] = {
    K_RAMPUP,       K_SKIP_ITERS, K_RESET_POSITIONS, K_RESET_MASK,
    K_FORCE_RANDOM, K_MTP_DETACH, K_MTP_REPEATED,    K_PER_LAYER_LOG,
    K_TENSORBOARD,  K_WANDB,      K_LOG_PROGRESS,    K_DP_RANDOM_INIT,
    K_ASYNC_SAVE,   K_RETAIN,     K_COMM_DELAY,      K_PROBS_ON_INPUT};

static status nothing_is_ignored(const recipe *r, arena *a, error *err)
{
    for (size_t i = 0; i < sizeof not_yet / sizeof not_yet[0]; i++) {
        knob_id k = not_yet[i];
        value v = r->knob[k].v;
        bool asked = v.kind == V_BOOL ? v.flag : v.kind == V_LIST ? v.list.n > 0 : v.kind != V_NULL;
        if (asked)
            return error_set(err, ERR_RULE, "%s=%s: `train` does not do that yet; repair: %s=null",
                             knobs[k].key, value_text(a, v), knobs[k].key);
    }
    return OK;
}

/* What this machine can run today. */
static status here(const setup *s, error *err)
{
    if (!recipe_is(&s->r, K_GPU, "cpu"))
        return error_set(err, ERR_RULE,
                         "cluster.gpu=%s: there is no GPU backend yet; cluster.gpu=cpu trains here",
                         recipe_word(&s->r, K_GPU));
    if (s->lay.world != 1)
        return error_set(
            err, ERR_RULE,
            "cluster.n_gpus=%lld: one rank trains here yet; set the parallel sizes to 1",
            (long long)s->lay.world);
    return OK;
}

static void print_summary(const train_summary *sum, arena *a)
{
    fprintf(stderr, "%s after %lld steps: lm loss %.4f -> %.4f, %s tokens a second\n",
            sum->interrupted ? "left" : "done", (long long)sum->iterations, sum->first_loss,
            sum->last_loss, text_grouped(a, (int64_t)sum->tokens_per_second));
}

int command_train(int argc, char **argv)
{
    train_options o = {0};
    bool done = false;
    const char *threads = NULL;
    const cli_option options[] = {
        {"--json", NULL, "iteration lines as JSON (docs/JSON.md)", &o.json, NULL},
        {"--metrics", "FILE", "write every iteration line to this file as JSON", NULL, &o.metrics},
        {"--threads", "N", "threads of the kernels; unset: all cores", NULL, &threads},
        {"--plain", NULL, "use the plain C kernels only", &o.plain, NULL},
    };
    arena *a = arena_create();
    recipe *r = ARENA_NEW(a, recipe);
    setup *s = ARENA_NEW(a, setup);
    error err = {{0}};
    train_summary sum = {0};
    status st = cli_read(a, "train", argc, argv, options, 4, r, &done, &err);
    if (!st && !done) st = setup_init(s, r, a, &err);
    if (!st && !done && refuse(s, a)) {
        arena_destroy(a);
        return ERR_RULE;
    }
    if (threads) o.threads = atoi(threads);
    if (!st && !done) st = here(s, &err);
    if (!st && !done) st = nothing_is_ignored(&s->r, a, &err);
    if (!st && !done) {
        fprintf(stderr, "%s\n", blas_describe());
        st = trainer_run(s, &o, &sum, a, &err);
    }
    int code = st ? cli_fail("train", st, &err) : OK;
    if (!st && !done) print_summary(&sum, a);
    arena_destroy(a);
    return code;
}

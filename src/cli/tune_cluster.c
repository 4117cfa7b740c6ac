/* tune_cluster.c - trials that run where only the user can: written, and told.
 *
 * I1  One trial is out at a time: the next one is chosen by what the last one said. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/tune.h"

enum { STEPS = 20 }; /* the later half counts */

/* The program's own words into a file. */
static status write_by_self(const char *path, char *const *args, error *err)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
        if (file < 0) _exit(126);
        dup2(file, 1);
        execv("/proc/self/exe", args);
        _exit(127);
    }
    int left = 0;
    if (pid > 0 && waitpid(pid, &left, 0) == pid && WIFEXITED(left) && WEXITSTATUS(left) == 0)
        return OK;
    return error_set(err, ERR_RULE,
                     "%s could not be written: Megatron has no flags for this recipe (see above); "
                     "repair: --pin the knob that is named",
                     path);
}

static status write_job(const tune *t, const trial *x, const setup *s, arena *a, error *err)
{
    int64_t node = s->lay.world < t->base.gpus_per_node ? s->lay.world : t->base.gpus_per_node;
    if (node < 1) node = 1;
    textbuf b = text_init(a);
    text_add(&b,
             "#!/bin/bash\n"
             "#SBATCH --job-name=trial-%03d\n"
             "#SBATCH --nodes=%lld\n"
             "#SBATCH --ntasks-per-node=1\n"
             "#SBATCH --gpus-per-node=%lld\n"
             "#SBATCH --time=1:00:00\n"
             "#SBATCH --output=log\n"
             "# Run it in Megatron-LM's folder, or set MEGATRON. Put your data, tokenizer\n"
             "# and paths into EXTRA. Then: moefold tune RECIPE --dir DIR --tell log\n"
             "set -euo pipefail\n"
             "here=$(cd \"$(dirname \"$0\")\" && pwd)\n"
             "[ -n \"${SLURM_SUBMIT_DIR:-}\" ] && here=$SLURM_SUBMIT_DIR\n"
             "export PET_RDZV_BACKEND=c10d PET_RDZV_ID=${SLURM_JOB_ID:-1}\n"
             "first=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)\n"
             "export PET_RDZV_ENDPOINT=$first:29500\n"
             "cd \"${MEGATRON:-.}\"\n"
             "srun bash \"$here/megatron.sh\"\n",
             x->number, (long long)((s->lay.world + node - 1) / node), (long long)node);
    return file_write(tune_path(t, x, "job.sh"), b.s, b.n, err);
}

static status write_trial(tune *t, trial *x, arena *a, error *err)
{
    try_result p;
    if (!tune_price_of(t, x->change, &p, a))
        return error_set(err, ERR_RULE, "trial %d cannot be laid out: %s", x->number, x->change);
    TRY(tune_write_recipe(t, x, err));
    char *args[] = {"moefold",
                    "show",
                    arena_text(a, "%s", tune_path(t, x, "recipe.yaml")),
                    arena_text(a, "train.train_iters=%d", STEPS),
                    "logger.log_interval=1",
                    "--as",
                    "megatron-lm",
                    NULL};
    TRY(write_by_self(tune_path(t, x, "megatron.sh"), args, err));
    return write_job(t, x, p.s, a, err);
}

static const trial *pending(const tune *t)
{
    return t->n && t->trials[t->n - 1].end == TRIAL_PENDING ? &t->trials[t->n - 1] : NULL;
}

static void print_next(const tune *t, const trial *x, arena *a)
{
    cli_print(arena_text(a, "Trial %d", x->number), " %s\n          because %s\n",
              *x->change ? x->change : "no change", x->reason);
    cli_print("Files", "%s (recipe), %s, %s\n", tune_path(t, x, "recipe.yaml"),
              tune_path(t, x, "megatron.sh"), tune_path(t, x, "job.sh"));
    cli_print("Then", "then read its log: moefold tune RECIPE --dir %s --tell LOG\n", t->dir);
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
    cli_print(arena_text(a, "Trial %d", x.number), " %s\n", *x.change ? x.change : "no change");
    tune_print_end(t, &x);
    cli_print("Then", "moefold tune RECIPE --dir %s --next\n", t->dir);
    return OK;
}

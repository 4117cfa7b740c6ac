/* launch.c - `moefold launch`: the batch script that trains a recipe on its cluster, with Megatron
 * or with our own runtime, whichever moefold.target names. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/maths.h"
#include "base/stop.h"
#include "cli/launch.h"
#include "cli/runtime.h"
#include "cli/verdict.h"
#include "config/target.h"

typedef struct launch_options {
    const char *file, *time, *as;
    bool requeue;
} launch_options;

/* The words of the command line that `train` is to get: all but our own options. */
static const char *train_command(int argc, char **argv, arena *a)
{
    char self[PATH_MAX] = "moefold";
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n > 0) self[n] = 0;
    textbuf t = text_init(a);
    text_add(&t, "%s train", word_quoted(a, self));
    for (int i = 1; i < argc; i++) {
        if (text_in("--slurm|--requeue", '|', argv[i]) || text_starts(argv[i], "--out=") ||
            text_starts(argv[i], "--time=") || text_starts(argv[i], "--as="))
            continue;
        if (text_in("--out|--time|--as", '|', argv[i]))
            i++;
        else
            text_add(&t, " %s", word_quoted(a, argv[i]));
    }
    return t.s;
}

/* Name, log and time, which are the same whoever trains. */
static slurm_job slurm_job_of(const setup *s, const char *time, arena *a)
{
    const char *base = strrchr(s->r.name, '/');
    int64_t minutes = recipe_int(&s->r, K_EXIT_MINUTES);
    slurm_job j = {.log = "%x-%j.out", .time = time, .why_time = "as asked for"};
    j.name = slurm_job_name(arena_text(a, "moefold-%s", base && base[1] ? base + 1 : s->r.name), a);
    if (!time && minutes > 0 && minutes < 1 << 24) {
        j.time = arena_text(a, "%" PRId64, minutes + 15);
        j.why_time = "train.exit_duration_in_mins plus 15 minutes to start and to save";
    } else if (!time) {
        j.time = "1-00:00:00";
        j.why_time = "no --time given; 1 day assumed";
    }
    return j;
}

/* Threads and binding: srun gives each rank an equal part of its node's cores. Open MPI is told who
 * it is by PMIx. A rank that fails ends all; SIGTERM comes early enough to write a checkpoint, and
 * the script outlives it. */
static void put_own(textbuf *t, const setup *s, slurm_job j, const char *trains, bool requeue)
{
    int64_t world = s->lay.world;
    j.tasks = world;
    j.tasks_per_node = s->lay.gpus_per_node < world ? s->lay.gpus_per_node : world;
    j.nodes = ceil_div(world, j.tasks_per_node);
    if (!recipe_on_cpu(&s->r)) j.gpus_per_node = j.tasks_per_node;
    j.summary = arena_text(t->a, "Trains on %" PRId64 " ranks; submit it with sbatch.", world);
    slurm_put_head(t, &j);
    text_add(t, "#SBATCH --signal=TERM@300\n#SBATCH --open-mode=append\n");
    if (requeue) text_add(t, "#SBATCH --requeue\n");
    text_add(t, "set -eu\n");
    text_add(t, "trap : TERM # ranks that are told to stop are waited for\n\n");
    text_add(t, "threads=$((SLURM_CPUS_ON_NODE / %" PRId64 "))\n", j.tasks_per_node);
    text_add(t, "export OMP_NUM_THREADS=$((threads > 0 ? threads : 1))\n");
    text_add(t, "code=0\n");
    text_add(t, "srun --mpi=pmix --kill-on-bad-exit=1 --cpus-per-task=$OMP_NUM_THREADS "
                "--cpu-bind=cores \\\n");
    text_add(t, "    %s || code=$?\n", trains);
    if (requeue) {
        text_add(t, "# %d: stopped before its last step, and saved: the next part resumes there\n",
                 STOP_EXIT);
        text_add(t, "[ \"$code\" != %d ] || scontrol requeue \"$SLURM_JOB_ID\" || true\n",
                 STOP_EXIT);
    }
    text_add(t, "exit \"$code\"\n");
}

/* A word that ends up in a comment line of the script must not end that line. */
static bool is_time(const char *word)
{
    return word[0] && word[strspn(word, "0123456789:-")] == 0;
}

static status read_options(const recipe *r, const launch_options *o, bool megatron, error *err)
{
    if (o->time && !is_time(o->time))
        return error_set(err, ERR_INPUT,
                         "--time %s: Slurm takes minutes, hours:minutes:seconds or "
                         "days-hours:minutes:seconds, such as 1-00:00:00",
                         o->time);
    if (o->as && !text_in("megatron-lm|megatron-bridge", '|', o->as))
        return error_set(err, ERR_INPUT, "--as %s: known are megatron-lm and megatron-bridge",
                         o->as);
    if (o->as && !megatron)
        return error_set(err, ERR_INPUT,
                         "--as %s: %s=moefold (%s) is trained by this program; repair: leave --as "
                         "out, or %s=megatron",
                         o->as, knobs[K_TARGET].key, r->knob[K_TARGET].why, knobs[K_TARGET].key);
    if (o->requeue && megatron)
        return error_set(err, ERR_INPUT,
                         "--requeue: Megatron ends with the same code whether it is done or was "
                         "stopped; repair: leave --requeue out");
    if (o->requeue && !recipe_given(r, K_SAVE))
        return error_set(err, ERR_INPUT,
                         "--requeue: %s is not set, so each part of the job would begin at step 0; "
                         "repair: %s=FOLDER, on a file system that all nodes see",
                         knobs[K_SAVE].key, knobs[K_SAVE].key);
    return OK;
}

static status write_out(const textbuf *t, const char *path, error *err)
{
    if (!path) {
        fwrite(t->s, 1, t->n, stdout); /* main looks whether it could be written */
        return OK;
    }
    status st = file_write(path, t->s, t->n, err);
    if (st) return error_prefix(err, st, "--out");
    fprintf(stderr, "moefold launch: wrote %s; start it with: sbatch %s\n", path,
            word_quoted(t->a, path));
    return OK;
}

/* A prediction is no refusal: who measured otherwise may start the job. */
static void warn_of_memory(const setup *s, arena *a)
{
    fit f;
    violations found;
    error ignored;
    rules_check(&found, s, false, a);
    if (fit_asked(&f, s, &found, a, &ignored) || f.why_not || f.fits) return;
    fprintf(stderr,
            "moefold launch: warning: this job will run out of memory: %s; repair: `moefold check "
            "RECIPE --fix`, with the words of this command\n",
            cli_fit_text(&f, a));
}

/* `refused`: rules were broken, and it was said which. */
static status launch(const recipe *given, const setup *s, const cli_words *w,
                     const launch_options *o, bool *refused, error *err)
{
    arena *a = given->a;
    bool megatron = target_of(&s->r) == TARGET_MEGATRON;
    textbuf t = text_init(a);
    TRY(read_options(&s->r, o, megatron, err));
    const slurm_job j = slurm_job_of(s, o->time, a);
    if (megatron) {
        const char *as = o->as                                   ? o->as
                         : s->r.knob[K_SYSTEM].from == FROM_USER ? recipe_word(&s->r, K_SYSTEM)
                                                                 : "megatron-lm";
        bool bridge = text_equal(as, "megatron-bridge");
        const megatron_job m = {.given = given,
                                .s = s,
                                .system = bridge ? MEGATRON_BRIDGE : MEGATRON_LM,
                                .command = "launch",
                                .j = j};
        TRY(launch_megatron(&t, &m, err));
        warn_of_memory(s, a);
        return write_out(&t, o->file, err);
    }
    TRY(cli_needs_file(given, err));
    *refused = cli_refuse("launch", s, a);
    if (*refused) return OK;
    TRY(cli_can_run(s, a, err));
    put_own(&t, s, j, train_command(w->argc, w->argv, a), o->requeue);
    return write_out(&t, o->file, err);
}

int command_launch(int argc, char **argv)
{
    bool slurm = false, done = false, refused = false;
    launch_options o = {0};
    const cli_option options[] = {
        {"--as", "SYSTEM",
         "for a recipe whose moefold.target is megatron: megatron-lm or megatron-bridge; unset: "
         "the recipe's moefold.system, else megatron-lm",
         NULL, &o.as},
        {"--slurm", NULL, "write a script for sbatch; the only kind so far, so it may be left out",
         &slurm, NULL},
        {"--requeue", NULL, "when it was told to stop and has saved, the job is queued again",
         &o.requeue, NULL},
        {"--out", "FILE", "write the script to this file instead of printing it", NULL, &o.file},
        {"--time", "TIME", "time limit of the job, in Slurm's format", NULL, &o.time},
    };
    arena *a = arena_create();
    recipe *r = ARENA_NEW(a, recipe);
    setup *s = ARENA_NEW(a, setup);
    error err = {{0}};
    const cli_words words = {"launch", argc, argv, options, 5};
    status st = cli_read(a, &words, r, &done, &err);
    if (!st && !done) st = setup_init(s, r, a, &err);
    if (!st && !done) st = launch(r, s, &words, &o, &refused, &err);
    int code = st ? cli_fail("launch", st, &err) : refused ? ERR_RULE : OK;
    arena_destroy(a);
    return code;
}

/* launch.c - `moefold launch`: the batch script that trains a recipe on its cluster. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/maths.h"
#include "base/stop.h"
#include "cli/runtime.h"

typedef struct slurm_job {
    const char *command; /* moefold train RECIPE ... */
    const char *time, *why_time;
    int64_t nodes, tasks_per_node, world;
    bool gpus, requeue;
} slurm_job;

/* The words of the command line that `train` is to get: all but our own options. */
static const char *train_command(int argc, char **argv, arena *a)
{
    char program[PATH_MAX] = "moefold";
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    if (n > 0) program[n] = 0;
    textbuf t = text_init(a);
    text_add(&t, "%s train", word_quoted(a, program));
    for (int i = 1; i < argc; i++) {
        if (text_in("--slurm|--requeue", '|', argv[i]) || text_starts(argv[i], "--out=") ||
            text_starts(argv[i], "--time="))
            continue;
        if (text_equal(argv[i], "--out") || text_equal(argv[i], "--time"))
            i++;
        else
            text_add(&t, " %s", word_quoted(a, argv[i]));
    }
    return t.s;
}

/* Letters that a name of a job may have. */
static const char *job_name(const setup *s, arena *a)
{
    const char *base = strrchr(s->r.name, '/');
    char *name = arena_text(a, "moefold-%s", base && base[1] ? base + 1 : s->r.name);
    for (char *p = name; *p; p++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_", *p))
            *p = '-';
    return name;
}

static slurm_job slurm_job_of(const setup *s, const char *time, arena *a)
{
    int64_t per_node = s->lay.gpus_per_node < s->lay.world ? s->lay.gpus_per_node : s->lay.world;
    int64_t minutes = recipe_int(&s->r, K_EXIT_MINUTES);
    slurm_job j = {.time = time, .why_time = "as asked for"};
    j.world = s->lay.world;
    j.tasks_per_node = per_node;
    j.nodes = ceil_div(j.world, per_node);
    j.gpus = !recipe_on_cpu(&s->r);
    if (!time && minutes > 0 && minutes < 1 << 24) {
        j.time = arena_text(a, "%" PRId64, minutes + 15);
        j.why_time = "train.exit_duration_in_mins plus 15 minutes to start and to save";
    } else if (!time) {
        j.time = "1-00:00:00";
        j.why_time = "no --time given; 1 day assumed";
    }
    return j;
}

static void write_header(textbuf *t, const setup *s, const slurm_job *j, arena *a)
{
    text_add(t, "#!/bin/bash\n");
    text_add(t, "# Trains on %" PRId64 " ranks; submit it with sbatch. Time limit: %s.\n", j->world,
             j->why_time);
    text_add(t, "#SBATCH --job-name=%s\n", job_name(s, a));
    text_add(t, "#SBATCH --nodes=%" PRId64 "\n", j->nodes);
    text_add(t, "#SBATCH --ntasks=%" PRId64 "\n", j->world);
    text_add(t, "#SBATCH --ntasks-per-node=%" PRId64 "\n", j->tasks_per_node);
    if (j->gpus) text_add(t, "#SBATCH --gpus-per-node=%" PRId64 "\n", j->tasks_per_node);
    text_add(t, "#SBATCH --exclusive\n");
    text_add(t, "#SBATCH --time=%s\n", j->time);
    text_add(t, "#SBATCH --signal=TERM@300\n");
    text_add(t, "#SBATCH --output=%%x-%%j.out\n");
    text_add(t, "#SBATCH --open-mode=append\n");
    if (j->requeue) text_add(t, "#SBATCH --requeue\n");
}

/* Threads and binding: srun gives each rank an equal part of its node's cores. Open MPI is told who
 * it is by PMIx. A rank that fails ends all; SIGTERM comes early enough to write a checkpoint, and
 * the script outlives it. */
static void write_script(textbuf *t, const setup *s, const slurm_job *j, arena *a)
{
    write_header(t, s, j, a);
    text_add(t, "set -eu\n");
    text_add(t, "trap : TERM # ranks that are told to stop are waited for\n\n");
    text_add(t, "threads=$((SLURM_CPUS_ON_NODE / %" PRId64 "))\n", j->tasks_per_node);
    text_add(t, "export OMP_NUM_THREADS=$((threads > 0 ? threads : 1))\n");
    text_add(t, "code=0\n");
    text_add(t, "srun --mpi=pmix --kill-on-bad-exit=1 --cpus-per-task=$OMP_NUM_THREADS "
                "--cpu-bind=cores \\\n");
    text_add(t, "    %s || code=$?\n", j->command);
    if (j->requeue) {
        text_add(t, "# %d: stopped before its last step, and saved: the next part resumes there\n",
                 STOP_EXIT);
        text_add(t, "[ \"$code\" != %d ] || scontrol requeue \"$SLURM_JOB_ID\" || true\n",
                 STOP_EXIT);
    }
    text_add(t, "exit \"$code\"\n");
}

static status write_out(const char *path, const setup *s, const slurm_job *j, arena *a, error *err)
{
    textbuf t = text_init(a);
    write_script(&t, s, j, a);
    if (!path) {
        fwrite(t.s, 1, t.n, stdout); /* main looks whether it could be written */
        return OK;
    }
    status st = file_write(path, t.s, t.n, err);
    if (st) return error_prefix(err, st, "--out");
    fprintf(stderr, "moefold launch: wrote %s; start it with: sbatch %s\n", path,
            word_quoted(a, path));
    return OK;
}

/* A word that ends up in a comment line of the script must not end that line. */
static bool is_time(const char *word)
{
    return word[0] && word[strspn(word, "0123456789:-")] == 0;
}

typedef struct launch_options {
    const char *file, *time;
    bool requeue;
} launch_options;

static status launch(const setup *s, int argc, char **argv, const launch_options *o, error *err)
{
    const char *time = o->time;
    arena *a = s->r.a;
    if (o->requeue && !recipe_given(&s->r, K_SAVE))
        return error_set(err, ERR_INPUT,
                         "--requeue: %s is not set, so each part of the job would begin at step 0; "
                         "repair: %s=FOLDER, on a file system that all nodes see",
                         knobs[K_SAVE].key, knobs[K_SAVE].key);
    if (time && !is_time(time))
        return error_set(err, ERR_INPUT,
                         "--time %s: Slurm takes minutes, hours:minutes:seconds or "
                         "days-hours:minutes:seconds, such as 1-00:00:00",
                         time);
    slurm_job j = slurm_job_of(s, time, a);
    j.requeue = o->requeue;
    j.command = train_command(argc, argv, a);
    return write_out(o->file, s, &j, a, err);
}

int command_launch(int argc, char **argv)
{
    bool slurm = false, done = false;
    launch_options o = {0};
    const cli_option options[] = {
        {"--slurm", NULL, "write a script for sbatch", &slurm, NULL},
        {"--requeue", NULL, "when it was told to stop and has saved, the job is queued again",
         &o.requeue, NULL},
        {"--out", "FILE", "write the script to this file instead of printing it", NULL, &o.file},
        {"--time", "TIME", "time limit of the job, in Slurm's format", NULL, &o.time},
    };
    arena *a = arena_create();
    recipe *r = ARENA_NEW(a, recipe);
    setup *s = ARENA_NEW(a, setup);
    error err = {{0}};
    status st = cli_read(a, &(cli_words){"launch", argc, argv, options, 4}, r, &done, &err);
    if (!st && !done && !slurm)
        st = error_set(&err, ERR_INPUT, "the system to write for is not given; repair: --slurm");
    if (!st && !done) st = cli_needs_file(r, &err);
    if (!st && !done) st = setup_init(s, r, a, &err);
    bool refused = !st && !done && cli_refuse("launch", s, a);
    if (!st && !done && !refused) st = cli_can_run(s, a, &err);
    if (!st && !done && !refused) st = launch(s, argc, argv, &o, &err);
    int code = st ? cli_fail("launch", st, &err) : refused ? ERR_RULE : OK;
    arena_destroy(a);
    return code;
}

/* trial.c - one trial: a process of `moefold train`, and what it left.
 *
 * I1  However the process ends, the trial has a result.
 * I2  Under moefold.memory_limit the process may take that much beside what the program itself
 *     needs (BESIDE): it fails as it would on a smaller machine.
 * I3  A machine that others use, too, is faster at one time than at another. So the best so far
 *     runs again right before each trial, and what the trial took is divided by what the best takes
 *     now over what it took then: all times are those of the machine of the first trial. Where the
 *     trial comes out somewhat faster (SOMEWHAT), both run once more in the other order, and the
 *     mean of both ratios counts: of many trials a lucky one would become the best, the next one is
 *     set against it, and luck would add up.
 * I4  Seconds in which other programs had the core of a run of one rank are no part of its steps.
 *     Of several ranks each waits for what the others lost: there the clock counts. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/stop.h"
#include "base/text.h"
#include "config/job_of.h"
#include "measure/profile/profile.h"
#include "measure/tune/tune.h"

enum { ARGS = 16, LOG_BYTES_MAX = 64 << 20, LOOK_MS = 10, PATIENCE = 10 };
static const int64_t BESIDE = (int64_t)512 << 20; /* I2 */
static const double SOMEWHAT = 0.93;              /* I3 */
static const double DISTURBED = 1.02; /* traced steps that took longer: their parts are scaled */

/* ---- the process */

static void limit_memory(const tune *t)
{
    job j = {0};
    job_take(&j, t->start, K_MEMORY_LIMIT);
    if (!job_has(&j, K_MEMORY_LIMIT)) return;
    rlim_t most = (rlim_t)(j.memory_limit + BESIDE);
    setrlimit(RLIMIT_DATA, &(struct rlimit){most, most});
}

/* In the child. */
_Noreturn static void become(const tune *t, const char *log, char **args)
{
    int file = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    int none = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (file < 0 || none < 0) _exit(126);
    dup2(none, 0);
    dup2(file, 1);
    dup2(file, 2);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    limit_memory(t);
    execv(t->program ? t->program : "/proc/self/exe", args);
    _exit(127);
}

/* Asks twice, as a person would, then ends it. A second SIGTERM would be a repeat. */
static void end_process(pid_t pid, int *left)
{
    double until = clock_seconds() + PATIENCE;
    kill(-pid, SIGTERM);
    nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
    kill(-pid, SIGINT);
    while (waitpid(pid, left, WNOHANG) == 0) {
        if (clock_seconds() > until) kill(-pid, SIGKILL);
        nanosleep(&(struct timespec){.tv_nsec = LOOK_MS * 1000000}, NULL);
    }
}

/* True: its time was up. */
static bool await(pid_t pid, double most, int *left)
{
    double until = clock_seconds() + most;
    while (waitpid(pid, left, WNOHANG) == 0) {
        if (clock_seconds() > until || stop_asked()) {
            end_process(pid, left);
            return true;
        }
        nanosleep(&(struct timespec){.tv_nsec = LOOK_MS * 1000000}, NULL);
    }
    return false;
}

/* What a process is to run, and where it leaves what it measured. */
typedef struct trial_job {
    const char *recipe, *run, *log;
    int64_t ranks;
} trial_job;

static void make_args(char **args, const tune *t, const trial_job *j, const trial_run *r)
{
    int n = 0;
    args[n++] = "moefold";
    args[n++] = "train";
    args[n++] = arena_text(t->a, "%s", j->recipe);
    args[n++] = arena_text(t->a, "train.train_iters=%lld", (long long)r->steps);
    args[n++] = "checkpoint.save=null";
    args[n++] = "checkpoint.load=null";
    args[n++] = "--run";
    args[n++] = arena_text(t->a, "%s", j->run);
    if (r->threads) {
        args[n++] = "--threads";
        args[n++] = arena_text(t->a, "%s", r->threads);
    }
    if (j->ranks > 1) {
        args[n++] = "--ranks";
        args[n++] = arena_text(t->a, "%lld", (long long)j->ranks);
    }
    args[n] = NULL;
}

/* ---- what it left */

static const char *last_line(const tune *t, const char *log)
{
    char *data;
    size_t n;
    error err = {{0}};
    if (file_read(t->a, log, LOG_BYTES_MAX, &data, &n, &err)) return NULL;
    while (n && (data[n - 1] == '\n' || data[n - 1] == ' ')) data[--n] = 0;
    char *line = strrchr(data, '\n');
    const char *said = line ? line + 1 : data;
    for (char *p = data; (p = strstr(p, "moefold train: ")); p++) said = p; /* the reason itself */
    return text_visible(t->a, arena_copy(t->a, said, strcspn(said, "\n")));
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* What disturbs a step only adds to it: the lower quartile is steadier than the median on a machine
 * that others use, too. */
static bool take_steps(trial *x, const json_t *o, arena *a)
{
    const json_t *steps = json_object_get(o, "step_seconds"),
                 *delays = json_object_get(o, "delay_seconds");
    bool alone = json_integer_value(json_object_get(o, "ranks")) == 1;
    size_t n = json_array_size(steps);
    double *s = ARENA_ARRAY(a, double, n + 1);
    for (size_t i = 0; i < n; i++) {
        s[i] = json_number_value(json_array_get(steps, i));
        if (alone) s[i] -= json_number_value(json_array_get(delays, i)); /* I4 */
    }
    if (!n) return false;
    qsort(s, n, sizeof *s, by_size);
    x->step_s = s[n / 4];
    x->spread = x->step_s > 0 ? (s[n * 3 / 4] - s[n / 4]) / x->step_s : 0;
    return x->step_s > 0;
}

/* Of the traced steps; `scale` makes them parts of step_s where others had the core in those. */
static void take_parts(trial *x, json_t *list, double scale)
{
    step_part parts[STEP_PARTS];
    json_t *o;
    size_t i;
    price_parts(parts, &(price){.step_s = 1});
    json_array_foreach(list, i, o)
    {
        for (int k = 0; k < STEP_PARTS; k++)
            if (text_equal(parts[k].name, json_string_value(json_object_get(o, "name"))))
                x->parts[k] = scale * json_number_value(json_object_get(o, "seconds"));
        x->has_parts = true;
    }
}

static bool take_summary(const char *run, trial *x, arena *a)
{
    json_t *o = NULL;
    error err = {{0}};
    if (json_read(arena_text(a, "%s/summary.json", run), &o, &err)) return false;
    json_t *measured = json_object_get(o, "measured");
    double traced = json_number_value(json_object_get(measured, "step_s"));
    bool good = text_equal(json_string_value(json_object_get(o, "outcome")), "finished") &&
                take_steps(x, o, a);
    if (good)
        take_parts(x, json_object_get(measured, "parts"),
                   traced > DISTURBED * x->step_s ? x->step_s / traced : 1);
    json_decref(o);
    return good;
}

/* I1 */
static void judge(const tune *t, trial *x, const trial_job *j, int left, bool late)
{
    x->said = last_line(t, j->log);
    bool memory = x->said && (text_contains(x->said, "cannot allocate") ||
                              text_contains(x->said, "out of memory"));
    if (late)
        x->end = TRIAL_SLOW;
    else if (WIFSIGNALED(left) && WTERMSIG(left) == SIGKILL)
        x->end = TRIAL_NO_MEMORY; /* the system's choice where memory runs out */
    else if (WIFSIGNALED(left))
        x->end = TRIAL_CRASHED;
    else if (WEXITSTATUS(left) == 0 && take_summary(j->run, x, t->a))
        x->end = TRIAL_MEASURED;
    else if (WEXITSTATUS(left) > 128)
        x->end = TRIAL_CRASHED; /* as shells and mpirun pass a signal on */
    else
        x->end = memory ? TRIAL_NO_MEMORY : TRIAL_FAILED;
    if (WIFSIGNALED(left) && !late)
        x->said = arena_text(t->a, "signal %d: %s", WTERMSIG(left), x->said ? x->said : "");
    if (x->end == TRIAL_MEASURED) x->said = NULL;
}

static void forget(const char *folder)
{
    static const char *const files[] = {"recipe.yaml", "metrics.jsonl", "trace.json.gz",
                                        "routing.json", "summary.json"};
    char path[4096];
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        unlink(path);
    }
}

static status run_job(const tune *t, trial *x, const trial_job *j, const trial_run *r, error *err)
{
    char *args[ARGS];
    int left = 0;
    if (t->measure) {
        t->measure(t, x);
        return OK;
    }
    forget(j->run); /* of a tuning that was interrupted in this trial */
    make_args(args, t, j, r);
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0) return error_set(err, ERR_MACHINE, "cannot start a trial: %s", strerror(errno));
    if (pid == 0) become(t, j->log, args);
    bool late = await(pid, r->most_seconds, &left);
    judge(t, x, j, left, late);
    return OK;
}

status trial_again(tune *t, const trial *of, const trial *in, const trial_run *r, double *out,
                   error *err)
{
    const char *name = of == in ? "again" : "beside";
    try_result p;
    trial again = {.number = in->number, .change = of->change};
    *out = 0;
    if (!tune_price_of(t, of->change, &p, t->a)) return OK;
    trial_job j = {tune_path(t, of, "recipe.yaml"), tune_path(t, in, name),
                   tune_path(t, in, arena_text(t->a, "%s.log", name)), p.s->lay.world};
    TRY(run_job(t, &again, &j, r, err));
    if (again.end == TRIAL_MEASURED) *out = again.step_s;
    return OK;
}

/* I3. What the best so far takes now over what it took then; 1: there is none, or it fails now. */
static status machine_now(tune *t, const trial *x, const trial_run *r, double *out, error *err)
{
    const trial *best = tune_best(t);
    double now = 0;
    status s = best ? trial_again(t, best, x, r, &now, err) : OK;
    *out = now > 0 ? now / best->step_s : 1;
    return s;
}

/* I3. The trial and then the best once more: what divides the trial's first time, so that the mean
 * of both ratios comes out. */
static status other_order(tune *t, const trial *x, const trial_run *r, double *now, error *err)
{
    const trial *best = tune_best(t);
    double own = 0, then = 0;
    if (!best || x->step_s / *now >= best->step_s || x->step_s / *now < SOMEWHAT * best->step_s)
        return OK;
    TRY(trial_again(t, x, x, r, &own, err));
    if (!stop_asked()) TRY(trial_again(t, best, x, r, &then, err));
    if (own > 0 && then > 0) *now = sqrt(*now * then / best->step_s * x->step_s / own);
    return OK;
}

static void divide(trial *x, double by)
{
    x->step_s /= by;
    for (int k = 0; k < STEP_PARTS; k++) x->parts[k] /= by;
}

status trial_measure(tune *t, trial *x, const trial_run *r, error *err)
{
    try_result p;
    double now = 1, start = clock_seconds();
    TRY(tune_write_recipe(t, x, err));
    if (!tune_price_of(t, x->change, &p, t->a))
        return error_set(err, ERR_RULE, "trial %d cannot be laid out: %s", x->number, x->change);
    TRY(machine_now(t, x, r, &now, err));
    if (stop_asked()) return OK;
    trial_job j = {tune_path(t, x, "recipe.yaml"), tune_path(t, x, "run"), tune_path(t, x, "log"),
                   p.s->lay.world};
    TRY(run_job(t, x, &j, r, err));
    if (x->end == TRIAL_MEASURED) TRY(other_order(t, x, r, &now, err));
    x->seconds = clock_seconds() - start;
    divide(x, now);
    tune_see_wall(t, x);
    return OK;
}

/* ---- elsewhere */

status trial_told(tune *t, trial *x, const char *log, error *err)
{
    profile *p = ARENA_NEW(t->a, profile);
    TRY(profile_read(p, log, 0, t->a, err));
    if (p->log.out_of_memory) {
        x->end = TRIAL_NO_MEMORY;
        x->said = p->log.out_of_memory;
        return OK;
    }
    x->end = TRIAL_MEASURED;
    x->step_s = p->span / p->steps;
    if (p->log.n_kept) x->spread = (p->log.most_s - p->log.least_s) / p->log.step_s;
    try_result mine;
    if (!tune_price_of(t, x->change, &mine, t->a)) return OK;
    price m;
    profile_as_price(&m, p, &mine.p, t->a);
    x->wall = m.wall;
    x->evidence = m.evidence;
    return OK;
}

/* tune.c - `moefold tune RECIPE`: fit, scale, profile, retune. */
#define _DEFAULT_SOURCE
#include "cli/tune.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/stop.h"
#include "base/waiting.h"
#include "cli/plan.h"
#include "cli/runtime.h"
#include "config/export.h"
#include "train/checkpoint/lock.h"
#include "predict/machine.h"

enum { MINUTES = 10, MINUTES_MAX = 100000, STEPS_MAX = 100000 };

/* A trial takes about so many seconds of steps, between so few and so many steps. */
static const double TRIAL_SECONDS = 3, START_SECONDS = 2; /* the latter of two processes */
enum { LEAST_STEPS = 6, MOST_STEPS = 60, TURNS = 4 };     /* the last: about, of those in turn */

typedef struct limits {
    double start, end; /* of clock_seconds */
    int64_t steps;     /* 0: by what a step is predicted to take */
} limits;

static int64_t steps_of(const limits *l, double step_s)
{
    if (l->steps) return l->steps;
    double n = step_s > 0 ? TRIAL_SECONDS / step_s : LEAST_STEPS;
    return 1 + (n < LEAST_STEPS ? LEAST_STEPS : n > MOST_STEPS ? MOST_STEPS : (int64_t)n);
}

/* How many programs want each core now; at least 1. */
static double crowd(void)
{
    double load = 0, cores = (double)sysconf(_SC_NPROCESSORS_ONLN);
    if (getloadavg(&load, 1) != 1 || cores < 1) return 1;
    return load > cores ? load / cores : 1;
}

/* Generous: a description that nobody measured may be wrong by much, and a trial that shares its
 * cores with other programs is not slow for that. */
static double patience(double step_s, int64_t steps)
{
    double seconds = 30 + 20 * step_s * (double)steps;
    return (seconds < 60 ? 60 : seconds) * crowd();
}

static status one_trial(tune *t, const tune_words *w, const limits *l, tune_next *n, arena *a,
                        error *err)
{
    try_result p = {0};
    trial x = n->next;
    double step_s = x.expected_s;
    if (!(step_s > 0) && tune_price_of(t, x.change, &p, a)) step_s = p.p.step_s;
    trial_run run = {.steps = steps_of(l, step_s), .threads = w->threads};
    run.most_seconds = patience(step_s, run.steps);
    waiting_begin("tune", "the best again, and the trial", WAITING_ABOUT,
                  START_SECONDS + 2 * step_s * (double)run.steps);
    status st = trial_measure(t, &x, &run, err);
    waiting_end();
    if (st || stop_asked()) return st; /* what was interrupted is tried again */
    st = tune_record(t, &x, err);
    if (!st && !w->json) tune_print_end(t, &x, w->everything);
    return st;
}

/* Nothing better is left to try: who of the fastest is it? */
static status settle(tune *t, const tune_words *w, const limits *l, error *err)
{
    const trial *best = tune_best(t);
    int n = tune_close(t);
    if (n < 2) return OK;
    trial_run run = {.steps = steps_of(l, best->step_s), .threads = w->threads};
    run.most_seconds = patience(best->step_s, run.steps);
    if (!w->json) tune_print_close(n);
    waiting_begin("tune", "the fastest trials in turn", WAITING_ABOUT,
                  n * TURNS * (START_SECONDS / 2 + best->step_s * (double)run.steps));
    status st = tune_confirm(t, &run, l->end, err);
    waiting_end();
    if (!st && !w->json) tune_print_confirmed(t);
    return st;
}

static status go_on(tune *t, const tune_words *w, const limits *l, const char **why, arena *a,
                    error *err)
{
    status st = OK;
    for (*why = NULL; !st && !*why;) {
        tune_next *n = ARENA_NEW(a, tune_next);
        waiting_begin("tune", "predicting what could come next", WAITING_AT_MOST, TUNE_PRICING);
        tune_choose(t, n, a);
        waiting_end();
        if (n->done) {
            *why = n->why;
            st = settle(t, w, l, err);
        } else if (clock_seconds() > l->end) {
            *why = "the time limit (--minutes) was reached; the next call continues";
        } else {
            if (!w->json) tune_print_trial(&n->next, a);
            st = one_trial(t, w, l, n, a, err);
            if (!st && stop_asked()) *why = "interrupted; the next call continues";
        }
    }
    return st;
}

/* ---- words */

/* `--pin all`: whatever the recipe sets. */
static void mark_pins(tune *t, const recipe *r, int argc, char **argv, arena *a)
{
    for (int i = 1; i < argc; i++) {
        const char *pin = text_starts(argv[i], "--pin=")      ? argv[i] + 6
                          : strcmp(argv[i - 1], "--pin") == 0 ? argv[i]
                                                              : NULL;
        if (!pin) continue;
        const char *words = word_short(a, pin) ? word_short(a, pin) : pin;
        bool all = strcmp(pin, "all") == 0;
        int pinned = knob_find(arena_copy(a, words, strcspn(words, "=")), NULL);
        for (knob_id k = 0; k < K_COUNT; k++)
            if ((int)k == pinned || (all && r->knob[k].from == FROM_USER)) t->pinned[k] = true;
    }
}

static status read_limits(limits *l, const tune_words *w, error *err)
{
    int64_t minutes = MINUTES;
    if (w->minutes) TRY(word_count("--minutes", w->minutes, MINUTES_MAX, &minutes, err));
    if (w->steps) TRY(word_count("--steps", w->steps, STEPS_MAX, &l->steps, err));
    if (w->next && w->tell)
        return error_set(err, ERR_INPUT,
                         "--next and --tell cannot be combined: give one after the other");
    l->start = clock_seconds();
    l->end = l->start + 60 * (double)minutes;
    return OK;
}

static status open_tuning(tune *t, const tune_words *w, const recipe *r, setup *s, arena *a,
                          error *err)
{
    t->a = a;
    TRY(setup_init(s, r, a, err));
    TRY(machine_of_setup(&t->base, s, a, err));
    /* the job is fixed: ranks and batch do not follow from sizes that may change */
    recipe *fixed = ARENA_NEW(a, recipe);
    *fixed = *r;
    recipe_set(fixed, K_N_GPUS, value_of_int(s->lay.world), "the job's");
    recipe_set(fixed, K_GBS, s->r.knob[K_GBS].v, "the job's");
    if (w->next || w->tell) export_follow(fixed, &s->r, MEGATRON_LM); /* trials run there */
    t->start = fixed;
    t->hw = t->base;
    return tune_open(t, err);
}

static void say_of_lock(void *with, const char *text)
{
    (void)with;
    fprintf(stderr, "%s\n", text);
}

/* One tuning at a time: what comes next follows from what the folder holds. */
static status hold(checkpoint_lock **lock, const char *dir, error *err)
{
    status st = file_make_folder(dir, err);
    if (!st) st = checkpoint_lock_take(lock, dir, &(lock_options){.say = say_of_lock}, err);
    return st ? error_prefix(err, st, "--dir %s", dir) : OK;
}

static status work_on(tune *t, const tune_words *w, const recipe *r, limits l, error *err)
{
    arena *a = r->a;
    setup *s = ARENA_NEW(a, setup);
    const char *why = NULL;
    TRY(open_tuning(t, w, r, s, a, err));
    if (w->tell) return tune_take_log(t, w->tell, w->json, a, err);
    if (w->next) {
        tune_next *n = ARENA_NEW(a, tune_next);
        tune_choose(t, n, a);
        return tune_write_next(t, n, w->json, a, err);
    }
    if (!w->json) tune_print_start(t, s, a);
    TRY(go_on(t, w, &l, &why, a, err));
    if (w->json)
        cli_json_print(tune_json(t, why, t->a));
    else
        tune_print_done(t, why, clock_seconds() - l.start);
    return OK;
}

static status work(tune *t, const tune_words *w, const recipe *r, error *err)
{
    limits l = {0};
    checkpoint_lock *lock = NULL;
    t->dir = w->dir ? w->dir : "tune";
    TRY(read_limits(&l, w, err));
    if (planted_trial) TRY(planted_trial(&t->program, err));
    stop_watch(false, NULL);
    status st = hold(&lock, t->dir, err);
    if (!st) st = work_on(t, w, r, l, err);
    checkpoint_lock_release(lock);
    return st;
}

int command_tune(int argc, char **argv)
{
    tune_words w = {0};
    const char *pin = NULL; /* words_pins reads them */
    const cli_option options[] = {
        {"--minutes", "N", "start no trial after this time; unset: 10", NULL, &w.minutes},
        {"--dir", "DIR", "folder of the trials; a later call continues there; unset: ./tune", NULL,
         &w.dir},
        {"--pin", "KEY=VALUE",
         "keep a knob at this value; may be repeated; all: every knob that is set", NULL, &pin},
        {"--threads", "N", "CPU threads per rank; unset: its share of the cores", NULL, &w.threads},
        {"--steps", "N", "steps per trial; unset: as many as take about three seconds", NULL,
         &w.steps},
        {"--next", NULL, "write the next trial for a remote cluster, and run nothing", &w.next,
         NULL},
        {"--tell", "LOG", "read the log (or profile) of the trial that --next wrote", NULL,
         &w.tell},
        {"--everything", NULL, "say of each trial how its steps spread, and why it is limited so",
         &w.everything, NULL},
        {"--json", NULL, "print JSON at the end (docs/JSON.md)", &w.json, NULL},
    };
    arena *a = arena_create();
    tune *t = ARENA_NEW(a, tune);
    recipe *r = ARENA_NEW(a, recipe);
    error err = {{0}};
    bool done = false, all = false;
    char **words = ARENA_ARRAY(a, char *, argc + 1);
    int n = 0;
    status st = words_pins(argc, argv, words, &n, &all, &err);
    if (!st) st = cli_read(a, &(cli_words){"tune", n, words, options, 9}, r, &done, &err);
    if (!st && !done) {
        if (!w.next && !w.tell) cli_derive_here(r, !w.json);
        mark_pins(t, r, argc, argv, a);
        st = work(t, &w, r, &err);
    }
    int code = st ? cli_fail("tune", st, &err) : OK;
    arena_destroy(a);
    return code;
}

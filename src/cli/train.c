/* train.c - `moefold train`: runs a recipe on this machine, as one rank or as one of many. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/stop.h"
#include "cli/join.h"
#include "cli/rank_threads.h"
#include "cli/ranks.h"
#include "cli/runtime.h"
#include "predict/routing.h"
#include "backend/comm/agree.h"
#include "train/loop/trainer.h"

/* Where other programs have more of the cores, predicted and measured times do not compare. */
#define BUSY 0.1

static void print_summary(const train_summary *sum, arena *a)
{
    const char *loss = sum->skipped == sum->iterations
                           ? "no loss"
                           : arena_text(a, "lm loss %.4f -> %.4f", sum->first_loss, sum->last_loss);
    fprintf(stderr, "%s after %lld steps: %s, %s tokens a second\n",
            sum->told          ? "stopped"
            : sum->interrupted ? "left"
                               : "done",
            (long long)sum->iterations, loss, text_grouped(a, (int64_t)sum->tokens_per_second));
    if (sum->step <= 0 || sum->predicted <= 0) return;
    double times = sum->step / sum->predicted, cores = (double)sysconf(_SC_NPROCESSORS_ONLN);
    bool busy = sum->others > BUSY * cores;
    const char *words = times > 1.995  ? arena_text(a, "%.1f times slower", times)
                        : times > 1.05 ? arena_text(a, "%.0f %% slower", 100 * (times - 1))
                        : times < 0.95 ? arena_text(a, "%.0f %% faster", 100 * (1 - times))
                                       : "as predicted";
    fprintf(stderr, "a step took %s (median), %s were predicted: %s\n", text_seconds(a, sum->step),
            text_seconds(a, sum->predicted),
            busy ? arena_text(a, "no comparison, because other programs had %.1f of %.0f cores",
                              sum->others, cores)
                 : words);
}

static int exit_of(const train_summary *sum)
{
    return sum->told ? STOP_EXIT : OK;
}

/* --run: the files of the folder. What else asks for one of them would leave the folder without. */
static status name_files(train_options *o, const setup *s, arena *a, error *err)
{
    const struct {
        const char *option, *name, **path;
        bool wanted;
    } files[] = {
        {"--metrics", "metrics.jsonl", &o->metrics, true},
        {"--save-routing", "routing.json", &o->save_routing, routing_layers(&s->m, NULL) > 0},
        {"--trace", "trace.json.gz", &o->trace, true}};
    if (!o->run) return OK;
    if (!*o->run) return error_set(err, ERR_INPUT, "--run '': has no name; repair: name a folder");
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        if (*files[i].path)
            return error_set(err, ERR_INPUT,
                             "%s %s: --run %s writes %s/%s; repair: leave one of the two out",
                             files[i].option, *files[i].path, o->run, o->run, files[i].name);
        if (files[i].wanted) *files[i].path = arena_text(a, "%s/%s", o->run, files[i].name);
    }
    return OK;
}

static status read_trace_steps(train_options *o, const char *word, error *err)
{
    if (!word) return OK;
    if (o->trace || o->run) return trace_steps_read(&o->trace_steps, word, err);
    return error_set(err, ERR_INPUT,
                     "--trace-steps %s: is for --trace or --run, which are not given; repair: "
                     "--trace FILE",
                     word);
}

/* The run of this rank, from joining the job to leaving it. */
static int run_rank(const setup *s, const recipe *given, train_options *o, arena *a)
{
    comm *c = NULL;
    error err = {{0}};
    train_summary sum = {0};
    stop_watch(comm_launched(), comm_told_to_end);
    status st = cli_join(&c, s, a, &err);
    bool first = cli_speaks();
    if (!st) st = ranks_agree(c, cli_fits_here(s, given, c, a, &err), &err);
    if (!st) {
        o->machine = cli_runs_on(s, a);
        if (first) fprintf(stderr, "%s\n", o->machine);
        st = trainer_run(s, c, o, &sum, a, &err);
    }
    if (st && first) cli_fail("train", st, &err);
    if (!st && first && !o->touched) print_summary(&sum, a);
    fflush(stdout);
    stop_over();
    comm_close(c);
    return st ? (int)st : exit_of(&sum);
}

/* All ranks of the run, as threads. */
static int run_threads(const recipe *r, const setup *s, train_options *o, int n, arena *a)
{
    train_summary sum = {0};
    o->machine = cli_runs_on(s, a);
    fprintf(stderr, "%s\n", o->machine);
    int code = cli_train_threads("train", r, o, n, &sum);
    if (!code && !o->touched) print_summary(&sum, a);
    return code ? code : exit_of(&sum);
}

enum { THREADS_MOST = 1024 };

int command_train(int argc, char **argv)
{
    train_options o = {0};
    bool done = false, broken = false, as_threads = false;
    int code = OK, n_ranks = 0;
    int64_t n_threads = 0; /* its share of the cores */
    const char *threads = NULL, *ranks = NULL, *steps = NULL;
    const cli_option options[] = {
        {"--json", NULL, "print iteration lines as JSON (docs/JSON.md)", &o.json, NULL},
        {"--metrics", "FILE", "write every iteration line to this file as JSON", NULL, &o.metrics},
        {"--threads", "N", "CPU threads per rank; unset: its share of the cores", NULL, &threads},
        {"--ranks", "N", "start N ranks on this machine (mpirun)", NULL, &ranks},
        {"--as-threads", NULL, "with --ranks: run ranks as threads of this process, without mpirun",
         &as_threads, NULL},
        {"--plain", NULL, "use the plain C kernels only", &o.plain, NULL},
        {"--save-routing", "FILE", "write how many tokens each expert got, for price --routing",
         NULL, &o.save_routing},
        {"--trace", "FILE", "write a trace of the last two steps (docs/TRACE.md)", NULL, &o.trace},
        {"--trace-steps", "A-B", "trace these steps instead", NULL, &steps},
        {"--run", "DIR", "write recipe, metrics, trace, expert loads and summary to this folder",
         NULL, &o.run},
        {"--predict", NULL, "print predicted and measured times at the end", &o.predict, NULL},
        {"--touched", NULL, "compare the bytes that steps touch with those planned; train nothing",
         &o.touched, NULL},
    };
    arena *a = arena_create();
    recipe *r = ARENA_NEW(a, recipe);
    setup *s = ARENA_NEW(a, setup);
    error err = {{0}};
    status st = cli_read(a, &(cli_words){"train", argc, argv, options, 12}, r, &done, &err);
    if (!st && !done) st = cli_read_ranks(ranks, argc, argv, r, &n_ranks, &err);
    if (!st && !done && n_ranks && !as_threads) st = cli_needs_file(r, &err);
    if (!st && !done && as_threads && !n_ranks)
        st = error_set(&err, ERR_INPUT,
                       "--as-threads is for --ranks N, which is not given; repair: --ranks 2");
    if (!st && !done && threads)
        st = word_count("--threads", threads, THREADS_MOST, &n_threads, &err);
    o.threads = (int)n_threads;
    if (!st && !done) st = read_trace_steps(&o, steps, &err);
    if (!st && !done) cli_derive_here(r, !n_ranks || as_threads);
    if (!st && !done) cli_own_target(r, (!n_ranks || as_threads) && cli_speaks());
    if (!st && !done) st = setup_init(s, r, a, &err);
    if (!st && !done) st = name_files(&o, s, a, &err);
    if (!st && !done) broken = cli_rank_refuses("train", s, a);
    if (!st && !done && !broken) st = cli_can_run(s, a, &err);
    if (!st && !done && !broken && as_threads) st = cli_threads_can_run(s, n_ranks, &err);
    if (!st && !done && !broken && n_ranks) st = cli_fits_here(s, r, NULL, a, &err);
    if (st)
        code = cli_fail_alone("train", st, &err);
    else if (broken)
        code = ERR_RULE;
    else if (n_ranks && as_threads)
        code = run_threads(r, s, &o, n_ranks, a);
    else if (n_ranks)
        code = cli_run_ranks(argc, argv, n_ranks);
    else if (!done)
        code = run_rank(s, r, &o, a);
    arena_destroy(a);
    return code;
}

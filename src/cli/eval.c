/* eval.c - `moefold eval`: the loss of weights over the tokens of files, on one rank or on many.
 *
 * Weights come from a folder of checkpoints or one of its iterations, from a model's folder, or
 * from what a recipe loads or, without that, saves. No optimizer is kept and nothing is saved. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/stop.h"
#include "answer/answer.h"
#include "cli/join.h"
#include "cli/rank_threads.h"
#include "cli/ranks.h"
#include "cli/runtime.h"
#include "backend/comm/agree.h"
#include "train/checkpoint/checkpoint.h"
#include "train/loop/trainer.h"

typedef struct eval_words {
    const char **files;
    int n_files;
    const char *ranks, *threads, *data; /* the last: `files` has them */
    bool json, plain, as_threads;
} eval_words;

/* ---- words */

/* A folder of checkpoints, or one of its iterations; *iteration -1: it is none. */
static const char *checkpoint_folder(recipe *r, const char *name, int64_t *iteration)
{
    error ignored;
    size_t n = strlen(name);
    while (n > 1 && name[n - 1] == '/') n--;
    const char *folder = arena_copy(r->a, name, n), *last = strrchr(folder, '/');
    const char *own = last ? last + 1 : folder;
    *iteration = -1;
    if (file_exists(arena_text(r->a, "%s/metadata.json", folder)) && text_starts(own, "iter_")) {
        *iteration = strtoll(own + strlen("iter_"), NULL, 10);
        return last ? arena_copy(r->a, folder, (size_t)(last - folder)) : ".";
    }
    if (!file_is_folder(folder) || checkpoint_latest(folder, iteration, &ignored)) return NULL;
    return *iteration < 0 ? NULL : folder;
}

/* The model of a checkpoint, whose recipe says everything. */
static status read_checkpoint(recipe *r, const char *name, bool *is_one, error *err)
{
    int64_t iteration;
    const char *folder = checkpoint_folder(r, name, &iteration);
    checkpoint_info info;
    *is_one = folder != NULL;
    if (!folder) return OK;
    status s = checkpoint_read_info(&info, r->a, folder, iteration, err);
    if (!s) {
        const stored_recipe stored = checkpoint_recipe(&info);
        s = stored_model(&stored, r, err);
    }
    recipe_set(r, K_LOAD, value_of_text(folder), name);
    recipe_set(r, K_CKPT_STEP, value_of_int(iteration), name);
    return s;
}

/* Takes --data out, which may be given several times. */
static status take_files(eval_words *w, int argc, char **argv, char **rest, int *n, error *err)
{
    for (int i = 0; i < argc; i++) {
        bool joined = text_starts(argv[i], "--data=");
        if (!joined && strcmp(argv[i], "--data") != 0) {
            rest[(*n)++] = argv[i];
            continue;
        }
        if (!joined && i + 1 == argc)
            return error_set(err, ERR_INPUT, "--data: needs the prefix of a .bin and an .idx file");
        w->files[w->n_files++] = joined ? argv[i] + strlen("--data=") : argv[++i];
    }
    return OK;
}

/* Without its ending a file is what dataset.data_path calls a prefix. */
static const char *prefix_of(arena *a, const char *file)
{
    size_t n = strlen(file);
    bool ends = n > 4 && (strcmp(file + n - 4, ".bin") == 0 || strcmp(file + n - 4, ".idx") == 0);
    return arena_copy(a, file, ends ? n - 4 : n);
}

static void set_files(recipe *r, const eval_words *w)
{
    value *list = ARENA_ARRAY(r->a, value, w->n_files + 1);
    for (int i = 0; i < w->n_files; i++) list[i] = value_of_text(prefix_of(r->a, w->files[i]));
    static const knob_id others[] = {K_DATA_ARGS, K_TRAIN_DATA, K_VALID_DATA, K_TEST_DATA,
                                     K_SPLIT_ARGS};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        r->knob[others[i]] = (setting){.from = FROM_NOTHING};
    recipe_set(r, K_DATA_PATH, (value){.kind = V_LIST, .list = {list, w->n_files}}, "--data");
    recipe_set(r, K_SPLIT, value_of_text("0,1,0"), "--data: all of it");
    recipe_set(r, K_MOCK_DATA, value_of_bool(false), "--data");
}

/* What only training needs is left out: its optimizer, its schedule, where it saves and ends. */
static void leave_training_out(recipe *r)
{
    static const char why[] = "eval trains nothing";
    static const knob_id off[] = {K_OPT_OFFLOAD, K_OPT_STATES, K_PRECISION_AWARE,
                                  K_OPT_OFFLOAD_OVERLAP};
    static const knob_id open[] = {
        K_GBS,        K_RAMPUP,        K_TRAIN_SAMPLES,        K_EVAL_INTERVAL,
        K_SAVE,       K_SAVE_INTERVAL, K_EXIT_INTERVAL,        K_EXIT_MINUTES,
        K_PRETRAINED, K_TENSORBOARD,   K_OPT_OFFLOAD_FRACTION, K_LR_ITERS,
        K_LR_SAMPLES, K_WARMUP,        K_WARMUP_SAMPLES,       K_WARMUP_FRACTION};
    if (!recipe_given(r, K_LOAD) && recipe_given(r, K_SAVE))
        recipe_set(r, K_LOAD, r->knob[K_SAVE].v, "what the recipe saves");
    for (size_t i = 0; i < sizeof open / sizeof *open; i++)
        r->knob[open[i]] = (setting){.from = FROM_NOTHING};
    for (size_t i = 0; i < sizeof off / sizeof *off; i++)
        recipe_set(r, off[i], value_of_bool(false), why);
    recipe_set(r, K_OPTIMIZER, value_of_text("none"), why);
    recipe_set(r, K_TRAIN_ITERS, value_of_int(1), why);
    if (recipe_given(r, K_LOAD)) recipe_set(r, K_FINETUNE, value_of_bool(true), why);
}

/* ---- printing */

static void print(const train_summary *sum, bool json, arena *a)
{
    const evaluation *e = &sum->evaluated;
    if (json) {
        const eval_answer x = {e->weights, e->data, e->iteration,  e->samples,
                               e->tokens,  e->loss, e->perplexity, e->seconds};
        cli_json_print(answer_json(eval_answer, &x));
        return;
    }
    cli_print("Weights", "%s\n", e->weights);
    cli_print("Data", "%s: %s samples, %s tokens\n", e->data, text_grouped(a, e->samples),
              text_grouped(a, e->tokens));
    cli_print("Loss", "%.6f a token, perplexity %.4f\n", e->loss, e->perplexity);
}

/* ---- ranks */

static int run_rank(const setup *s, const recipe *given, const train_options *o, bool json)
{
    comm *c = NULL;
    error err = {{0}};
    train_summary sum = {0};
    arena *a = s->r.a;
    status st = cli_join(&c, s, a, &err);
    if (!st) st = ranks_agree(c, cli_fits_here(s, given, c, a, &err), &err);
    if (!st) st = trainer_run(s, c, o, &sum, a, &err);
    if (st && cli_speaks()) cli_fail("eval", st, &err);
    if (!st && cli_speaks()) print(&sum, json, a);
    fflush(stdout);
    stop_over();
    comm_close(c);
    return (int)st;
}

static int run_threads(const recipe *r, const train_options *o, int n, bool json, arena *a)
{
    train_summary sum = {0};
    int code = cli_train_threads("eval", r, o, n, &sum);
    if (!code) print(&sum, json, a);
    return code;
}

enum { THREADS_MOST = 1024 };

static status read_all(eval_words *w, int argc, char **argv, recipe *r, bool *done, error *err)
{
    const cli_option options[] = {
        {"--data", "PREFIX",
         "evaluate all of these .bin and .idx files; may be repeated; unset: the recipe's "
         "validation data",
         NULL, &w->data},
        {"--json", NULL, "print JSON (docs/JSON.md)", &w->json, NULL},
        {"--threads", "N", "CPU threads per rank; unset: its share of the cores", NULL,
         &w->threads},
        {"--ranks", "N", "start N ranks on this machine (mpirun)", NULL, &w->ranks},
        {"--as-threads", NULL, "with --ranks: run ranks as threads of this process, without mpirun",
         &w->as_threads, NULL},
        {"--plain", NULL, "use the plain C kernels only", &w->plain, NULL},
    };
    char **rest = ARENA_ARRAY(r->a, char *, argc + 1);
    int n = 0;
    w->files = ARENA_ARRAY(r->a, const char *, argc);
    status st = take_files(w, argc, argv, rest, &n, err);
    if (!st)
        st = cli_read_first(r->a, &(cli_words){"eval", n, rest, options, 6}, read_checkpoint, r,
                            done, err);
    if (!st && w->as_threads && !w->ranks)
        st = error_set(err, ERR_INPUT,
                       "--as-threads is for --ranks N, which is not given; repair: --ranks 2");
    if (st || *done) return st;
    if (w->n_files) set_files(r, w);
    leave_training_out(r);
    return OK;
}

int command_eval(int argc, char **argv)
{
    arena *a = arena_create();
    recipe *r = ARENA_NEW(a, recipe);
    setup *s = ARENA_NEW(a, setup);
    eval_words w = {0};
    bool done = false, broken = false;
    int code = OK, n_ranks = 0;
    int64_t n_threads = 0;
    error err = {{0}};
    r->a = a;
    status st = read_all(&w, argc, argv, r, &done, &err);
    if (!st && !done) st = cli_read_ranks(w.ranks, argc, argv, r, &n_ranks, &err);
    if (!st && !done && w.threads)
        st = word_count("--threads", w.threads, THREADS_MOST, &n_threads, &err);
    train_options o = {.evaluate = w.n_files ? EVALUATE_FILES : EVALUATE_VALIDATION,
                       .plain = w.plain,
                       .json = w.json,
                       .threads = (int)n_threads};
    if (!st && !done) cli_derive_here(r, !n_ranks || w.as_threads);
    if (!st && !done) cli_own_target(r, (!n_ranks || w.as_threads) && cli_speaks());
    if (!st && !done) st = setup_init(s, r, a, &err);
    if (!st && !done) broken = cli_rank_refuses("eval", s, a);
    if (!st && !done && !broken) st = cli_can_run(s, a, &err);
    if (!st && !done && !broken && n_ranks) st = cli_fits_here(s, r, NULL, a, &err);
    if (st)
        code = cli_fail_alone("eval", st, &err);
    else if (broken)
        code = ERR_RULE;
    else if (n_ranks && w.as_threads)
        code = run_threads(r, &o, n_ranks, w.json, a);
    else if (n_ranks)
        code = cli_run_ranks(argc, argv, n_ranks);
    else if (!done)
        code = run_rank(s, r, &o, w.json);
    arena_destroy(a);
    return code;
}

/* convert.c - `moefold convert`: weights between Hugging Face folders and our checkpoints.
 *
 * Which is which is found out: a folder with safetensors is Hugging Face's, one with
 * latest_checkpointed_iteration.txt or iter_ folders is ours, and so is an iter_ folder itself. The
 * layout that wrote a checkpoint of ours does not matter: here the whole model is on one rank. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/clock.h"
#include "base/waiting.h"
#include "config/models/models.h"
#include "answer/answer.h"
#include "cli/cli.h"
#include "train/checkpoint/checkpoint.h"
#include "train/hf/source.h"
#include "train/hf/weights.h"
#include "train/checkpoint/tensor_file.h"

enum { CONFIG_BYTES_MAX = 1 << 20 };

typedef struct conversion {
    arena *a;
    const char *src, *dst;
    const char *to, *dtype, *tokenizer; /* options; NULL: not given */
    bool json, from_hf, to_hf;
    const char *const *overrides;
    int n_overrides;
    setup s;
    weight_list w;
    checkpoint c;
    checkpoint_info info; /* of a source of ours */
    hf_report read;       /* of a Hugging Face source */
    hf_saved saved;       /* of a Hugging Face destination */
    config_made config;   /* what is written there */
    const char *named;    /* moefold.model of a checkpoint's recipe */
    const char *beside;   /* where tokenizer files are; NULL: not known */
    error err;
} conversion;

/* ---- what was asked */

static bool is_override(const char *word)
{
    return word[0] != '-' && strchr(word, '=') != NULL;
}

/* Takes out the two folders and the overrides; what is left, all options, goes to cli_read_plain. A
 * word behind an option that takes a value is that value. */
static status take_words(conversion *v, int argc, char **argv, char **rest, int *n_rest)
{
    const char **overrides = ARENA_ARRAY(v->a, const char *, argc);
    v->overrides = overrides;
    for (int i = 0; i < argc; i++) {
        bool is_value = i > 1 && text_in("--to|--dtype|--tokenizer", '|', argv[i - 1]);
        if (i == 0 || is_value || argv[i][0] == '-')
            rest[(*n_rest)++] = argv[i];
        else if (is_override(argv[i]) && !file_exists(argv[i]))
            overrides[v->n_overrides++] = argv[i];
        else if (!v->src)
            v->src = argv[i];
        else if (!v->dst)
            v->dst = argv[i];
        else
            return error_set(&v->err, ERR_INPUT, "'%s': source and destination are named already",
                             argv[i]);
    }
    return OK;
}

static status check_words(conversion *v)
{
    if (!v->src || !v->dst)
        return error_set(&v->err, ERR_INPUT,
                         "name a source and a destination folder (`moefold convert --help`)");
    if (v->to && !text_in("hf|moefold", '|', v->to))
        return error_set(&v->err, ERR_INPUT, "--to %s: hf or moefold is needed", v->to);
    if (v->dtype && !text_in("float32|bfloat16", '|', v->dtype))
        return error_set(&v->err, ERR_INPUT, "--dtype %s: float32 or bfloat16 is needed", v->dtype);
    return OK;
}

/* ---- kinds */

/* The iteration of a folder that is itself a checkpoint; -1: it is not. */
static int64_t itself(const conversion *v, const char *path, const char **folder)
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') n--;
    const char *bare = arena_copy(v->a, path, n), *slash = strrchr(bare, '/');
    const char *name = slash ? slash + 1 : bare;
    if (!text_starts(name, "iter_")) return -1;
    char *end;
    long long iteration = strtoll(name + strlen("iter_"), &end, 10);
    if (*end || !file_exists(arena_text(v->a, "%s/metadata.json", bare))) return -1;
    *folder = slash ? arena_copy(v->a, bare, (size_t)(slash - bare) + 1) : ".";
    return iteration;
}

static status asked_iteration(conversion *v, int64_t *iteration)
{
    recipe *given = ARENA_NEW(v->a, recipe);
    recipe_init(given, v->a, "");
    for (int i = 0; i < v->n_overrides; i++)
        TRY(recipe_override(given, v->overrides[i], "command line", &v->err));
    if (recipe_given(given, K_CKPT_STEP)) *iteration = recipe_int(given, K_CKPT_STEP);
    return OK;
}

/* Sets from_hf, or folder and iteration of a checkpoint. */
static status find_source(conversion *v, const char **folder, int64_t *iteration)
{
    *folder = v->src;
    if (!file_is_folder(v->src))
        return error_set(&v->err, ERR_INPUT, "%s: is not a folder", v->src);
    *iteration = itself(v, v->src, folder);
    if (*iteration >= 0) return OK;
    v->from_hf = hf_source_is(v->a, v->src);
    if (v->from_hf) return OK;
    status s = checkpoint_latest(v->src, iteration, &v->err);
    if (!s && *iteration < 0)
        s = error_set(&v->err, ERR_INPUT,
                      "%s: holds neither model.safetensors (or its index) nor a checkpoint",
                      v->src);
    return s ? s : asked_iteration(v, iteration);
}

static status find_destination(conversion *v)
{
    v->to_hf = v->to ? strcmp(v->to, "hf") == 0 : !v->from_hf;
    if (v->dtype && !v->to_hf)
        return error_set(&v->err, ERR_INPUT, "--dtype is for Hugging Face; checkpoints are FP32");
    if (v->tokenizer && !v->to_hf)
        return error_set(&v->err, ERR_INPUT,
                         "--tokenizer is for Hugging Face; checkpoints have no "
                         "such files");
    if (v->tokenizer && !file_is_folder(v->tokenizer))
        return error_set(&v->err, ERR_INPUT, "--tokenizer %s: is not a folder", v->tokenizer);
    if (v->to_hf || !file_is_folder(v->dst)) return OK;
    int64_t latest;
    status s = checkpoint_latest(v->dst, &latest, &v->err);
    if (!s && latest >= 0)
        s = error_set(&v->err, ERR_INPUT, "%s: has checkpoints already; name a new folder", v->dst);
    return s;
}

/* ---- the model */

static status override_all(conversion *v, recipe *r)
{
    status s = OK;
    for (int i = 0; i < v->n_overrides && !s; i++)
        s = recipe_override(r, v->overrides[i], "command line", &v->err);
    return s;
}

static status setup_from_hf(conversion *v, recipe *r)
{
    char *text;
    size_t n;
    const char *config = arena_text(v->a, "%s/config.json", v->src);
    recipe_set(r, K_MODEL, value_of_text(v->src), "command line");
    recipe_set(r, K_TARGET, value_of_text("moefold"), "its weights are converted, not planned");
    TRY(override_all(v, r));
    TRY(model_fill(r, &v->err));
    if (!file_exists(config)) return OK;
    TRY(file_read(v->a, config, CONFIG_BYTES_MAX, &text, &n, &v->err));
    v->c.config = text;
    return OK;
}

/* The recipe in a checkpoint says everything: the model's folder may be gone. */
static status setup_from_ours(conversion *v, recipe *r)
{
    const char *name = arena_text(v->a, "%s/metadata.json: recipe", v->info.path);
    TRY(recipe_parse_yaml(r, name, v->info.recipe, strlen(v->info.recipe), &v->err));
    TRY(override_all(v, r));
    v->named = recipe_word(r, K_MODEL);
    r->knob[K_MODEL] = (setting){.from = FROM_NOTHING};
    v->c.config = v->info.config;
    return OK;
}

static status take_array(conversion *v, float **out, int64_t n)
{
    *out = n > 0 && n < INT64_MAX / 8 ? calloc((size_t)n, sizeof **out) : NULL;
    if (*out) return OK;
    return error_set(&v->err, ERR_MACHINE, "no memory for %s of weights",
                     text_bytes(v->a, n < INT64_MAX / 8 ? 4 * n : n));
}

static status prepare(conversion *v)
{
    recipe *r = ARENA_NEW(v->a, recipe);
    recipe_init(r, v->a, v->src);
    TRY(v->from_hf ? setup_from_hf(v, r) : setup_from_ours(v, r));
    TRY(setup_init(&v->s, r, v->a, &v->err));
    if (!v->from_hf) v->s.m.name = v->info.model;
    weight_list_init(&v->w, &v->s, v->a);
    v->c.s = &v->s;
    v->c.w = &v->w;
    TRY(take_array(v, &v->c.weights, v->w.elements));
    if (v->from_hf || v->to_hf || !v->info.has_moments) return OK;
    TRY(take_array(v, &v->c.exp_avg, v->w.owned));
    return take_array(v, &v->c.exp_avg_sq, v->w.owned);
}

/* ---- reading and writing */

static status load(conversion *v, const char *folder, int64_t iteration)
{
    if (!v->from_hf) return checkpoint_load(&v->c, folder, iteration, &v->err);
    v->c.state.seed = recipe_int(&v->s.r, K_SEED);
    return hf_load(&(hf_rank){&v->s, NULL, &v->w, v->c.weights}, v->src, &v->read, &v->err);
}

static void say(void *with, const char *text)
{
    (void)with;
    waiting_clear();
    fprintf(stderr, "convert: %s\n", text);
}

/* Another job may have saved there since it was looked at. */
static status save_ours(conversion *v)
{
    lock_options o = {.say = say};
    status s = checkpoint_save_open(&v->c, v->dst, &o, &v->c.lock, &v->err);
    if (s) return s;
    s = find_destination(v);
    if (!s) s = checkpoint_save(&v->c, v->dst, 0, &v->err);
    checkpoint_lock_release(v->c.lock);
    v->c.lock = NULL;
    return s;
}

/* Said before the weights are read: they may take long. */
static status make_config(conversion *v)
{
    if (!v->to_hf) return OK;
    config_source from = {.config = v->c.config,
                          .model = v->from_hf ? NULL : v->info.model,
                          .dtype = v->dtype ? v->dtype : "float32"};
    return model_write_config(&v->s.r, &from, &v->config, &v->err);
}

/* A file's folder, a folder itself; NULL: neither is there. */
static const char *as_folder(const conversion *v, const char *path)
{
    if (!path || !file_exists(path)) return NULL;
    if (file_is_folder(path)) return path;
    const char *folder = file_folder(v->a, path);
    return *folder ? folder : ".";
}

/* Where the model came from, or what the recipe calls its tokenizer. */
static const char *tokenizer_folder(const conversion *v)
{
    if (v->tokenizer) return v->tokenizer;
    const char *own = as_folder(v, v->from_hf ? v->src : v->named);
    return own ? own : as_folder(v, recipe_word(&v->s.r, K_TOKENIZER_MODEL));
}

static status save(conversion *v)
{
    if (!v->to_hf) return save_ours(v);
    v->beside = tokenizer_folder(v);
    hf_options o = {.bf16 = text_equal(v->dtype, "bfloat16"),
                    .config = v->config.text,
                    .beside = v->beside,
                    .saved = &v->saved};
    return hf_save(&v->s, &v->w, v->c.weights, v->dst, &o, &v->err);
}

/* ---- telling */

static int64_t elements(const conversion *v)
{
    int64_t n = 0;
    for (int i = 0; i < v->w.n; i++) n += v->w.list[i].n;
    return n;
}

static void print_count(const conversion *v, const char *what, hf_count n)
{
    printf("  %-9s %s tensors, %s elements\n", what, text_grouped(v->a, n.tensors),
           text_grouped(v->a, n.elements));
}

/* Every name, each reason once for those that follow each other. */
static void print_ignored(const conversion *v)
{
    const char *last = "";
    for (int i = 0; i < v->read.ignored.tensors; i++) {
        const hf_ignored *t = &v->read.list[i];
        if (strcmp(t->reason, last) != 0) printf("            %s:\n", t->reason);
        printf("              %s\n", t->name);
        last = t->reason;
    }
}

static void print_source(const conversion *v)
{
    if (!v->from_hf) {
        printf("Read      %s: iteration %" PRId64 ", every checksum is right\n", v->info.path,
               v->info.state.iteration);
        return;
    }
    printf("Read      %s: Hugging Face, %d file%s\n", v->src, v->read.n_files,
           v->read.n_files == 1 ? "" : "s");
    print_count(v, "found", v->read.found);
    print_count(v, "used", v->read.used);
    print_count(v, "applied", v->read.applied);
    print_count(v, "ignored", v->read.ignored);
    print_ignored(v);
}

static void print_config(const conversion *v)
{
    const config_made *c = &v->config;
    if (c->anew)
        printf("  config    %s, written from the recipe\n", c->model_type);
    else if (*c->changed)
        printf("  config    %s, the source's but for %s\n", c->model_type, c->changed);
    else
        printf("  config    %s, the source's\n", c->model_type);
}

/* What training did and no file of weights repeats. */
static const struct {
    knob_id knob;
    const char *what;
} only_trained[] = {
    {K_CAPACITY, "tokens beyond an expert's capacity were dropped; transformers drops none"},
    {K_FORCE_BALANCE, "routing was forced to balance; transformers asks the router"},
    {K_FORCE_RANDOM, "routing was random; transformers asks the router"},
};
enum { N_ONLY_TRAINED = sizeof only_trained / sizeof *only_trained };

/* NULL: the i-th of them was not used. */
static const char *only_trained_text(const conversion *v, int i)
{
    const setting *k = &v->s.r.knob[only_trained[i].knob];
    bool off = k->v.kind == V_NULL || (k->v.kind == V_BOOL && !k->v.flag);
    if (off) return NULL;
    return arena_text(v->a, "trained with %s=%s: %s", knobs[only_trained[i].knob].key,
                      value_text(v->a, k->v), only_trained[i].what);
}

static void print_notes(const conversion *v)
{
    for (int i = 0; i < N_ONLY_TRAINED; i++) {
        const char *text = only_trained_text(v, i);
        if (text) printf("  note      %s\n", text);
    }
}

static void print_carried(const conversion *v)
{
    for (int i = 0; i < v->saved.n_carried; i++)
        printf("%s%s%s", i ? ", " : "  copied    ", v->saved.carried[i],
               i + 1 < v->saved.n_carried ? "" : "\n");
    if (v->saved.n_carried) return;
    printf("  note      no tokenizer files: %s%s; --tokenizer FOLDER copies those of a folder\n",
           v->beside ? "none are in " : "the folder that the model came from is not known",
           v->beside ? v->beside : "");
}

static void print_destination(const conversion *v)
{
    if (!v->to_hf) {
        printf("Written   %s: checkpoint of iteration %" PRId64 ", FP32%s\n", v->dst,
               v->c.state.iteration, v->c.exp_avg ? ", with both moments" : "");
        return;
    }
    printf("Written   %s: Hugging Face, %s, %d file%s\n", v->dst, v->dtype ? v->dtype : "float32",
           v->saved.n_files, v->saved.n_files == 1 ? "" : "s");
    print_count(v, "written", (hf_count){v->saved.n_tensors, v->saved.elements});
    print_config(v);
    print_notes(v);
    print_carried(v);
}

static void print_text(const conversion *v)
{
    char sum[SUM_TEXT_MAX];
    sum_text(sum, checkpoint_weights_sum(&v->w, v->c.weights));
    print_source(v);
    printf("Weights   %d, %s elements, each written once, xxh64 %s\n", v->w.n,
           text_grouped(v->a, elements(v) - v->read.padded), sum);
    if (v->read.padded)
        printf("          and %s that pad the vocabulary, zero\n",
               text_grouped(v->a, v->read.padded));
    print_destination(v);
}

static const tensors_answer *tensors_of(const conversion *v, hf_count n)
{
    tensors_answer *x = ARENA_NEW(v->a, tensors_answer);
    *x = (tensors_answer){n.tensors, n.elements};
    return x;
}

static const hf_answer *answer_hf(const conversion *v)
{
    const char **notes = ARENA_ARRAY(v->a, const char *, N_ONLY_TRAINED + 1);
    hf_answer *x = ARENA_NEW(v->a, hf_answer);
    for (int i = 0, n = 0; i < N_ONLY_TRAINED; i++)
        if (only_trained_text(v, i)) notes[n++] = only_trained_text(v, i);
    *x = (hf_answer){v->config.model_type, v->config.changed, v->config.anew, notes,
                     answer_texts(v->saved.carried, v->saved.n_carried, v->a)};
    return x;
}

static void print_json(const conversion *v)
{
    char sum[SUM_TEXT_MAX];
    sum_text(sum, checkpoint_weights_sum(&v->w, v->c.weights));
    int n_ignored = v->read.ignored.tensors;
    ignored_answer *left_out = ARENA_ARRAY(v->a, ignored_answer, n_ignored);
    for (int i = 0; i < n_ignored; i++)
        left_out[i] = (ignored_answer){v->read.list[i].name, v->read.list[i].reason};
    const source_answer source = {.kind = v->from_hf ? "hf" : "moefold",
                                  .path = v->from_hf ? v->src : v->info.path,
                                  .found = tensors_of(v, v->read.found),
                                  .used = tensors_of(v, v->read.used),
                                  .applied = tensors_of(v, v->read.applied),
                                  .ignored = tensors_of(v, v->read.ignored),
                                  .ignored_tensors = left_out,
                                  .n_ignored_tensors = n_ignored};
    const weights_answer weights = {v->w.n, elements(v) - v->read.padded, v->read.padded, sum};
    const destination_answer destination = {v->to_hf ? "hf" : "moefold", v->dst,
                                            v->c.state.iteration, v->to_hf ? answer_hf(v) : NULL};
    const convert_answer x = {&source, &weights, &destination};
    cli_json_print(answer_json(convert_answer, &x));
}

/* ---- the command */

static status convert(conversion *v)
{
    const char *folder;
    int64_t iteration = -1;
    TRY(check_words(v));
    TRY(find_source(v, &folder, &iteration));
    TRY(find_destination(v));
    if (!v->from_hf) TRY(checkpoint_read_info(&v->info, v->a, folder, iteration, &v->err));
    TRY(prepare(v));
    TRY(make_config(v));
    double start = clock_seconds();
    waiting_begin("convert", "reading weights", WAITING_UNKNOWN, 0);
    status s = load(v, folder, iteration);
    waiting_end();
    if (s) return s;
    waiting_begin("convert", "writing weights", WAITING_ABOUT, clock_seconds() - start);
    s = save(v);
    waiting_end();
    if (s) return s;
    if (v->json)
        print_json(v);
    else
        print_text(v);
    return OK;
}

int command_convert(int argc, char **argv)
{
    arena *a = arena_create();
    conversion *v = ARENA_NEW(a, conversion);
    v->a = a;
    const cli_option options[] = {
        {"--to", "hf|moefold", "format to write; unset: the one that the source does not have",
         NULL, &v->to},
        {"--dtype", "TYPE", "type of Hugging Face weights: float32 or bfloat16; unset: float32",
         NULL, &v->dtype},
        {"--tokenizer", "FOLDER",
         "copy tokenizer and generation files from it; unset: from where the model came", NULL,
         &v->tokenizer},
        {"--json", NULL, "print JSON (docs/JSON.md)", &v->json, NULL},
    };
    char **rest = ARENA_ARRAY(a, char *, argc);
    const char *word = "";
    int n_rest = 0;
    bool done = false;
    status s = take_words(v, argc, argv, rest, &n_rest);
    if (!s)
        s = cli_read_plain(&(cli_words){"convert", n_rest, rest, options, 4}, &word, &done,
                           &v->err);
    if (!s && !done) s = convert(v);
    int code = s ? cli_fail("convert", s, &v->err) : OK;
    free(v->c.weights);
    free(v->c.exp_avg);
    free(v->c.exp_avg_sq);
    arena_destroy(a);
    return code;
}

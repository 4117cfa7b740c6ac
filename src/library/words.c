/* args.c - words of the command line: options, a recipe, overrides, flags of Megatron-LM. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/git.h"
#include "base/yaml.h"
#include "config/models/models.h"
#include "config/versions.h"
#include "config/input.h"
#include "config/megatron.h"
#include "config/megatron_table.h"
#include "library/words.h"

const char words_input[] = "standard input";

/* Lines may be broken where a value is given: in a list, or in a variable of --set. */
static bool is_assignment(const char *word)
{
    const char *equals = strchr(word, '=');
    return equals && strcspn(word, "\r\n") > (size_t)(equals - word);
}

status words_are_text(int argc, char **argv, error *err)
{
    for (int i = 1; i < argc; i++) {
        const char *p = argv[i];
        for (size_t left = strlen(p), n; left; p += n, left -= n)
            if ((n = text_character(p, left)) == 0 || *p == '\r') break;
        if (!*p && (is_assignment(argv[i]) || !strchr(argv[i], '\n'))) continue;
        char shown[200];
        text_escape(shown, sizeof shown, argv[i], false);
        return error_set(err, ERR_INPUT,
                         "argument %d, '%s', holds a control character or bytes that are not "
                         "UTF-8; repair: give the file another name, or leave them out",
                         i, shown);
    }
    return OK;
}

/* Takes an own option at word `at`. Returns how many words it used, 0 when it is none. */
static int take_option(const asked_words *w, int at, const word_option **taken, status *s,
                       error *err)
{
    char **words = w->argv + at;
    int left = w->argc - at;
    for (int i = 0; i < w->n_options; i++) {
        const word_option *o = &w->options[i];
        size_t n = strlen(o->name);
        if (strncmp(words[0], o->name, n) != 0) continue;
        *taken = o;
        if (words[0][n] == 0 && o->on) {
            *o->on = true;
            return 1;
        }
        if (!o->text) continue;
        if (words[0][n] == '=') {
            *o->text = words[0] + n + 1;
            return 1;
        }
        if (words[0][n] != 0) continue;
        if (left < 2) {
            *s = error_set(err, ERR_INPUT, "%s needs %s", o->name, o->value_name);
            return 1;
        }
        *o->text = words[1];
        return 2;
    }
    return 0;
}

static bool asks_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

/* The assignment that a word is or stands for (TP8 is tp=8); NULL: it is none. Short words count
 * only where no file has that name. */
static const char *override_of(arena *a, const char *word)
{
    const char *equals = strchr(word, '=');
    if (word[0] == '-') return NULL;
    if (!equals) return word_short(a, word);
    bool brief = !memchr(word, '.', (size_t)(equals - word));
    return brief && file_exists(word) ? NULL : word;
}

/* An option of the command that was nearly written, or begun; NULL: none, or it is a flag of
 * Megatron-LM. */
static const char *nearest_option(arena *a, const char *word, const word_option *options,
                                  int n_options)
{
    const char *names[WORD_OPTIONS_MAX], *bare = arena_copy(a, word, strcspn(word, "="));
    for (int i = 0; i < n_options; i++) names[i] = options[i].name;
    const char *near = text_meant(a, bare, names, n_options), *flag = flag_nearest(a, bare), *begun;
    if (text_begun(bare, names, n_options, &begun)) return near;
    bool closer = near && (!flag || text_distance(bare, near) <= text_distance(bare, flag));
    return closer ? near : NULL;
}

static status read_input(recipe *r, error *err)
{
    char *data;
    size_t n;
    TRY(file_read_input(r->a, YAML_BYTES_MAX, &data, &n, err));
    return recipe_parse_yaml(r, words_input, data, n, err);
}

/* A recipe as it was at another commit. Paths in it start in its folder as it is now. */
static status read_revision(recipe *r, const char *name, const megatron_options *how, error *err)
{
    char *data;
    size_t n;
    const char *path = git_path(name);
    TRY(git_show(r->a, name, MEGATRON_BYTES_MAX, &data, &n, err));
    r->folder = file_folder(r->a, path);
    if (input_is_megatron(data, n)) return megatron_parse_with(r, path, data, n, how, err);
    return recipe_parse_yaml(r, path, data, n, err);
}

/* What stands for the recipe: a model (preset, name on the hub, config.json or its folder), a YAML
 * file, or an input of Megatron-LM. */
static status read_named(recipe *r, const char *name, const megatron_options *how, error *err)
{
    if (strcmp(name, "-") == 0) return read_input(r, err);
    if (model_is_named(name)) {
        recipe_set(r, K_MODEL, value_of_text(name), "command line");
        return OK;
    }
    if (file_exists(name)) return input_read(r, name, how, err);
    if (git_is_revision(name)) return read_revision(r, name, how, err);
    const char *preset, *file = file_nearest(r->a, name);
    int n_begun = model_begun(name, &preset);
    if (n_begun == 1) {
        recipe_set(r, K_MODEL, value_of_text(preset), arena_text(r->a, "command line: %s", name));
        r->name = preset;
        return OK;
    }
    bool in_folder = strchr(name, '/') && file_is_folder(file_folder(r->a, name));
    preset = in_folder ? NULL : model_meant(r->a, name);
    if (file && !n_begun && (!preset || strpbrk(name, "./")))
        return error_set(err, ERR_INPUT,
                         "%s: no file, folder or preset model of this name; the nearest file is %s",
                         name, file);
    return error_set(err, ERR_INPUT, "%s: no file, folder or preset model of this name; %s", name,
                     preset ? preset : "`moefold show --presets` lists the presets");
}

static status read_with(recipe *r, const char *path, error *err)
{
    if (file_exists(path)) return recipe_read_yaml(r, path, err);
    const char *near = file_nearest(r->a, path);
    return error_set(err, ERR_INPUT, "--with %s: there is no such file; %s%s", path,
                     near ? "the nearest is " : "name a YAML file with knobs as in a recipe",
                     near ? near : "");
}

/* Options of every command that reads a recipe, behind its own; what it has itself is its own. Of
 * --with and --set `last` is the last, and all are listed. */
typedef struct shared_words {
    const char *megatron, *gpus, *seq, *versions, *last_set, *last_with;
    const char **with;
    int n_with;
    bool against; /* another recipe is named */
    megatron_options how;
} shared_words;

/* What the first pass finds, all that is wrong with it in one message. */
typedef struct first_words {
    recipe *scratch;
    shared_words *shared;
    const char *name; /* the recipe's */
    int *setting;     /* words that set a knob, in order: overrides and flags of Megatron-LM */
    int n_setting;
    textbuf unknown;
    int n_unknown;
} first_words;

static void gather_unknown(first_words *f, const char *text)
{
    text_add(&f->unknown, "%s%s", f->n_unknown++ ? "\n  " : "", text);
}

/* `--cp 8` for cp=8: a short name, or a key without its section, with two dashes before it. */
static const char *meant_knob(arena *a, const char *word)
{
    char *bare = (char *)arena_copy(a, word + 2, strcspn(word + 2, "="));
    for (char *p = bare; *p; p++)
        if (*p == '-') *p = '_';
    int k = knob_find(bare, NULL);
    return k < 0 ? NULL : knobs[k].short_name ? knobs[k].short_name : knobs[k].key;
}

/* A value behind an unknown flag is no recipe's name. */
static bool is_value(const first_words *f, const char *next)
{
    return next && next[0] != '-' && !strchr(next, '=') &&
           (f->name || isdigit((unsigned char)next[0]));
}

static void first_flag(first_words *f, const asked_words *w, int at, int *used)
{
    error err = {{0}};
    arena *a = f->scratch->a;
    const char *word = w->argv[at], *next = at + 1 < w->argc ? w->argv[at + 1] : NULL;
    const char *near = nearest_option(a, word, w->options, w->n_options);
    const char *meant = meant_knob(a, word);
    if (!near && !meant &&
        !megatron_flag(f->scratch, w->argc - at, w->argv + at, "command line", used, &err))
        return;
    if (meant)
        gather_unknown(f, arena_text(a, "unknown option '%.80s'; knobs are key=value: %s=%.80s",
                                     text_visible(a, word), meant,
                                     is_value(f, next) ? text_visible(a, next) : "..."));
    else if (near)
        gather_unknown(f, arena_text(a, "unknown option '%.80s'; did you mean %s?",
                                     text_visible(a, word), near));
    else
        gather_unknown(f, arena_copy(a, err.text, strlen(err.text)));
    *used = is_value(f, next) && !strchr(word, '=') ? 2 : 1;
}

static void first_override(first_words *f, const char *assignment)
{
    const char *p = assignment + strspn(assignment, "+"), *equals = strchr(p, '=');
    if (!equals || equals == p || equals[1] == '{') return; /* the second pass says more */
    const char *unknown =
        recipe_unknown_key(f->scratch->a, arena_copy(f->scratch->a, p, (size_t)(equals - p)));
    if (unknown) gather_unknown(f, arena_text(f->scratch->a, "command line: %s", unknown));
}

/* Of options that may be given several times, each counts. */
static status note_option(shared_words *w, const word_option *o, error *err)
{
    w->against = w->against || text_equal(o->name, "--against");
    if (o->text == &w->last_with) w->with[w->n_with++] = w->last_with;
    if (o->text != &w->last_set) return OK;
    if (w->how.n_sets == MEGATRON_SETS_MAX)
        return error_set(err, ERR_INPUT, "--set: more than %d are given", MEGATRON_SETS_MAX);
    w->how.sets[w->how.n_sets++] = w->last_set;
    return OK;
}

static status first_word(first_words *f, const asked_words *w, int at, int *used, error *err)
{
    status s = OK;
    char *word = w->argv[at];
    const word_option *option = NULL;
    int taken = take_option(w, at, &option, &s, err);
    TRY(s);
    const char *assignment = override_of(f->scratch->a, word);
    bool flag = strncmp(word, "--", 2) == 0;
    if (taken) {
        *used = taken;
        return note_option(f->shared, option, err);
    }
    if (!flag && !assignment && f->name)
        return error_set(err, ERR_INPUT,
                         "'%s': the recipe is '%s' already; overrides are key=value", word,
                         f->name);
    if (!flag && !assignment) {
        f->name = word;
        return OK;
    }
    f->setting[f->n_setting++] = at;
    if (flag)
        first_flag(f, w, at, used);
    else
        first_override(f, assignment);
    return OK;
}

/* Options and the recipe's name, and where knobs are set: that comes after, so that it wins
 * whatever the order of words. */
static status first_pass(first_words *f, const asked_words *w, bool *help, error *err)
{
    arena *a = arena_create();
    f->scratch = ARENA_NEW(a, recipe);
    f->unknown = text_init(a);
    recipe_init(f->scratch, a, "");
    status s = OK;
    for (int i = 1; i < w->argc && !s && !*help;) {
        int used = 1;
        *help = asks_help(w->argv[i]);
        if (!*help) s = first_word(f, w, i, &used, err);
        i += used;
    }
    if (!s && f->n_unknown && !*help) s = error_set(err, ERR_INPUT, "%s", f->unknown.s);
    arena_destroy(a);
    return s;
}

static status set_knobs(recipe *r, const first_words *f, const asked_words *w, error *err)
{
    int used;
    for (int i = 0; i < f->n_setting; i++) {
        char **words = w->argv + f->setting[i];
        const char *assignment = override_of(r->a, *words);
        TRY(assignment
                ? recipe_override(r, assignment, "command line", err)
                : megatron_flag(r, w->argc - f->setting[i], words, "command line", &used, err));
    }
    return OK;
}

/* A command's own, then those that all have. */
static int all_options(word_option *options, const asked_words *own_words, shared_words *w)
{
    const word_option shared[] = {
        {"--gpus", "NxGPU", "GPU count and type: 256xH100 or H100x256, 16x./my.yaml", NULL,
         &w->gpus},
        {"--seq", "TOKENS", "sequence length: 4096, 128K", NULL, &w->seq},
        {"--versions", "LIST", "versions of libraries, for rules: te=2.12,torch=2.9,cudnn=9.14",
         NULL, &w->versions},
        {"--with", "FILE",
         "YAML file of overrides on top of the recipe; with several the later wins", NULL,
         &w->last_with},
        {"--from-megatron", "FILE",
         "read a Megatron-LM argument list, launch script or YAML (MODEL_ARGS)", NULL,
         &w->megatron},
        {"--set", "NAME=value", "set a variable of that script or YAML; may be repeated", NULL,
         &w->last_set},
        {"--command", "N", "read the N-th training command of that script", NULL, &w->how.command},
    };
    int n = own_words->n_options, n_own = n;
    for (int i = 0; i < n; i++) options[i] = own_words->options[i];
    for (size_t i = 0; i < sizeof shared / sizeof shared[0]; i++) {
        bool own = false;
        for (int k = 0; k < n_own; k++) own = own || text_equal(options[k].name, shared[i].name);
        if (!own && n < WORD_OPTIONS_MAX) options[n++] = shared[i];
    }
    return n;
}

int words_options(word_option out[WORD_OPTIONS_MAX], const asked_words *w)
{
    shared_words unread = {0};
    return all_options(out, w, &unread);
}

/* --gpus, --seq and --versions; then the model fills what is open. */
static status set_shared(recipe *r, const shared_words *w, error *err)
{
    if (w->gpus) TRY(words_set_gpus(r, w->gpus, err));
    if (w->seq) TRY(words_set_seq(r, w->seq, err));
    if (w->versions) recipe_set(r, K_VERSIONS, value_of_text(w->versions), "--versions");
    TRY(recipe_versions_read(r, err));
    TRY(recipe_read_machine(r, err));
    TRY(model_fill(r, err));
    if (w->seq) words_reach_seq(r);
    return OK;
}

status words_read(arena *a, const asked_words *own, words_files *files, recipe *r, bool *done,
                  error *err)
{
    megatron_options *how = &files->how;
    shared_words w = {.with = ARENA_ARRAY(a, const char *, own->argc)};
    first_words f = {.shared = &w, .setting = ARENA_ARRAY(a, int, own->argc)};
    word_option options[WORD_OPTIONS_MAX];
    asked_words words = *own;
    words.options = options;
    words.n_options = all_options(options, own, &w);
    *done = false;
    recipe_init(r, a, "");
    TRY(first_pass(&f, &words, done, err));
    *how = w.how;
    if (*done) return OK;
    if (!f.name && !w.megatron)
        return error_set(err, ERR_INPUT,
                         "name a recipe: a YAML file, a preset model, or a config.json or its "
                         "folder (`moefold %s --help`)",
                         own->name);
    r->name = w.megatron ? w.megatron : f.name;
    if (strcmp(r->name, "-") == 0) r->name = words_input;
    bool read = false;
    if (f.name && files->first) TRY(files->first(r, f.name, &read, err));
    if (f.name && !read) TRY(read_named(r, f.name, how, err));
    files->begun = f.name && !w.megatron && strcmp(f.name, r->name) != 0 && r->name != words_input
                       ? f.name
                       : NULL;
    bool of_megatron = how->n_sets || how->command;
    if (of_megatron && !w.megatron && !w.against && !recipe_is_lm(r))
        return error_set(
            err, ERR_INPUT,
            "%s is for a Megatron-LM script or YAML (--from-megatron FILE): none is given",
            how->n_sets ? "--set" : "--command");
    if (w.megatron) TRY(megatron_read_with(r, w.megatron, how, err));
    const char *folder = r->folder;
    for (int i = 0; i < w.n_with; i++) TRY(read_with(r, w.with[i], err));
    r->folder = folder;
    TRY(set_knobs(r, &f, &words, err));
    return set_shared(r, &w, err);
}

status words_plain(const asked_words *w, const char **word, bool *done, error *err)
{
    char **argv = w->argv;
    *done = false;
    status s = OK;
    for (int i = 1; i < w->argc && !s;) {
        const word_option *taken;
        int used = take_option(w, i, &taken, &s, err);
        if (!used && asks_help(argv[i])) {
            *done = true;
            return OK;
        }
        if (!used && (argv[i][0] == '-' || *word))
            s = error_set(err, ERR_INPUT, "'%s' is not understood (`moefold %s --help`)", argv[i],
                          w->name);
        if (!used && !s) *word = argv[i];
        i += used ? used : 1;
    }
    return s;
}

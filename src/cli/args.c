/* args.c - words of the command line: options, a recipe, overrides, flags of Megatron-LM. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "cli/cli.h"
#include "recipe/megatron.h"

int cli_fail(const char *name, status s, const error *err)
{
    fprintf(stderr, "moefold %s: %s\n", name, err->text);
    return (int)s;
}

static void print_help(const char *name, const cli_option *options, int n_options)
{
    int n;
    const command *commands = command_table(&n);
    for (int i = 0; i < n; i++)
        if (strcmp(commands[i].name, name) == 0)
            printf("moefold %s %s\n%s\n\n", name, commands[i].usage, commands[i].summary);
    for (int i = 0; i < n_options; i++)
        printf("  %s%s%-*s %s\n", options[i].name, options[i].value_name ? " " : "",
               (int)(24 - strlen(options[i].name) - (options[i].value_name != NULL)),
               options[i].value_name ? options[i].value_name : "", options[i].help);
}

/* Takes an own option at words[i]. Returns how many words it used, 0 when it is none. */
static int take_option(const cli_option *options, int n_options, int left, char **words, status *s,
                       error *err)
{
    for (int i = 0; i < n_options; i++) {
        const cli_option *o = &options[i];
        size_t n = strlen(o->name);
        if (strncmp(words[0], o->name, n) != 0) continue;
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

static bool is_override(const char *word)
{
    return word[0] != '-' && strchr(word, '=') != NULL;
}

/* What stands for the recipe: a model (preset, name on the hub, config.json or its folder), or a
 * YAML file. */
static status read_named(recipe *r, const char *name, error *err)
{
    if (model_is_named(name)) {
        recipe_set(r, K_MODEL, value_of_text(name), "command line");
        return OK;
    }
    if (file_exists(name)) return recipe_read_yaml(r, name, err);
    int n;
    const char *const *presets = model_presets(&n);
    const char *near = text_nearest(name, presets, n);
    return error_set(err, ERR_INPUT, "%s: no file, folder or preset model of this name%s%s", name,
                     near ? "; the nearest preset is "
                          : "; `moefold show --presets` lists the presets",
                     near ? near : "");
}

/* First pass: options and the recipe's name. Overrides and flags come after, so that they win
 * whatever the order of words. */
static status first_pass(int argc, char **argv, const cli_option *options, int n_options,
                         const char **name, bool *help, error *err)
{
    recipe *scratch_recipe = NULL;
    arena *scratch = arena_create();
    scratch_recipe = ARENA_NEW(scratch, recipe);
    recipe_init(scratch_recipe, scratch, "");
    status s = OK;
    for (int i = 1; i < argc && !s;) {
        int used = 1;
        if (asks_help(argv[i])) {
            *help = true;
            break;
        }
        int taken = take_option(options, n_options, argc - i, argv + i, &s, err);
        if (taken)
            used = taken;
        else if (strncmp(argv[i], "--", 2) == 0)
            s = megatron_flag(scratch_recipe, argc - i, argv + i, "command line", &used, err);
        else if (!is_override(argv[i]) && *name)
            s = error_set(err, ERR_INPUT,
                          "'%s': the recipe is '%s' already; overrides are key=value", argv[i],
                          *name);
        else if (!is_override(argv[i]))
            *name = argv[i];
        i += used;
    }
    arena_destroy(scratch);
    return s;
}

static status second_pass(recipe *r, int argc, char **argv, const cli_option *options,
                          int n_options, error *err)
{
    status s = OK;
    for (int i = 1; i < argc && !s;) {
        int used = take_option(options, n_options, argc - i, argv + i, &s, err);
        if (used) {
            i += used;
            continue;
        }
        used = 1;
        if (is_override(argv[i]))
            s = recipe_override(r, argv[i], "command line", err);
        else if (strncmp(argv[i], "--", 2) == 0)
            s = megatron_flag(r, argc - i, argv + i, "command line", &used, err);
        i += used;
    }
    return s;
}

/* --set NAME=value and --set=NAME=value, as often as they are given; what they mean, --from-megatron
 * knows. */
static status gather_sets(int argc, char **argv, bool megatron, megatron_options *how, error *err)
{
    for (int i = 1; i < argc; i++) {
        bool apart = strcmp(argv[i], "--set") == 0 && i + 1 < argc;
        if (!apart && strncmp(argv[i], "--set=", 6) != 0) continue;
        if (how->n_sets == MEGATRON_SETS_MAX)
            return error_set(err, ERR_INPUT, "--set: more than %d are given", MEGATRON_SETS_MAX);
        how->sets[how->n_sets++] = apart ? argv[++i] : argv[i] + 6;
    }
    if (megatron || (!how->n_sets && !how->command)) return OK;
    return error_set(err, ERR_INPUT, "%s belongs to --from-megatron FILE, which is not given",
                     how->n_sets ? "--set" : "--command");
}

status cli_read(arena *a, const char *name, int argc, char **argv, const cli_option *own, int n_own,
                recipe *r, bool *done, error *err)
{
    const char *megatron = NULL, *recipe_name = NULL, *last_set = NULL;
    megatron_options how = {0};
    cli_option options[32];
    for (int i = 0; i < n_own; i++) options[i] = own[i];
    int n_options = n_own;
    options[n_options++] = (cli_option){
        "--from-megatron", "FILE",
        "read a Megatron-LM argument list, launch script or YAML (MODEL_ARGS)", NULL, &megatron};
    options[n_options++] = (cli_option){
        "--set", "NAME=value", "a variable of that script or YAML; repeatable", NULL, &last_set};
    options[n_options++] = (cli_option){
        "--command", "N", "which of several training commands of that script", NULL, &how.command};
    *done = false;
    recipe_init(r, a, "");
    status s = first_pass(argc, argv, options, n_options, &recipe_name, done, err);
    if (s) return s;
    if (*done) {
        print_help(name, options, n_options);
        return OK;
    }
    if (!recipe_name && !megatron)
        return error_set(err, ERR_INPUT,
                         "name a recipe: a YAML file, a preset model, or a config.json or its "
                         "folder (`moefold %s --help`)",
                         name);
    if (recipe_name && !megatron) r->name = recipe_name;
    if (megatron) r->name = megatron;
    if (recipe_name) s = read_named(r, recipe_name, err);
    if (!s) s = gather_sets(argc, argv, megatron != NULL, &how, err);
    if (!s && megatron) s = megatron_read_with(r, megatron, &how, err);
    if (!s) s = second_pass(r, argc, argv, options, n_options, err);
    if (!s) s = model_fill(r, err);
    return s;
}

status cli_read_plain(const char *name, int argc, char **argv, const cli_option *options,
                      int n_options, const char **word, bool *done, error *err)
{
    *done = false;
    status s = OK;
    for (int i = 1; i < argc && !s;) {
        int used = take_option(options, n_options, argc - i, argv + i, &s, err);
        if (!used && asks_help(argv[i])) {
            print_help(name, options, n_options);
            *done = true;
            return OK;
        }
        if (!used && (argv[i][0] == '-' || *word))
            s = error_set(err, ERR_INPUT, "'%s' is not understood (`moefold %s --help`)", argv[i],
                          name);
        if (!used && !s) *word = argv[i];
        i += used ? used : 1;
    }
    return s;
}

const char *cli_quoted(arena *a, const char *assignment)
{
    if (!strpbrk(assignment, " |()*[]'\"$&;<>?`\\!{}#~")) return assignment;
    textbuf t = text_init(a);
    text_add(&t, "'");
    for (const char *p = assignment; *p; p++) {
        if (*p == '\'')
            text_add(&t, "'\\''");
        else
            text_put(&t, p, 1);
    }
    text_add(&t, "'");
    return t.s;
}

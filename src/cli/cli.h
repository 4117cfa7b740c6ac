/* cli.h - what the commands share: their table, their options, and how a recipe is named.
 *
 * Wherever a command takes a RECIPE, it takes a YAML file (`-`: the standard input), the name of a
 * preset model, a config.json or its folder, or REVISION:path as git has it; then overrides
 * (key=value) and flags of Megatron-LM in any order, the later one winning. `--from-megatron FILE`
 * reads an argument list instead. */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include "base/json.h"
#include "base/colour.h"
#include "config/appended.h"
#include "config/megatron.h"
#include "rules/rules.h"

typedef struct command {
    const char *name, *usage, *summary;
    bool computes;                     /* runs kernels */
    int (*run)(int argc, char **argv); /* argv[0] is the command's name; returns the exit code */
} command;

const command *command_table(int *n);
int command_unknown(const char *name); /* says so, with the nearest; returns the exit code */
extern const char cli_version[];

int command_plan(int argc, char **argv);
int command_check(int argc, char **argv);
int command_show(int argc, char **argv);
int command_knobs(int argc, char **argv);
int command_train(int argc, char **argv);
int command_eval(int argc, char **argv);
int command_parity(int argc, char **argv);
int command_convert(int argc, char **argv);
int command_launch(int argc, char **argv);
int command_price(int argc, char **argv);
int command_bench(int argc, char **argv);
int command_report(int argc, char **argv);
int command_diff(int argc, char **argv);
int command_trace(int argc, char **argv);
int command_profile(int argc, char **argv);
int command_tune(int argc, char **argv);

/* An option of a command: a switch (`on`), or one that takes a value (`text`). */
typedef struct cli_option {
    const char *name, *value_name, *help;
    bool *on;
    const char **text;
} cli_option;

/* A command's words, the first of which is its name, and the options that it has. */
typedef struct cli_words {
    const char *name;
    int argc;
    char **argv;
    const cli_option *options;
    int n_options;
} cli_words;

/* Reads words into options and recipe (model_fill included). Prints help and sets *done for
 * --help. */
status cli_read(arena *a, const cli_words *w, recipe *r, bool *done, error *err);

/* The same; `how` gets how other files of Megatron-LM are to be read: --set and --command. */
status cli_read_how(arena *a, const cli_words *w, recipe *r, megatron_options *how, bool *done,
                    error *err);

/* ---- words.c */

/* A count such as 4096 or 128K, up to `most`. */
status cli_read_count(const char *option, const char *word, int64_t most, int64_t *n, error *err);

/* "256xH100", "H100x256", "H100" (*n is 0), "256" (*name is NULL); names may be paths. */
status cli_read_gpus(arena *a, const char *word, int64_t *n, const char **name, error *err);

/* What --gpus and --seq ask for, on top of what was read. ERR_INPUT: an override asks for something
 * else. cli_set_gpu is the part of cli_set_gpus that sets cluster.gpu. */
status cli_set_gpus(recipe *r, const char *word, error *err);
status cli_set_gpu(recipe *r, const char *word, const char *name, error *err);
status cli_set_seq(recipe *r, const char *word, error *err);
void cli_reach_seq(recipe *r); /* a model made for shorter sequences is made for this one */

/* The override that a word such as TP8 stands for; NULL: none, or there is a file of that name. */
const char *cli_short_word(arena *a, const char *word);

/* ERR_INPUT: the recipe was read from the standard input, which other ranks could not do. */
status cli_needs_file(const recipe *r, error *err);

/* Reads options and at most one other word, for commands without a recipe. */
status cli_read_plain(const cli_words *w, const char **word, bool *done, error *err);

/* Prints "moefold COMMAND: message" on the standard error and returns the exit code. */
int cli_fail(const char *name, status s, const error *err);

/* The colour of a severity. */
colour cli_colour(severity s);

/* Does the recipe break a rule? Says which, with their repairs, and warnings, on the standard
 * error. */
bool cli_refuse(const char *name, const setup *s, arena *a);

void cli_json_print(json_t *root); /* and gives it back */

struct fit;

/* ---- advice.c */

/* Repairs that were proved (rules_prove) become what a person is shown: with what they lead to
 * where the machine is known, as words for this command line. `own`: the fit of s, or NULL. */
void cli_advise(violations *found, const recipe *given, const setup *s, const struct fit *own,
                arena *a);

/* Lines under a heading of the first column: printf behind it. A heading may start with a
 * newline. */
void cli_print(const char *heading, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Blocks of text that several commands print. */
void cli_print_model(const setup *s, arena *a);

/* Notes of a recipe, each behind `before`. Of several that say "no effect here" one line says how
 * many; `all`: every one is printed. Returns whether anything was printed. */
bool cli_print_notes(const recipe *r, const char *before, bool all);
void cli_print_layout(const setup *s, arena *a);
void cli_print_stages(const setup *s, arena *a);
void cli_print_memory(const setup *s, int64_t pp_rank, arena *a);

/* One rank: reads its number; prints its places and groups, and what it holds. */
status cli_rank(const char *word, const setup *s, int64_t *rank, error *err);
void cli_print_rank(const setup *s, int64_t rank, arena *a);

/* The step program of a rank: "ops", "memory" or "schedule"; show_program.c. */
status cli_print_program(const setup *s, const char *what, int64_t rank, arena *a, error *err);
/* Its memory; NULL: no program can be built. */
struct program_answer;
const struct program_answer *cli_program_answer(const setup *s, int64_t rank, arena *a);

#endif

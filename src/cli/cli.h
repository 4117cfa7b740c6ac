/* cli.h - what the commands share: their table, their options, and how they print. */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include "base/json.h"
#include "base/colour.h"
#include "config/appended.h"
#include "library/words.h"
#include "rules/rules.h"

typedef struct command {
    const char *name, *usage, *summary;
    bool computes;                     /* runs kernels */
    int (*run)(int argc, char **argv); /* argv[0] is the command's name; returns the exit code */
} command;

const command *command_table(int *n);
int command_unknown(const char *name); /* says so, with the nearest; returns the exit code */
extern const char cli_absent[]; /* commands that only the whole program has, by |; "": it is */
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

typedef word_option cli_option;
typedef asked_words cli_words;

/* Reads words into options and recipe (model_fill included). Prints help and sets *done for
 * --help. */
status cli_read(arena *a, const cli_words *w, recipe *r, bool *done, error *err);

/* The same, where the first word may name something else than a recipe. */
status cli_read_first(arena *a, const cli_words *w, words_first first, recipe *r, bool *done,
                      error *err);

/* The same; `how` gets how other files of Megatron-LM are to be read: --set and --command. */
status cli_read_how(arena *a, const cli_words *w, recipe *r, megatron_options *how, bool *done,
                    error *err);

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

/* One rank: its places and groups, and what it holds. */
void cli_print_rank(const setup *s, int64_t rank, arena *a);

/* The step program of a rank: "ops", "memory" or "schedule"; show_program.c. */
status cli_print_program(const setup *s, const char *what, int64_t rank, arena *a, error *err);
/* Its memory; NULL: no program can be built. */
struct program_answer;
const struct program_answer *cli_program_answer(const setup *s, int64_t rank, arena *a);

#endif

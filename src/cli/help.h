/* help.h - what the commands say of themselves: help pages, the man page and completion are loops
 * over the same tables (main.c: commands; each command: its options; help.c: examples). */
#ifndef CLI_HELP_H
#define CLI_HELP_H

#include <stdio.h>

#include "cli/cli.h"

enum { HELP_OPTIONS_MAX = 48, HELP_EXAMPLES = 3 };

typedef struct help_example {
    const char *what, *line; /* what it is for; the whole command line */
} help_example;

/* HELP_EXAMPLES of them, from the repository's root; NULL: the command has none. */
const help_example *help_examples(const char *command);

/* The page of a command, or the list of all. */
void help_print(const char *name, const cli_option *options, int n_options);
void help_print_all(FILE *out);

/* The options of a command, as its own `--help` has them. Returns how many. */
int help_options(const command *c, cli_option *out, int max);

/* What a RECIPE may be, exit codes, and files, for pages that have room. */
extern const char help_recipe[];

int command_help(int argc, char **argv);
int command_man(int argc, char **argv);
int command_completion(int argc, char **argv);

#endif

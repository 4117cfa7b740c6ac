/* megatron.h - what Megatron-LM is started with: argument lists, launch scripts, YAML.
 *
 * A flag sets the knobs that carry it in knobs.def. Flags that are not one knob's stand in a
 * table of their own (megatron_table.h), as do those that Megatron-LM knows and that have no
 * effect here: they are read with the right number of words and noted with the reason. Other
 * flags are errors that name the nearest known ones. Both spellings work: `--flag value` and
 * `--flag=value`. */
#ifndef CONFIG_MEGATRON_H
#define CONFIG_MEGATRON_H

#include "config/recipe.h"

enum { MEGATRON_BYTES_MAX = 1 << 20, MEGATRON_WORDS_MAX = 4096, MEGATRON_SETS_MAX = 64 };

/* How a file is to be read. */
typedef struct megatron_options {
    const char *sets[MEGATRON_SETS_MAX]; /* --set: NAME=value */
    int n_sets;
    const char *command; /* --command: which of several training commands, from 1; NULL: the one */
} megatron_options;

/* One flag of our own command line: words[0] begins with "--". Its values are the words that
 * follow, for a list all up to the next flag or `key=value` override. `*used` is how many words
 * were taken. `where` stands in messages and is kept as the reason of the settings. */
status megatron_flag(recipe *r, int n, char *const *words, const char *where, int *used,
                     error *err);

/* A file, or - for the standard input; its content says of which kind it is:
 *
 *   argument list    flags, or a whole command; white space ends words, so that a pipeline layout
 *                    needs no quotes
 *   launch script    walked as a shell would (shell.h) up to its training command; nothing is
 *                    executed, the environment is not read, of other files only assignments
 *   YAML             flags under MODEL_ARGS, variables of the environment under ENV_VARS, as the
 *                    functional tests of Megatron-LM have them
 *
 * Words before the training program are the launcher's: its numbers of nodes and processes set
 * cluster.n_gpus and cluster.gpus_per_node; environment variables that are knobs are taken. All
 * unknown flags and all variables without a value are named in one message. Sets
 * moefold.system=megatron-lm, so that what the file leaves open follows that system. Without
 * options (NULL) nothing is set and a file has one command. */
status megatron_read_with(recipe *r, const char *path, const megatron_options *o, error *err);
status megatron_parse_with(recipe *r, const char *name, const char *data, size_t n,
                           const megatron_options *o, error *err);
status megatron_read(recipe *r, const char *path, error *err);
status megatron_parse(recipe *r, const char *name, const char *data, size_t n, error *err);

/* What Megatron-LM makes of flags that were not given, where it depends on other flags: for a
 * recipe with moefold.system=megatron-lm, after all settings were read and before recipe_derive. */
void megatron_derive(recipe *r);

#endif

/* megatron.h - argument lists of Megatron-LM.
 *
 * A flag sets the knobs that carry it in knobs.def. Flags that are not one knob's stand in a
 * table of their own (megatron_table.h), as do those that Megatron-LM knows and that have no
 * effect here: they are read with the right number of words and noted with the reason. Any
 * other flag is an error that names the nearest known one. Both spellings work: `--flag value`
 * and `--flag=value`. */
#ifndef RECIPE_MEGATRON_H
#define RECIPE_MEGATRON_H

#include "recipe/recipe.h"

enum { MEGATRON_BYTES_MAX = 1 << 20, MEGATRON_WORDS_MAX = 4096 };

/* One flag of our own command line: words[0] begins with "--". Its values are the words that
 * follow, for a list all up to the next flag or `key=value` override. `*used` is how many words
 * were taken. `where` stands in messages and is kept as the reason of the settings. */
status megatron_flag(recipe *r, int n, char *const *words, const char *where, int *used,
                     error *err);

/* A file with an argument list, or a whole command: words as a shell reads them (quotes,
 * backslash at the end of a line, # comments, arrays NAME=( ... )). What stands before the
 * first flag of Megatron-LM is the launcher's: torchrun's numbers of nodes and processes set
 * cluster.n_gpus and cluster.gpus_per_node, environment variables that are knobs are taken, the
 * rest is noted. A shell variable is an error: nobody here knows its value. Messages name file
 * and line. Sets moefold.system=megatron-lm, so that what the list leaves open follows that
 * system. */
status megatron_read(recipe *r, const char *path, error *err);
status megatron_parse(recipe *r, const char *name, const char *data, size_t n, error *err);

/* What Megatron-LM makes of flags that were not given, where it depends on other flags: for a
 * recipe with moefold.system=megatron-lm, after all settings were read and before recipe_derive. */
void megatron_derive(recipe *r);

#endif

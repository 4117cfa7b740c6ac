/* words.h - the words of a question: options, a recipe, overrides, flags of Megatron-LM.
 *
 * Wherever a question is of a RECIPE, that is a YAML file (`-`: the standard input), the name of a
 * preset model, a config.json or its folder, or REVISION:path as git has it; then come overrides
 * (key=value) and flags of Megatron-LM in any order, the later one winning. `--from-megatron FILE`
 * reads an argument list instead. */
#ifndef LIBRARY_WORDS_H
#define LIBRARY_WORDS_H

#include "config/megatron.h"
#include "layout/setup.h"

enum { WORD_OPTIONS_MAX = 32 };

/* A switch (`on`), or an option that takes a value (`text`). */
typedef struct word_option {
    const char *name, *value_name, *help;
    bool *on;
    const char **text;
} word_option;

/* The words of a command, the first of which is its name, and the options that it has. */
typedef struct asked_words {
    const char *name;
    int argc;
    char **argv;
    const word_option *options;
    int n_options;
} asked_words;

/* Names and values end up in files, scripts, JSON and on terminals: what no text holds is refused
 * before anything is done with it. */
status words_are_text(int argc, char **argv, error *err);

/* Is what names the recipe something else? Then it is read. */
typedef status (*words_first)(recipe *r, const char *name, bool *is_one, error *err);

typedef struct words_files {
    words_first first;    /* asked of the word that names the recipe; NULL: it names one */
    megatron_options how; /* to be set: --set, --command, for files of Megatron-LM */
    const char *begun;    /* to be set: the word that r->name, a preset, begins with; else NULL */
} words_files;

/* Reads words into options and recipe (model_fill included). *done: help is asked for, and nothing
 * is read. */
status words_read(arena *a, const asked_words *w, words_files *f, recipe *r, bool *done,
                  error *err);

/* Reads options and at most one other word, for commands without a recipe. */
status words_plain(const asked_words *w, const char **word, bool *done, error *err);

/* The options that words_read knows: the command's own, then those of every recipe. */
int words_options(word_option out[WORD_OPTIONS_MAX], const asked_words *w);

extern const char words_input[]; /* the name of a recipe from the standard input */

/* ---- word_sizes.c */

/* A count such as 4096 or 128K, up to `most`. */
status word_count(const char *option, const char *word, int64_t most, int64_t *n, error *err);

/* "256xH100", "H100x256", "H100" (*n is 0), "256" (*name is NULL); names may be paths. */
status word_gpus(arena *a, const char *word, int64_t *n, const char **name, error *err);

/* What --gpus and --seq ask for, on top of what was read. ERR_INPUT: an override asks for something
 * else. words_set_gpu is the part of words_set_gpus that sets cluster.gpu. */
status words_set_gpus(recipe *r, const char *word, error *err);
status words_set_gpu(recipe *r, const char *word, const char *name, error *err);
status words_set_seq(recipe *r, const char *word, error *err);
void words_reach_seq(recipe *r); /* a model made for shorter sequences is made for this one */

/* The override that a word such as TP8 stands for; NULL: none, or there is a file of that name. */
const char *word_short(arena *a, const char *word);

/* `--pin key=value` becomes an override, which is not searched; `--pin all` sets *all: what a file
 * sets is kept. */
status words_pins(int argc, char **argv, char **out, int *n, bool *all, error *err);

/* The number of a rank of this layout. */
status word_rank(const char *word, const setup *s, int64_t *rank, error *err);

#define HEADROOM_WORD "PART"
#define HEADROOM_HELP                                                                              \
    "fraction of a GPU's visible memory to keep free (moefold.headroom; unset: 0.05)"

/* --headroom sets the knob; NULL: it is not given. */
status words_headroom(recipe *r, const char *word, error *err);

/* --stack sets moefold.stack, so that rules see it and a recipe that is written keeps it; NULL: it
 * is not given. */
void words_stack(recipe *r, const char *word);

#endif

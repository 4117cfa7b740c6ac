/* megatron_words.h - the words of a command, as a shell would split them. */
#ifndef RECIPE_MEGATRON_WORDS_H
#define RECIPE_MEGATRON_WORDS_H

#include "base/arena.h"
#include "base/status.h"

typedef struct shell_words {
    char **text;
    int *line; /* where each begins, from 1 */
    int n;
} shell_words;

/* Quotes, backslashes and comments work as in a shell; marks such as | ( ) * are plain letters,
 * so that a pipeline layout needs no quotes. At most `max` words. Variables and `commands` are
 * errors. */
status words_split(arena *a, const char *name, const char *data, size_t n, int max,
                   shell_words *out, error *err);

#endif

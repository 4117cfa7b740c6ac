/* shell.h - what a launch script would run, found without running anything.
 *
 * The script is walked as a shell would walk it: assignments, arrays, ${X:-d} and its relatives,
 * $((...)), tests, loops and functions are evaluated; no program is started, the environment is not
 * looked at, and no file is read but one of assignments that is sourced from beside the script.
 * What is only known where the script runs (a variable that nobody set, the script's own arguments,
 * the output of a command) stays in the text as a mark with its name, so that the reader can say
 * what is missing.
 *
 * Whatever the bytes, the walk ends: steps, depth and bytes are bounded (shell_limits). */
#ifndef CONFIG_SHELL_H
#define CONFIG_SHELL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/status.h"

/* NAME=value, given by the user: wins over what the script assigns. */
typedef struct shell_set {
    const char *name, *value;
    bool used; /* the script names it */
} shell_set;

/* Words after expansion, each with the line where it was written. */
typedef struct shell_words {
    char **text;
    int *line;
    int n, room;
} shell_words;

typedef struct shell_command {
    shell_words words;
    shell_words environment; /* NAME=value of what is exported, and of what stands before it */
    int line;
} shell_command;

typedef struct shell_result {
    shell_command *commands; /* in the order in which they would run */
    int n_commands, room;
    shell_words arrays; /* the words of all arrays, for a file that holds nothing else */
    const char **notes; /* what was not followed, and why */
    int n_notes, notes_room;
} shell_result;

enum shell_limits {
    SHELL_STEPS_MAX = 50000,      /* commands */
    SHELL_DEPTH_MAX = 64,         /* of nesting, of functions, of quotes in quotes */
    SHELL_VALUE_MAX = 1 << 18,    /* bytes of a word or of a variable */
    SHELL_TOTAL_MAX = 1 << 24,    /* bytes of all words that were expanded */
    SHELL_VARIABLES_MAX = 1024,   /* names */
    SHELL_COMMANDS_MAX = 1 << 14, /* kept */
    SHELL_NOTES_MAX = 64,
};

/* A text, and what messages call it. */
typedef struct shell_source {
    const char *name, *data;
    size_t n;
    int line; /* of its first byte */
    shell_set *sets;
    int n_sets;
    const shell_set *known; /* variables that are set before it begins */
    int n_known;
    const char *folder; /* files of assignments that it sources from there are read; NULL: none */
} shell_source;

/* Walks a script. Messages name it and the line. */
status shell_read(arena *a, const shell_source *from, shell_result *out, error *err);

/* Splits a list of arguments: words end at white space only and lines mean nothing, so that
 * | ( ) * and the like need no quotes; quotes, backslashes, comments and variables are a
 * shell's. At most `max` words. */
status shell_list(arena *a, const shell_source *from, int max, shell_words *out, error *err);

/* Expands the variables of one text, as between double quotes. */
status shell_text(arena *a, const shell_source *from, char **out, error *err);

/* ---- where names and words end */

/* A piece of a text. */
typedef struct slice {
    const char *s;
    size_t n;
    int line;
} slice;

size_t shell_name_length(const char *p, const char *end);

/* How many bytes the first word has that ends at white space or, unless `plain`, at a mark of the
 * shell. Fails on a quote without an end. */
status shell_word_end(const shell_source *from, bool plain, size_t *n, error *err);

/* ---- marks of what is not known */
enum { SHELL_MARK = 1, SHELL_MARK_END = 2 };

bool shell_has_mark(const char *text);

/* The name in the first mark from *p on, *p then behind it; NULL: no more. */
const char *shell_next_mark(arena *a, const char **p);

/* The text with ${NAME} where marks stand. */
char *shell_plain(arena *a, const char *text);

/* A program without its folders. */
const char *shell_program(const char *word);

/* Appends a word. */
void shell_push(arena *a, shell_words *w, char *text, int line);

#endif

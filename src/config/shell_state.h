/* shell_state.h - where the walk through a script stands. */
#ifndef CONFIG_SHELL_STATE_H
#define CONFIG_SHELL_STATE_H

#include "config/shell_tree.h"

typedef struct element {
    const char *key, *text;
    int line; /* where it was written */
} element;

typedef struct variable {
    const char *name;
    bool set, is_array, exported;
    bool given; /* by the user: stays */
    element *items;
    int n, room;
} variable;

typedef struct variables {
    variable *items;
    int n, room;
} variables;

typedef struct function {
    slice name;
    const node *body;
} function;

/* Yes, no, or it depends on what is not known. */
typedef enum truth { NO, YES, MAYBE } truth;

typedef struct shell {
    arena *a;
    const char *name;
    error *err;
    const char *folder; /* of files that may be sourced; NULL: none */
    shell_set *sets;
    int n_sets;
    variables vars;
    function *functions;
    int n_functions, functions_room;
    shell_words *arguments;    /* of the function that runs; NULL: the script's own, not known */
    const shell_words *prefix; /* srun ... before bash -c: belongs to the commands in its text */
    shell_result *out;
    size_t bytes; /* expanded so far */
    int steps, depth, line;
    bool stop, leave_function, leave_loop, next_loop;
    int maybe;           /* inside branches of which nobody knows whether they are taken */
    const char *assumed; /* the variable that a test took as empty, since nobody set it */
    const char *cause;   /* what a test depends on */
} shell;

/* ---- variables */
variable *shell_find(const shell *sh, const char *name); /* NULL: not there */
status shell_assign(shell *sh, const char *name, const char *text);
status shell_assign_key(shell *sh, const char *name, const char *key, const char *text,
                        bool append);
variable *shell_touch(shell *sh, const char *name); /* makes it; NULL: too many */
void shell_use(shell *sh, const variable *v);       /* the script names it */
char *shell_mark(arena *a, const char *name);
variables shell_copy_variables(const shell *sh); /* to go back to */

/* ---- words */

/* Fields of a word. Splitting and "$@" may make several of it, or none. */
status shell_expand(shell *sh, slice word, bool split, shell_words *out);

/* One text: nothing is split. With `pattern`, what was quoted is escaped. */
status shell_expand_one(shell *sh, slice word, bool pattern, char **out);

/* What stands between double quotes, or in a document. */
status shell_expand_text(shell *sh, slice text, char **out);

/* Bytes that were made; an error when there are too many. */
status shell_charge(shell *sh, size_t bytes);

/* The parameter at p ($X, ${X:-d}, $((1+2)), $(command), `command`): its fields, and how many
 * bytes it took. `several`: "$@" and "${A[@]}", each item a field of its own. */
typedef struct parameter {
    shell_words fields;
    size_t used;
    bool several;
    bool joined;
} parameter;
status shell_parameter(shell *sh, const char *p, const char *end, int line, parameter *out);

/* ---- numbers */

/* Evaluates; what is not known gives marks. Assigns where the expression does. */
status shell_arithmetic(shell *sh, slice text, char **out);

/* ---- tests */
status shell_test_words(shell *sh, const slices *words, truth *out);               /* [[ ]] */
status shell_test_fields(shell *sh, const shell_words *fields, int n, truth *out); /* [ ] */
bool shell_match(const char *pattern, const char *text); /* * ? [a-z] \x */

/* ---- running */
status shell_run(shell *sh, const node *n, truth *out);
status shell_run_command(shell *sh, const node *n, truth *out);
status shell_run_text(shell *sh, const char *text, size_t n, int line);
void shell_note(shell *sh, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Runs a branch that may or may not be taken, keeps the commands in it, and then treats what it
 * assigns as not known. */
status shell_run_maybe(shell *sh, const node *branch);
int shell_forget(shell *sh, const node *branch, const char *cause); /* how many names */

static inline status shell_fail(shell *sh, int line, const char *what)
{
    return error_set(sh->err, ERR_INPUT, "%s:%d: %s", sh->name, line, what);
}

#endif

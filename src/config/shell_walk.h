/* shell_walk.h - a script as a tree, and where the walk through it stands: what the files of the
 * shell reader share.
 *
 * Words stay as they were written (quotes and all): what they mean depends on the moment. A text
 * that is parsed ends with a 0 and has none inside. */
#ifndef CONFIG_SHELL_WALK_H
#define CONFIG_SHELL_WALK_H

#include "base/text.h"
#include "config/shell.h"

/* ---- the tree */

typedef struct slices {
    slice *items;
    int n, room;
} slices;

typedef struct assignment {
    slice name;
    slice key; /* between brackets; s NULL: none */
    bool append, is_array;
    slice value;
    slices items; /* of an array */
} assignment;

typedef struct here_doc {
    slice body;
    bool literal; /* the delimiter was quoted: nothing is expanded */
} here_doc;

typedef enum node_kind {
    NODE_COMMAND,
    NODE_LIST,
    NODE_AND,
    NODE_OR,
    NODE_NOT,
    NODE_PIPE,
    NODE_IF,    /* a: test, b: then, c: else or NULL */
    NODE_WHILE, /* a: test, b: body */
    NODE_UNTIL,
    NODE_FOR,   /* name, words: the list; b: body */
    NODE_LOOP,  /* for ((...)): words has three expressions; b: body */
    NODE_CASE,  /* words[0]; items: NODE_ARM with words (patterns) and b */
    NODE_ARM,   /* one arm of a case */
    NODE_GROUP, /* { } or ( ): b */
    NODE_FUNCTION,
    NODE_TEST,  /* [[ ]]: words */
    NODE_ARITH, /* (( )): words[0] */
} node_kind;

typedef struct node {
    node_kind kind;
    int line;
    struct node *a, *b, *c;
    struct node **items;
    int n_items, items_room;
    slice name;
    slices words;
    assignment *assigns;
    int n_assigns, assigns_room;
    here_doc *docs;
    int n_docs, docs_room;
    bool writes;   /* > and >> */
    bool in_args;  /* for without "in": over the script's arguments */
    bool subshell; /* ( ): what it sets is lost */
} node;

status shell_parse(arena *a, const shell_source *from, node **out, error *err);

/* The end of what begins at p with an opening quote, $( $(( ${ or `; 0: it begins none. */
size_t shell_skip_quoted(const char *p, const char *end, int depth);

bool shell_is_name_letter(char c, bool first);

/* Is it a simple command whose first word, as written, is one of the words between commas? */
bool shell_is_command(const node *n, const char *words);

/* export and its like, behind which assignments may stand. */
#define SHELL_DECLARES "export,declare,local,readonly,typeset"

/* ---- the walk */

typedef struct element {
    const char *key, *text;
    int line; /* where it was written */
} element;

/* A list of (key, text); a plain variable has one with the key 0. */
typedef struct variable {
    const char *name;
    bool set, is_array, exported;
    bool given; /* by the user: stays, whatever the script assigns */
    element *items;
    int n, room;
} variable;

typedef struct variables {
    variable *items;
    int n, room;
} variables;

typedef struct function {
    const char *name;
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

status shell_fail(shell *sh, int line, const char *what);
void shell_note(shell *sh, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Bytes that were made; an error when there are too many. The second: those that are looked at
 * where one text is searched for another. */
status shell_charge(shell *sh, size_t bytes);
status shell_charge_search(shell *sh, const char *text, const char *pattern);

/* Variables (shell_vars.c). What shell_assign stores is the caller's to keep. */
variable *shell_find(const shell *sh, const char *name); /* NULL: not there */
status shell_assign(shell *sh, const char *name, const char *text);
status shell_assign_as(shell *sh, const assignment *as); /* as the script has it */
void shell_use(shell *sh, const variable *v);            /* the script names it */

/* A copy of all, to go back to. */
status shell_set_aside(shell *sh, variables *kept);

/* Whatever the commands of the tree assign is not known any more, because of `cause`. Returns how
 * many names those are. */
int shell_forget(shell *sh, const node *n, const char *cause);

/* The mark of what is not known; and the first of a text, as what a test depends on. */
char *shell_mark(arena *a, const char *name);
void shell_depends(shell *sh, const char *text);

/* Fields of a word. Splitting and "$@" may make several of it, or none. */
status shell_expand(shell *sh, slice word, bool split, shell_words *out);

/* One text: nothing is split. With `pattern`, what was quoted is escaped. */
status shell_expand_one(shell *sh, slice word, bool pattern, char **out);

/* What stands between double quotes, or in a document. */
status shell_expand_text(shell *sh, slice text, char **out);

/* A number of $((...)); what is not known gives marks. Assigns where the expression does. */
status shell_arithmetic(shell *sh, slice text, char **out);

status shell_test_words(shell *sh, const slices *words, truth *out);               /* [[ ]] */
status shell_test_fields(shell *sh, const shell_words *fields, int n, truth *out); /* [ ] */
bool shell_match(const char *pattern, const char *text); /* * ? [a-z] \x */

#endif

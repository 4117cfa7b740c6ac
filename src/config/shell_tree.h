/* shell_tree.h - a script as a tree; shared by the files of the shell reader.
 *
 * Words stay as they were written (quotes and all): what they mean depends on the moment. */
#ifndef CONFIG_SHELL_TREE_H
#define CONFIG_SHELL_TREE_H

#include <stdint.h>

#include "base/text.h"
#include "config/shell.h"

/* A piece of the source. */
typedef struct slice {
    const char *s;
    size_t n;
    int line;
} slice;

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

/* How many bytes the first word has that ends at white space or, unless `plain`, at a mark of the
 * shell. Fails on a quote without an end. */
status shell_word_end(const shell_source *from, bool plain, size_t *n, error *err);

/* The end of what begins at p with an opening quote, $( $(( ${ or `; 0: it begins none. */
size_t shell_skip_quoted(const char *p, const char *end, int depth);

/* The same for what begins at p with "(". */
size_t shell_skip_parens(const char *p, const char *end);

static inline bool shell_is_name_letter(char c, bool first)
{
    return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (!first && c >= '0' && c <= '9');
}

static inline size_t shell_name_length(const char *p, const char *end)
{
    size_t n = 0;
    while (p + n < end && shell_is_name_letter(p[n], n == 0)) n++;
    return n;
}

static inline bool shell_slice_is(slice s, const char *word)
{
    size_t i = 0;
    for (; i < s.n && word[i]; i++)
        if (s.s[i] != word[i]) return false;
    return i == s.n && !word[i];
}

#endif

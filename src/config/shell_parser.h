/* shell_parser.h - where the parser of scripts stands; shared by its two files. */
#ifndef CONFIG_SHELL_PARSER_H
#define CONFIG_SHELL_PARSER_H

#include "config/shell_tree.h"

typedef struct parser {
    arena *a;
    const char *name, *p, *end;
    int line, depth;
    struct { /* documents whose bodies begin after this line */
        node *n;
        slice word;
        bool tabs;
    } pending[16];
    int n_pending;
    error *err;
} parser;

status parser_fail(const parser *ps, int line, const char *what);

/* ---- letters and lines */
bool parser_at(const parser *ps, const char *text);
void parser_advance(parser *ps, size_t n);
void parser_skip_blanks(parser *ps);   /* and comments, and joined lines */
void parser_skip_newlines(parser *ps); /* and the documents that begin there */

/* ---- words */
status parser_word_end(const parser *ps, bool plain, size_t *n); /* of the word that begins here */
status parser_take_word(parser *ps, slice *out);
void parser_push(parser *ps, slices *list, slice word);
node *parser_make(parser *ps, node_kind kind);
bool parser_at_word(const parser *ps, const char *word); /* this one, and whole */
bool parser_eat_word(parser *ps, const char *word);

/* ---- commands */
bool parser_ends_command(const parser *ps);
status parser_take_redirections(parser *ps, node *n);

/* NAME=value ... word ...; NAME() begins a function. */
status parser_simple(parser *ps, node **out);
status parser_function_body(parser *ps, slice name, node **out); /* shell_parse.c */

#endif

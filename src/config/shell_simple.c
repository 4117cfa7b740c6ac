/* shell_simple.c - the parser's words and simple commands: letters, documents, assignments,
 * redirections. */
#include "config/shell_parser.h"

#include <string.h>

enum { KEY_MAX = 256 }; /* bytes of a key: A[key]=value */

status parser_fail(const parser *ps, int line, const char *what)
{
    return error_set(ps->err, ERR_INPUT, "%s:%d: %s", ps->name, line, what);
}
/* ---- letters */

bool parser_at(const parser *ps, const char *text)
{
    size_t n = strlen(text);
    return (size_t)(ps->end - ps->p) >= n && memcmp(ps->p, text, n) == 0;
}

static size_t continuation(const parser *ps)
{
    return parser_at(ps, "\\\n") ? 2 : parser_at(ps, "\\\r\n") ? 3 : 0;
}

void parser_advance(parser *ps, size_t n)
{
    for (; n > 0; n--) ps->line += *ps->p++ == '\n';
}

static void skip_comment(parser *ps)
{
    while (ps->p < ps->end && *ps->p != '\n') ps->p++;
}

void parser_skip_blanks(parser *ps)
{
    for (;;) {
        size_t n = continuation(ps);
        if (n)
            parser_advance(ps, n);
        else if (ps->p < ps->end && strchr(" \t\r", *ps->p) && *ps->p)
            ps->p++;
        else if (ps->p < ps->end && *ps->p == '#')
            skip_comment(ps);
        else
            return;
    }
}

/* ---- documents */

/* Takes the lines up to the delimiter. */
static void read_document(parser *ps, node *n, slice word, bool tabs)
{
    here_doc d = {.body = {.s = ps->p, .line = ps->line}};
    textbuf delimiter = text_init(ps->a);
    for (size_t i = 0; i < word.n; i++) {
        bool quote = strchr("'\"\\", word.s[i]) != NULL;
        d.literal |= quote;
        if (!quote) text_put(&delimiter, word.s + i, 1);
    }
    bool done = false;
    while (ps->p < ps->end && !done) {
        const char *stop = memchr(ps->p, '\n', (size_t)(ps->end - ps->p));
        size_t n_line = (size_t)((stop ? stop : ps->end) - ps->p), skip = 0;
        while (tabs && skip < n_line && ps->p[skip] == '\t') skip++;
        size_t left = n_line - skip;
        if (left && ps->p[n_line - 1] == '\r') left--;
        done = left == delimiter.n && memcmp(ps->p + skip, delimiter.s, left) == 0;
        if (!done) d.body.n = (size_t)((stop ? stop + 1 : ps->end) - d.body.s);
        parser_advance(ps, n_line + (stop != NULL));
    }
    ARENA_GROW(ps->a, n->docs, n->n_docs, n->docs_room);
    n->docs[n->n_docs++] = d;
}

static void newline(parser *ps)
{
    parser_advance(ps, 1);
    for (int i = 0; i < ps->n_pending; i++)
        read_document(ps, ps->pending[i].n, ps->pending[i].word, ps->pending[i].tabs);
    ps->n_pending = 0;
}

void parser_skip_newlines(parser *ps)
{
    for (parser_skip_blanks(ps); ps->p < ps->end && *ps->p == '\n'; parser_skip_blanks(ps))
        newline(ps);
}

/* ---- words */

status parser_word_end(const parser *ps, bool plain, size_t *n)
{
    shell_source rest = {
        .name = ps->name, .data = ps->p, .n = (size_t)(ps->end - ps->p), .line = ps->line};
    return shell_word_end(&rest, plain, n, ps->err);
}

status parser_take_word(parser *ps, slice *out)
{
    size_t n;
    status s = parser_word_end(ps, false, &n);
    if (s) return s;
    *out = (slice){ps->p, n, ps->line};
    parser_advance(ps, n);
    parser_skip_blanks(ps);
    return OK;
}

void parser_push(parser *ps, slices *list, slice word)
{
    ARENA_GROW(ps->a, list->items, list->n, list->room);
    list->items[list->n++] = word;
}

node *parser_make(parser *ps, node_kind kind)
{
    node *n = ARENA_NEW(ps->a, node);
    n->kind = kind;
    n->line = ps->line;
    return n;
}

/* Is the word at p this one, and whole? */
bool parser_at_word(const parser *ps, const char *word)
{
    size_t n = strlen(word);
    if (!parser_at(ps, word)) return false;
    return ps->p + n == ps->end || strchr(" \t\r\n;&|()<>", ps->p[n]) != NULL;
}

bool parser_eat_word(parser *ps, const char *word)
{
    if (!parser_at_word(ps, word)) return false;
    parser_advance(ps, strlen(word));
    parser_skip_blanks(ps);
    return true;
}

/* ---- assignments */

/* NAME=, NAME+=, NAME[key]= at p; *n is up to the value. */
static bool is_assignment(const parser *ps, assignment *as, size_t *n)
{
    size_t i = shell_name_length(ps->p, ps->end);
    if (i == 0) return false;
    *as = (assignment){.name = {ps->p, i, ps->line}};
    if (ps->p + i < ps->end && ps->p[i] == '[') {
        size_t room = (size_t)(ps->end - ps->p) - i;
        if (room > KEY_MAX) room = KEY_MAX;
        const char *close = memchr(ps->p + i, ']', room);
        if (!close || memchr(ps->p + i, '\n', (size_t)(close - ps->p) - i)) return false;
        as->key = (slice){ps->p + i + 1, (size_t)(close - (ps->p + i + 1)), ps->line};
        i = (size_t)(close + 1 - ps->p);
    }
    if (ps->p + i < ps->end && ps->p[i] == '+') {
        as->append = true;
        i++;
    }
    if (ps->p + i >= ps->end || ps->p[i] != '=') return false;
    *n = i + 1;
    return true;
}

static status array_items(parser *ps, assignment *as)
{
    int line = ps->line;
    parser_advance(ps, 1);
    for (parser_skip_newlines(ps); ps->p < ps->end && *ps->p != ')'; parser_skip_newlines(ps)) {
        slice word;
        const char *before = ps->p;
        status s = parser_take_word(ps, &word);
        if (s) return s;
        if (ps->p == before)
            return parser_fail(ps, ps->line, "a word of an array is expected here");
        parser_push(ps, &as->items, word);
    }
    if (ps->p == ps->end) return parser_fail(ps, line, "the array has no ')'");
    parser_advance(ps, 1);
    as->is_array = true;
    return OK;
}

static status take_assignment(parser *ps, node *n, bool *taken)
{
    assignment as;
    size_t len;
    *taken = is_assignment(ps, &as, &len);
    if (!*taken) return OK;
    parser_advance(ps, len);
    status s = OK;
    if (ps->p < ps->end && *ps->p == '(')
        s = array_items(ps, &as);
    else
        s = parser_word_end(ps, false, &as.value.n);
    if (s) return s;
    if (!as.is_array) {
        as.value.s = ps->p;
        as.value.line = ps->line;
        parser_advance(ps, as.value.n);
    }
    parser_skip_blanks(ps);
    ARENA_GROW(ps->a, n->assigns, n->n_assigns, n->assigns_room);
    n->assigns[n->n_assigns++] = as;
    return OK;
}

/* ---- redirections: read over, but for documents */

static status take_document(parser *ps, node *n)
{
    bool tabs = ps->p < ps->end && *ps->p == '-';
    if (tabs) parser_advance(ps, 1);
    parser_skip_blanks(ps);
    slice word;
    status s = parser_take_word(ps, &word);
    if (s) return s;
    int i = ps->n_pending;
    if (i == sizeof ps->pending / sizeof ps->pending[0])
        return parser_fail(ps, ps->line, "more than 16 documents (<<) in one line");
    ps->pending[i].n = n;
    ps->pending[i].word = word;
    ps->pending[i].tabs = tabs;
    ps->n_pending++;
    return OK;
}

/* <(command) and >(command); *taken says whether there was one. */
static status take_process(parser *ps, bool *taken)
{
    *taken = parser_at(ps, "<(") || parser_at(ps, ">(");
    if (!*taken) return OK;
    /* The same nesting as $( ): the letter before the ( does not matter. */
    size_t n = 1 + shell_skip_parens(ps->p + 1, ps->end);
    if (n == 1) return parser_fail(ps, ps->line, "'<(' has no ')'");
    parser_advance(ps, n);
    parser_skip_blanks(ps);
    return OK;
}

static status take_redirection(parser *ps, node *n, bool *taken)
{
    size_t digits = 0;
    while (ps->p + digits < ps->end && ps->p[digits] >= '0' && ps->p[digits] <= '9') digits++;
    const char *mark = ps->p + digits;
    bool both = parser_at(ps, "&>");
    *taken = both || (mark < ps->end && (*mark == '<' || *mark == '>'));
    if (!*taken) return OK;
    bool process;
    status s = take_process(ps, &process);
    if (s || process) return s;
    n->writes |= both || *mark == '>';
    parser_advance(ps, both ? 2 : digits);
    if (parser_at(ps, "<<") && !parser_at(ps, "<<<")) {
        parser_advance(ps, 2);
        return take_document(ps, n);
    }
    while (ps->p < ps->end && *ps->p && strchr("<>&|", *ps->p) && !parser_at(ps, "<(") &&
           !parser_at(ps, ">("))
        parser_advance(ps, 1);
    parser_skip_blanks(ps);
    s = take_process(ps, &process);
    if (s || process) return s;
    slice target;
    return parser_take_word(ps, &target);
}

status parser_take_redirections(parser *ps, node *n)
{
    for (bool taken = true; taken;) {
        status s = take_redirection(ps, n, &taken);
        if (s) return s;
    }
    return OK;
}

/* ---- simple commands */

bool parser_ends_command(const parser *ps)
{
    return ps->p >= ps->end || strchr("\n;|)", *ps->p) || (*ps->p == '&' && !parser_at(ps, "&>"));
}

static bool declares(slice word)
{
    static const char *const builtins[] = {"export", "declare", "local", "readonly", "typeset"};
    for (int i = 0; i < 5; i++)
        if (shell_slice_is(word, builtins[i])) return true;
    return false;
}

status parser_simple(parser *ps, node **out)
{
    node *n = parser_make(ps, NODE_COMMAND);
    while (!parser_ends_command(ps)) {
        bool taken = false;
        status s = take_redirection(ps, n, &taken);
        bool assigns = n->words.n == 0 || declares(n->words.items[0]);
        if (!s && !taken && assigns) s = take_assignment(ps, n, &taken);
        if (s) return s;
        if (taken) continue;
        if (*ps->p == '(') return parser_fail(ps, ps->line, "'(' is not expected here");
        slice word;
        s = parser_take_word(ps, &word);
        if (s) return s;
        if (word.n == 0) return parser_fail(ps, ps->line, "a word is expected here");
        if (n->words.n == 0 && n->n_assigns == 0 && parser_at(ps, "()")) {
            parser_advance(ps, 2);
            return parser_function_body(ps, word, out);
        }
        parser_push(ps, &n->words, word);
    }
    *out = n;
    return OK;
}

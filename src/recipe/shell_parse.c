/* shell_parse.c - from the text of a script to its tree.
 *
 * I1  The parser never looks into words: it only finds where they end.
 * I2  What it cannot read is an error with its line, never a guess. */
#include "recipe/shell_tree.h"

#include <string.h>

enum { KEY_MAX = 256 }; /* bytes of a key: A[key]=value */

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

static status parse_list(parser *ps, node **out);

static status fail(const parser *ps, int line, const char *what)
{
    return error_set(ps->err, ERR_INPUT, "%s:%d: %s", ps->name, line, what);
}

/* ---- letters */

static bool at(const parser *ps, const char *text)
{
    size_t n = strlen(text);
    return (size_t)(ps->end - ps->p) >= n && memcmp(ps->p, text, n) == 0;
}

static size_t continuation(const parser *ps)
{
    return at(ps, "\\\n") ? 2 : at(ps, "\\\r\n") ? 3 : 0;
}

static void advance(parser *ps, size_t n)
{
    for (; n > 0; n--) ps->line += *ps->p++ == '\n';
}

static void skip_comment(parser *ps)
{
    while (ps->p < ps->end && *ps->p != '\n') ps->p++;
}

static void skip_blanks(parser *ps)
{
    for (;;) {
        size_t n = continuation(ps);
        if (n)
            advance(ps, n);
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
        advance(ps, n_line + (stop != NULL));
    }
    ARENA_GROW(ps->a, n->docs, n->n_docs, n->docs_room);
    n->docs[n->n_docs++] = d;
}

static void newline(parser *ps)
{
    advance(ps, 1);
    for (int i = 0; i < ps->n_pending; i++)
        read_document(ps, ps->pending[i].n, ps->pending[i].word, ps->pending[i].tabs);
    ps->n_pending = 0;
}

static void skip_newlines(parser *ps)
{
    for (skip_blanks(ps); ps->p < ps->end && *ps->p == '\n'; skip_blanks(ps)) newline(ps);
}

/* ---- words */

static status take_word(parser *ps, slice *out)
{
    size_t n;
    status s = shell_word_end(ps->name, ps->p, ps->end, ps->line, false, &n, ps->err);
    if (s) return s;
    *out = (slice){ps->p, n, ps->line};
    advance(ps, n);
    skip_blanks(ps);
    return OK;
}

static void push(parser *ps, slices *list, slice word)
{
    ARENA_GROW(ps->a, list->items, list->n, list->room);
    list->items[list->n++] = word;
}

static node *make(parser *ps, node_kind kind)
{
    node *n = ARENA_NEW(ps->a, node);
    n->kind = kind;
    n->line = ps->line;
    return n;
}

/* Is the word at p this one, and whole? */
static bool at_word(const parser *ps, const char *word)
{
    size_t n = strlen(word);
    if (!at(ps, word)) return false;
    return ps->p + n == ps->end || strchr(" \t\r\n;&|()<>", ps->p[n]) != NULL;
}

static bool eat_word(parser *ps, const char *word)
{
    if (!at_word(ps, word)) return false;
    advance(ps, strlen(word));
    skip_blanks(ps);
    return true;
}

static status expect_word(parser *ps, const char *word, const char *of, int line)
{
    skip_newlines(ps);
    if (eat_word(ps, word)) return OK;
    return error_set(ps->err, ERR_INPUT, "%s:%d: '%s' has no '%s' (looked for in line %d)",
                     ps->name, line, of, word, ps->line);
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
    advance(ps, 1);
    for (skip_newlines(ps); ps->p < ps->end && *ps->p != ')'; skip_newlines(ps)) {
        slice word;
        const char *before = ps->p;
        status s = take_word(ps, &word);
        if (s) return s;
        if (ps->p == before) return fail(ps, ps->line, "a word of an array is expected here");
        push(ps, &as->items, word);
    }
    if (ps->p == ps->end) return fail(ps, line, "the array has no ')'");
    advance(ps, 1);
    as->is_array = true;
    return OK;
}

static status take_assignment(parser *ps, node *n, bool *taken)
{
    assignment as;
    size_t len;
    *taken = is_assignment(ps, &as, &len);
    if (!*taken) return OK;
    advance(ps, len);
    status s = OK;
    if (ps->p < ps->end && *ps->p == '(')
        s = array_items(ps, &as);
    else
        s = shell_word_end(ps->name, ps->p, ps->end, ps->line, false, &as.value.n, ps->err);
    if (s) return s;
    if (!as.is_array) {
        as.value.s = ps->p;
        as.value.line = ps->line;
        advance(ps, as.value.n);
    }
    skip_blanks(ps);
    ARENA_GROW(ps->a, n->assigns, n->n_assigns, n->assigns_room);
    n->assigns[n->n_assigns++] = as;
    return OK;
}

/* ---- redirections: read over, but for documents */

static status take_document(parser *ps, node *n)
{
    bool tabs = ps->p < ps->end && *ps->p == '-';
    if (tabs) advance(ps, 1);
    skip_blanks(ps);
    slice word;
    status s = take_word(ps, &word);
    if (s) return s;
    int i = ps->n_pending;
    if (i == sizeof ps->pending / sizeof ps->pending[0])
        return fail(ps, ps->line, "more than 16 documents (<<) in one line");
    ps->pending[i].n = n;
    ps->pending[i].word = word;
    ps->pending[i].tabs = tabs;
    ps->n_pending++;
    return OK;
}

/* <(command) and >(command); *taken says whether there was one. */
static status take_process(parser *ps, bool *taken)
{
    *taken = at(ps, "<(") || at(ps, ">(");
    if (!*taken) return OK;
    /* The same nesting as $( ): the letter before the ( does not matter. */
    size_t n = 1 + shell_skip_parens(ps->p + 1, ps->end);
    if (n == 1) return fail(ps, ps->line, "'<(' has no ')'");
    advance(ps, n);
    skip_blanks(ps);
    return OK;
}

static status take_redirection(parser *ps, node *n, bool *taken)
{
    size_t digits = 0;
    while (ps->p + digits < ps->end && ps->p[digits] >= '0' && ps->p[digits] <= '9') digits++;
    const char *mark = ps->p + digits;
    bool both = at(ps, "&>");
    *taken = both || (mark < ps->end && (*mark == '<' || *mark == '>'));
    if (!*taken) return OK;
    bool process;
    status s = take_process(ps, &process);
    if (s || process) return s;
    n->writes |= both || *mark == '>';
    advance(ps, both ? 2 : digits);
    if (at(ps, "<<") && !at(ps, "<<<")) {
        advance(ps, 2);
        return take_document(ps, n);
    }
    while (ps->p < ps->end && *ps->p && strchr("<>&|", *ps->p) && !at(ps, "<(") && !at(ps, ">("))
        advance(ps, 1);
    skip_blanks(ps);
    s = take_process(ps, &process);
    if (s || process) return s;
    slice target;
    return take_word(ps, &target);
}

static status take_redirections(parser *ps, node *n)
{
    for (bool taken = true; taken;) {
        status s = take_redirection(ps, n, &taken);
        if (s) return s;
    }
    return OK;
}

/* ---- simple commands */

static bool ends_command(const parser *ps)
{
    return ps->p >= ps->end || strchr("\n;|)", *ps->p) || (*ps->p == '&' && !at(ps, "&>"));
}

static bool declares(slice word)
{
    static const char *const builtins[] = {"export", "declare", "local", "readonly", "typeset"};
    for (int i = 0; i < 5; i++)
        if (shell_slice_is(word, builtins[i])) return true;
    return false;
}

static status parse_function_body(parser *ps, slice name, node **out);

static status parse_simple(parser *ps, node **out)
{
    node *n = make(ps, NODE_COMMAND);
    while (!ends_command(ps)) {
        bool taken = false;
        status s = take_redirection(ps, n, &taken);
        bool assigns = n->words.n == 0 || declares(n->words.items[0]);
        if (!s && !taken && assigns) s = take_assignment(ps, n, &taken);
        if (s) return s;
        if (taken) continue;
        if (*ps->p == '(') return fail(ps, ps->line, "'(' is not expected here");
        slice word;
        s = take_word(ps, &word);
        if (s) return s;
        if (word.n == 0) return fail(ps, ps->line, "a word is expected here");
        if (n->words.n == 0 && n->n_assigns == 0 && at(ps, "()")) {
            advance(ps, 2);
            return parse_function_body(ps, word, out);
        }
        push(ps, &n->words, word);
    }
    *out = n;
    return OK;
}

/* ---- compound commands */

static status parse_if(parser *ps, node **out, int line)
{
    node *n = make(ps, NODE_IF);
    status s = parse_list(ps, &n->a);
    if (!s) s = expect_word(ps, "then", "if", line);
    if (!s) s = parse_list(ps, &n->b);
    if (s) return s;
    *out = n;
    skip_newlines(ps);
    if (eat_word(ps, "elif")) {
        if (++ps->depth > SHELL_DEPTH_MAX) return fail(ps, ps->line, "nested too deeply");
        s = parse_if(ps, &n->c, line); /* takes the fi */
        ps->depth--;
        return s;
    }
    if (eat_word(ps, "else")) s = parse_list(ps, &n->c);
    return s ? s : expect_word(ps, "fi", "if", line);
}

static status parse_body(parser *ps, node *n, const char *of)
{
    while (ps->p < ps->end && *ps->p == ';') {
        advance(ps, 1);
        skip_blanks(ps);
    }
    status s = expect_word(ps, "do", of, n->line);
    if (!s) s = parse_list(ps, &n->b);
    return s ? s : expect_word(ps, "done", of, n->line);
}

static status parse_while(parser *ps, node_kind kind, node **out)
{
    node *n = make(ps, kind);
    *out = n;
    status s = parse_list(ps, &n->a);
    return s ? s : parse_body(ps, n, "while");
}

/* The text up to "))", which begins after "((". */
static status arithmetic_text(parser *ps, slice *out)
{
    int depth = 0, line = ps->line;
    const char *start = ps->p;
    for (; ps->p < ps->end; advance(ps, 1)) {
        if (depth == 0 && at(ps, "))")) {
            *out = (slice){start, (size_t)(ps->p - start), line};
            advance(ps, 2);
            skip_blanks(ps);
            return OK;
        }
        depth += *ps->p == '(';
        depth -= *ps->p == ')';
    }
    return fail(ps, line, "'((' has no '))'");
}

/* for ((a; b; c)) */
static status parse_loop(parser *ps, node **out)
{
    node *n = make(ps, NODE_LOOP);
    *out = n;
    slice all;
    advance(ps, 2);
    status s = arithmetic_text(ps, &all);
    if (s) return s;
    const char *p = all.s, *end = all.s + all.n;
    for (int i = 0; i < 3; i++) {
        const char *stop = memchr(p, ';', (size_t)(end - p));
        if (!stop) stop = end;
        push(ps, &n->words, (slice){p, (size_t)(stop - p), all.line});
        p = stop < end ? stop + 1 : end;
    }
    return parse_body(ps, n, "for");
}

static status parse_for(parser *ps, node **out)
{
    if (at(ps, "((")) return parse_loop(ps, out);
    node *n = make(ps, NODE_FOR);
    *out = n;
    status s = take_word(ps, &n->name);
    if (s) return s;
    skip_newlines(ps);
    n->in_args = !eat_word(ps, "in");
    while (!s && !n->in_args && !ends_command(ps)) {
        slice word;
        const char *before = ps->p;
        s = take_word(ps, &word);
        if (!s && ps->p == before) return fail(ps, ps->line, "'for' has an odd list");
        if (!s) push(ps, &n->words, word);
    }
    return s ? s : parse_body(ps, n, "for");
}

static status parse_arm(parser *ps, node *of)
{
    node *arm = make(ps, NODE_ARM);
    if (ps->p < ps->end && *ps->p == '(') advance(ps, 1);
    for (;;) {
        skip_blanks(ps);
        slice word;
        status s = take_word(ps, &word);
        if (s) return s;
        push(ps, &arm->words, word);
        if (ps->p == ps->end || *ps->p != '|') break;
        advance(ps, 1);
    }
    if (ps->p == ps->end || *ps->p != ')')
        return fail(ps, ps->line, "a pattern of 'case' has no ')'");
    advance(ps, 1);
    status s = parse_list(ps, &arm->b);
    if (s) return s;
    skip_newlines(ps);
    if (at(ps, ";;&"))
        advance(ps, 3);
    else if (at(ps, ";;") || at(ps, ";&"))
        advance(ps, 2);
    ARENA_GROW(ps->a, of->items, of->n_items, of->items_room);
    of->items[of->n_items++] = arm;
    return OK;
}

static status parse_case(parser *ps, node **out)
{
    node *n = make(ps, NODE_CASE);
    *out = n;
    slice word;
    status s = take_word(ps, &word);
    if (!s) push(ps, &n->words, word);
    if (!s) s = expect_word(ps, "in", "case", n->line);
    while (!s) {
        skip_newlines(ps);
        if (ps->p == ps->end) return fail(ps, n->line, "'case' has no 'esac'");
        if (eat_word(ps, "esac")) return OK;
        s = parse_arm(ps, n);
    }
    return s;
}

/* [[ ... ]]: words, and the marks ( ) < > && || as words of their own. */
static status parse_test(parser *ps, node **out)
{
    node *n = make(ps, NODE_TEST);
    *out = n;
    for (skip_newlines(ps); ps->p < ps->end; skip_newlines(ps)) {
        if (at_word(ps, "]]")) {
            advance(ps, 2);
            skip_blanks(ps);
            return OK;
        }
        size_t mark = at(ps, "&&") || at(ps, "||") ? 2 : strchr("()<>", *ps->p) ? 1 : 0;
        slice last = n->words.n ? n->words.items[n->words.n - 1] : (slice){0};
        bool plain = last.n == 2 && shell_slice_is(last, "=~"); /* a pattern may hold ( and | */
        if (mark && !plain) {
            push(ps, &n->words, (slice){ps->p, mark, ps->line});
            advance(ps, mark);
            continue;
        }
        size_t len;
        status s = shell_word_end(ps->name, ps->p, ps->end, ps->line, plain, &len, ps->err);
        if (s) return s;
        if (len == 0) return fail(ps, ps->line, "'[[' is not understood here");
        push(ps, &n->words, (slice){ps->p, len, ps->line});
        advance(ps, len);
    }
    return fail(ps, n->line, "'[[' has no ']]'");
}

static status parse_group(parser *ps, const char *close, node **out)
{
    node *n = make(ps, NODE_GROUP);
    *out = n;
    n->subshell = *close == ')';
    status s = parse_list(ps, &n->b);
    if (s) return s;
    skip_newlines(ps);
    if (!at(ps, close))
        return error_set(ps->err, ERR_INPUT, "%s:%d: '%s' has no '%s'", ps->name, n->line,
                         n->subshell ? "(" : "{", close);
    advance(ps, 1);
    skip_blanks(ps);
    return OK;
}

static status parse_command(parser *ps, node **out);

static status parse_function_body(parser *ps, slice name, node **out)
{
    node *n = make(ps, NODE_FUNCTION);
    n->name = name;
    *out = n;
    skip_newlines(ps);
    return parse_command(ps, &n->b);
}

static status parse_compound(parser *ps, node **out, bool *taken)
{
    int line = ps->line;
    *taken = true;
    if (eat_word(ps, "if")) return parse_if(ps, out, line);
    if (eat_word(ps, "while")) return parse_while(ps, NODE_WHILE, out);
    if (eat_word(ps, "until")) return parse_while(ps, NODE_UNTIL, out);
    if (eat_word(ps, "for")) return parse_for(ps, out);
    if (eat_word(ps, "case")) return parse_case(ps, out);
    if (eat_word(ps, "[[")) return parse_test(ps, out);
    if (eat_word(ps, "{")) return parse_group(ps, "}", out);
    if (eat_word(ps, "function")) {
        slice name;
        status s = take_word(ps, &name);
        if (s) return s;
        if (at(ps, "()")) advance(ps, 2);
        return parse_function_body(ps, name, out);
    }
    if (at(ps, "((")) {
        advance(ps, 2);
        *out = make(ps, NODE_ARITH);
        slice text;
        status s = arithmetic_text(ps, &text);
        if (!s) push(ps, &(*out)->words, text);
        return s;
    }
    if (at(ps, "(")) {
        advance(ps, 1);
        return parse_group(ps, ")", out);
    }
    *taken = false;
    return OK;
}

static status parse_command(parser *ps, node **out)
{
    if (++ps->depth > SHELL_DEPTH_MAX) return fail(ps, ps->line, "nested too deeply");
    bool taken;
    skip_blanks(ps);
    while (eat_word(ps, "time")) continue;
    status s = parse_compound(ps, out, &taken);
    if (!s && taken) s = take_redirections(ps, *out);
    if (!s && !taken) s = parse_simple(ps, out);
    ps->depth--;
    return s;
}

/* ---- lists */

static status parse_pipeline(parser *ps, node **out)
{
    bool negated = false;
    while (eat_word(ps, "!")) negated = !negated;
    status s = parse_command(ps, out);
    while (!s && ps->p < ps->end && *ps->p == '|' && !at(ps, "||")) {
        advance(ps, at(ps, "|&") ? 2 : 1);
        skip_newlines(ps);
        node *pipe = make(ps, NODE_PIPE);
        pipe->a = *out;
        s = parse_command(ps, &pipe->b);
        *out = pipe;
    }
    if (!s && negated) {
        node *n = make(ps, NODE_NOT);
        n->a = *out;
        *out = n;
    }
    return s;
}

static status parse_and_or(parser *ps, node **out)
{
    status s = parse_pipeline(ps, out);
    while (!s && (at(ps, "&&") || at(ps, "||"))) {
        node *n = make(ps, *ps->p == '&' ? NODE_AND : NODE_OR);
        n->a = *out;
        advance(ps, 2);
        skip_newlines(ps);
        s = parse_pipeline(ps, &n->b);
        *out = n;
    }
    return s;
}

static bool ends_list(const parser *ps)
{
    static const char *const words[] = {"then", "else", "elif", "fi", "do", "done", "esac", "}"};
    if (ps->p >= ps->end || *ps->p == ')' || at(ps, ";;") || at(ps, ";&")) return true;
    for (int i = 0; i < 8; i++)
        if (at_word(ps, words[i])) return true;
    return false;
}

static status parse_list(parser *ps, node **out)
{
    node *list = make(ps, NODE_LIST);
    *out = list;
    for (skip_newlines(ps); !ends_list(ps); skip_newlines(ps)) {
        node *item;
        const char *before = ps->p;
        status s = parse_and_or(ps, &item);
        if (s) return s;
        ARENA_GROW(ps->a, list->items, list->n_items, list->items_room);
        list->items[list->n_items++] = item;
        if (ps->p < ps->end && (*ps->p == '&' || (*ps->p == ';' && !at(ps, ";;")))) advance(ps, 1);
        if (ps->p == before) return fail(ps, ps->line, "a command is expected here");
    }
    return OK;
}

status shell_parse(arena *a, const char *name, const char *data, size_t n, int line, node **out,
                   error *err)
{
    parser ps = {.a = a, .name = name, .p = data, .end = data + n, .line = line, .err = err};
    status s = parse_list(&ps, out);
    if (s || ps.p == ps.end) return s;
    int shown = (int)strcspn(ps.p, " \t\r\n;&|");
    if (shown > 20) shown = 20;
    if (shown > ps.end - ps.p) shown = (int)(ps.end - ps.p);
    return error_set(err, ERR_INPUT, "%s:%d: '%.*s' is not expected here", name, ps.line,
                     shown ? shown : 1, ps.p);
}

/* shell_parse.c - from the text of a script to its tree.
 *
 * I1  The parser never looks into words: it only finds where they end.
 * I2  What it cannot read is an error with its line, never a guess.
 * I3  The text ends with a 0 and has none inside: the letter at p may be looked at everywhere. */
#include "config/shell_walk.h"

#include <string.h>

enum { KEY_MAX = 256, PENDING_MAX = 16 }; /* bytes of a key: A[key]=value; documents of a line */

typedef struct parser {
    arena *a;
    const char *name, *p, *end;
    int line, depth;
    struct { /* documents whose bodies begin after this line */
        node *n;
        slice word;
        bool tabs;
    } pending[PENDING_MAX];
    int n_pending;
    error *err;
} parser;

static status fail(const parser *ps, int line, const char *what)
{
    return error_set(ps->err, ERR_INPUT, "%s:%d: %s", ps->name, line, what);
}

/* ---- where quotes and words end */

static bool opens(const char *p, const char *end)
{
    if (*p == '\'' || *p == '"' || *p == '`') return true;
    return *p == '$' && p + 1 < end && (p[1] == '(' || p[1] == '{');
}

static size_t skip_single(const char *p, const char *end)
{
    const char *close = memchr(p + 1, '\'', (size_t)(end - p) - 1);
    return close ? (size_t)(close + 1 - p) : 0;
}

/* Up to the closing letter, over all that is quoted inside. What is quoted inside and has no end
 * leaves this without one, too: so every letter is looked at once a level. */
static size_t skip_to(const char *p, size_t i, const char *end, char open, char close, int depth)
{
    int level = 1;
    while (p + i < end) {
        bool plain = p[i] == close || (close == '"' && p[i] == '\'');
        if (p[i] == '\\' && p + i + 1 < end) {
            i += 2;
        } else if (!plain && opens(p + i, end)) {
            size_t n = shell_skip_quoted(p + i, end, depth + 1);
            if (!n) return 0;
            i += n;
        } else {
            level += open && p[i] == open;
            level -= p[i] == close;
            i++;
            if (level == 0) return i;
        }
    }
    return 0;
}

size_t shell_skip_quoted(const char *p, const char *end, int depth)
{
    if (p >= end || depth > SHELL_DEPTH_MAX) return 0;
    if (*p == '\'') return skip_single(p, end);
    if (*p == '"' || *p == '`') return skip_to(p, 1, end, 0, *p, depth);
    if (*p != '$' || p + 1 == end) return 0;
    if (p[1] == '(') return skip_to(p, 2, end, '(', ')', depth);
    if (p[1] == '{') return skip_to(p, 2, end, '{', '}', depth);
    size_t n = p[1] == '\'' ? skip_single(p + 1, end) : 0;
    return n ? n + 1 : 0;
}

status shell_word_end(const shell_source *from, bool plain, size_t *n, error *err)
{
    const char *p = from->data, *end = p + from->n;
    size_t i = 0;
    while (p + i < end) {
        char c = p[i];
        if (strchr(" \t\r\n\v\f", c)) break;
        if (!plain && strchr(";&|()<>", c)) break;
        size_t q = shell_skip_quoted(p + i, end, 0);
        if (!q && opens(p + i, end)) {
            int line = from->line;
            for (size_t j = 0; j < i; j++) line += p[j] == '\n';
            return error_set(err, ERR_INPUT, "%s:%d: the quote %.*s has no end", from->name, line,
                             c == '$' ? 2 : 1, p + i);
        }
        if (q)
            i += q;
        else if (c == '\\' && p + i + 1 < end)
            i += p[i + 1] == '\r' && p + i + 2 < end && p[i + 2] == '\n' ? 3 : 2;
        else
            i++;
    }
    *n = i;
    return OK;
}

bool shell_is_name_letter(char c, bool first)
{
    return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (!first && c >= '0' && c <= '9');
}

size_t shell_name_length(const char *p, const char *end)
{
    size_t n = 0;
    while (p + n < end && shell_is_name_letter(p[n], n == 0)) n++;
    return n;
}

bool shell_is_command(const node *n, const char *words)
{
    if (n->kind != NODE_COMMAND || !n->words.n) return false;
    slice first = n->words.items[0];
    for (const char *w = words;; w++) {
        size_t len = strcspn(w, ",");
        if (len == first.n && memcmp(w, first.s, len) == 0) return true;
        w += len;
        if (!*w) return false;
    }
}

/* ---- letters, lines and documents */

static bool at(const parser *ps, const char *text)
{
    return text_starts(ps->p, text);
}

static void advance(parser *ps, size_t n)
{
    for (; n > 0; n--) ps->line += *ps->p++ == '\n';
}

/* Comments and joined lines, too. */
static void skip_blanks(parser *ps)
{
    for (;;) {
        size_t n = at(ps, "\\\n")     ? 2
                   : at(ps, "\\\r\n") ? 3
                   : *ps->p == '#'    ? strcspn(ps->p, "\n")
                                      : strspn(ps->p, " \t\r");
        if (!n) return;
        advance(ps, n);
    }
}

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
    for (bool done = false; *ps->p && !done;) {
        size_t len = strcspn(ps->p, "\n"), skip = tabs ? strspn(ps->p, "\t") : 0;
        size_t left = len - skip, next = len + (ps->p[len] != 0);
        if (left && ps->p[len - 1] == '\r') left--;
        done = left == delimiter.n && memcmp(ps->p + skip, delimiter.s, left) == 0;
        if (!done) d.body.n = (size_t)(ps->p + next - d.body.s);
        advance(ps, next);
    }
    ARENA_GROW(ps->a, n->docs, n->n_docs, n->docs_room);
    n->docs[n->n_docs++] = d;
}

/* Lines, and the documents that begin behind one. */
static void skip_newlines(parser *ps)
{
    for (skip_blanks(ps); *ps->p == '\n'; skip_blanks(ps)) {
        advance(ps, 1);
        for (int i = 0; i < ps->n_pending; i++)
            read_document(ps, ps->pending[i].n, ps->pending[i].word, ps->pending[i].tabs);
        ps->n_pending = 0;
    }
}

/* ---- words */

/* The word that begins here, as far as it goes; blanks behind it stay. */
static status cut_word(parser *ps, bool plain, slice *out)
{
    shell_source rest = {
        .name = ps->name, .data = ps->p, .n = (size_t)(ps->end - ps->p), .line = ps->line};
    *out = (slice){.s = ps->p, .line = ps->line};
    status s = shell_word_end(&rest, plain, &out->n, ps->err);
    if (!s) advance(ps, out->n);
    return s;
}

static status take_word(parser *ps, slice *out)
{
    TRY(cut_word(ps, false, out));
    skip_blanks(ps);
    return OK;
}

static void push(parser *ps, slices *list, slice word)
{
    ARENA_GROW(ps->a, list->items, list->n, list->room);
    list->items[list->n++] = word;
}

/* Is the word at p this one, and whole? */
static bool at_word(const parser *ps, const char *word)
{
    return at(ps, word) && strchr(" \t\r\n;&|()<>", ps->p[strlen(word)]);
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

/* ---- simple commands: NAME=value ... word ... */

/* How many bytes NAME=, NAME+= or NAME[key]= has, where one begins; else 0. */
static size_t assignment_head(const parser *ps, assignment *as)
{
    size_t i = shell_name_length(ps->p, ps->end);
    if (i == 0) return 0;
    *as = (assignment){.name = {ps->p, i, ps->line}};
    if (ps->p[i] == '[') {
        size_t n = 1;
        while (n < KEY_MAX && !strchr("]\n", ps->p[i + n])) n++;
        if (n == KEY_MAX || ps->p[i + n] != ']') return 0;
        as->key = (slice){ps->p + i + 1, n - 1, ps->line};
        i += n + 1;
    }
    as->append = ps->p[i] == '+';
    i += as->append;
    return ps->p[i] == '=' ? i + 1 : 0;
}

static status array_items(parser *ps, assignment *as)
{
    int line = ps->line;
    as->is_array = true;
    advance(ps, 1);
    for (skip_newlines(ps); *ps->p && *ps->p != ')'; skip_newlines(ps)) {
        slice word;
        TRY(take_word(ps, &word));
        if (!word.n) return fail(ps, ps->line, "a word of an array is expected here");
        push(ps, &as->items, word);
    }
    if (!*ps->p) return fail(ps, line, "the array has no ')'");
    advance(ps, 1);
    skip_blanks(ps);
    return OK;
}

/* <(command) and >(command) */
static bool at_process(const parser *ps)
{
    return at(ps, "<(") || at(ps, ">(");
}

static status skip_process(parser *ps)
{
    /* The same nesting as $( ): the letter before the ( does not matter. */
    size_t n = skip_to(ps->p, 2, ps->end, '(', ')', 0);
    if (!n) return fail(ps, ps->line, "'<(' has no ')'");
    advance(ps, n);
    skip_blanks(ps);
    return OK;
}

static bool at_redirection(const parser *ps)
{
    char mark = ps->p[strspn(ps->p, "0123456789")];
    return mark == '<' || mark == '>' || at(ps, "&>");
}

/* Read over, but for documents. */
static status take_redirection(parser *ps, node *n)
{
    slice word;
    if (at_process(ps)) return skip_process(ps);
    bool both = at(ps, "&>");
    advance(ps, both ? 2 : strspn(ps->p, "0123456789"));
    n->writes |= both || *ps->p == '>';
    if (at(ps, "<<") && !at(ps, "<<<")) {
        bool tabs = ps->p[2] == '-';
        advance(ps, tabs ? 3 : 2);
        skip_blanks(ps);
        TRY(take_word(ps, &word));
        if (ps->n_pending == PENDING_MAX)
            return fail(ps, ps->line, "more than 16 documents (<<) in one line");
        int i = ps->n_pending++;
        ps->pending[i].n = n;
        ps->pending[i].word = word;
        ps->pending[i].tabs = tabs;
        return OK;
    }
    while (*ps->p && strchr("<>&|", *ps->p) && !at_process(ps)) advance(ps, 1);
    skip_blanks(ps);
    return at_process(ps) ? skip_process(ps) : take_word(ps, &word);
}

static bool ends_command(const parser *ps)
{
    return strchr("\n;|)", *ps->p) || (*ps->p == '&' && !at(ps, "&>")); /* I3: the 0, too */
}

static status parse_command(parser *ps, node **out);

static status parse_function_body(parser *ps, node *n, slice name)
{
    n->kind = NODE_FUNCTION;
    n->name = name;
    n->line = ps->line;
    skip_newlines(ps);
    return parse_command(ps, &n->b);
}

/* NAME() begins a function. */
static status parse_simple(parser *ps, node *n)
{
    while (!ends_command(ps)) {
        assignment as;
        size_t head;
        status s;
        if (at_redirection(ps)) {
            s = take_redirection(ps, n);
        } else if ((n->words.n == 0 || shell_is_command(n, SHELL_DECLARES)) &&
                   (head = assignment_head(ps, &as)) > 0) {
            advance(ps, head);
            s = *ps->p == '(' ? array_items(ps, &as) : take_word(ps, &as.value);
            ARENA_GROW(ps->a, n->assigns, n->n_assigns, n->assigns_room);
            n->assigns[n->n_assigns++] = as;
        } else {
            if (*ps->p == '(') return fail(ps, ps->line, "'(' is not expected here");
            slice word;
            s = take_word(ps, &word);
            if (s) return s;
            if (!word.n) return fail(ps, ps->line, "a word is expected here");
            if (n->words.n == 0 && n->n_assigns == 0 && at(ps, "()")) {
                advance(ps, 2);
                return parse_function_body(ps, n, word);
            }
            push(ps, &n->words, word);
        }
        if (s) return s;
    }
    return OK;
}

/* ---- compound commands: their first word is read */

static status parse_list(parser *ps, node **out);

static node *make(parser *ps, node_kind kind)
{
    node *n = ARENA_NEW(ps->a, node);
    n->kind = kind;
    n->line = ps->line;
    return n;
}

static void push_node(parser *ps, node *of, node *item)
{
    ARENA_GROW(ps->a, of->items, of->n_items, of->items_room);
    of->items[of->n_items++] = item;
}

static status parse_if(parser *ps, node *n, int line)
{
    TRY(parse_list(ps, &n->a));
    TRY(expect_word(ps, "then", "if", line));
    TRY(parse_list(ps, &n->b));
    skip_newlines(ps);
    if (eat_word(ps, "elif")) {
        if (++ps->depth > SHELL_DEPTH_MAX) return fail(ps, ps->line, "nested too deeply");
        n->c = make(ps, NODE_IF);
        TRY(parse_if(ps, n->c, line)); /* takes the fi */
        ps->depth--;
        return OK;
    }
    if (eat_word(ps, "else")) TRY(parse_list(ps, &n->c));
    return expect_word(ps, "fi", "if", line);
}

static status parse_body(parser *ps, node *n, const char *of)
{
    while (*ps->p == ';') {
        advance(ps, 1);
        skip_blanks(ps);
    }
    TRY(expect_word(ps, "do", of, n->line));
    TRY(parse_list(ps, &n->b));
    return expect_word(ps, "done", of, n->line);
}

static status parse_while(parser *ps, node *n)
{
    TRY(parse_list(ps, &n->a));
    return parse_body(ps, n, "while");
}

/* The text between "((" and "))", which are read, too. */
static status arithmetic_text(parser *ps, slice *out)
{
    int depth = 0, line = ps->line;
    advance(ps, 2);
    const char *start = ps->p;
    for (; *ps->p; advance(ps, 1)) {
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
static status parse_loop(parser *ps, node *n)
{
    n->kind = NODE_LOOP;
    slice all;
    TRY(arithmetic_text(ps, &all));
    const char *p = all.s, *end = all.s + all.n;
    for (int i = 0; i < 3; i++) {
        const char *stop = memchr(p, ';', (size_t)(end - p));
        if (!stop) stop = end;
        push(ps, &n->words, (slice){p, (size_t)(stop - p), all.line});
        p = stop < end ? stop + 1 : end;
    }
    return parse_body(ps, n, "for");
}

static status parse_for(parser *ps, node *n)
{
    if (at(ps, "((")) return parse_loop(ps, n);
    TRY(take_word(ps, &n->name));
    skip_newlines(ps);
    n->in_args = !eat_word(ps, "in");
    while (!n->in_args && !ends_command(ps)) {
        slice word;
        TRY(take_word(ps, &word));
        if (!word.n) return fail(ps, ps->line, "'for' has an odd list");
        push(ps, &n->words, word);
    }
    return parse_body(ps, n, "for");
}

static status parse_arm(parser *ps, node *of)
{
    node *arm = make(ps, NODE_ARM);
    status s;
    char mark = *ps->p == '(' ? '(' : 0;
    do {
        slice word;
        if (mark) advance(ps, 1);
        skip_blanks(ps);
        s = take_word(ps, &word);
        if (s) return s;
        push(ps, &arm->words, word);
        mark = *ps->p;
    } while (mark == '|');
    if (mark != ')') return fail(ps, ps->line, "a pattern of 'case' has no ')'");
    advance(ps, 1);
    s = parse_list(ps, &arm->b);
    if (s) return s;
    skip_newlines(ps);
    advance(ps, at(ps, ";;&") ? 3 : at(ps, ";;") || at(ps, ";&") ? 2 : 0);
    push_node(ps, of, arm);
    return OK;
}

static status parse_case(parser *ps, node *n)
{
    slice word;
    TRY(take_word(ps, &word));
    push(ps, &n->words, word);
    TRY(expect_word(ps, "in", "case", n->line));
    for (;;) {
        skip_newlines(ps);
        if (!*ps->p) return fail(ps, n->line, "'case' has no 'esac'");
        if (eat_word(ps, "esac")) return OK;
        TRY(parse_arm(ps, n));
    }
}

/* [[ ... ]]: words, and the marks ( ) < > && || as words of their own. */
static status parse_test(parser *ps, node *n)
{
    for (skip_newlines(ps); *ps->p; skip_newlines(ps)) {
        if (eat_word(ps, "]]")) return OK;
        size_t mark = at(ps, "&&") || at(ps, "||") ? 2 : strchr("()<>", *ps->p) ? 1 : 0;
        slice last = n->words.n ? n->words.items[n->words.n - 1] : (slice){0};
        bool plain = last.n == 2 && memcmp(last.s, "=~", 2) == 0; /* its pattern may hold ( | */
        slice word = {ps->p, mark, ps->line};
        if (mark && !plain) {
            advance(ps, mark);
        } else {
            TRY(cut_word(ps, plain, &word));
        }
        if (!word.n) return fail(ps, ps->line, "'[[' is not understood here");
        push(ps, &n->words, word);
    }
    return fail(ps, n->line, "'[[' has no ']]'");
}

static status parse_group(parser *ps, node *n, const char *close)
{
    n->subshell = *close == ')';
    TRY(parse_list(ps, &n->b));
    skip_newlines(ps);
    if (!at(ps, close))
        return error_set(ps->err, ERR_INPUT, "%s:%d: '%s' has no '%s'", ps->name, n->line,
                         n->subshell ? "(" : "{", close);
    advance(ps, 1);
    skip_blanks(ps);
    return OK;
}

static bool begins(parser *ps, node *n, const char *word, node_kind kind)
{
    if (!eat_word(ps, word)) return false;
    n->kind = kind;
    n->line = ps->line;
    return true;
}

/* What begins with a word or a mark of the shell; else n stays a simple command. */
static status parse_compound(parser *ps, node *n)
{
    int line = n->line;
    if (begins(ps, n, "if", NODE_IF)) return parse_if(ps, n, line);
    if (begins(ps, n, "while", NODE_WHILE)) return parse_while(ps, n);
    if (begins(ps, n, "until", NODE_UNTIL)) return parse_while(ps, n);
    if (begins(ps, n, "for", NODE_FOR)) return parse_for(ps, n);
    if (begins(ps, n, "case", NODE_CASE)) return parse_case(ps, n);
    if (begins(ps, n, "[[", NODE_TEST)) return parse_test(ps, n);
    if (begins(ps, n, "{", NODE_GROUP)) return parse_group(ps, n, "}");
    if (eat_word(ps, "function")) {
        slice name;
        TRY(take_word(ps, &name));
        if (at(ps, "()")) advance(ps, 2);
        return parse_function_body(ps, n, name);
    }
    if (at(ps, "((")) {
        n->kind = NODE_ARITH;
        slice text;
        TRY(arithmetic_text(ps, &text));
        push(ps, &n->words, text);
        return OK;
    }
    if (at(ps, "(")) {
        n->kind = NODE_GROUP;
        advance(ps, 1);
        return parse_group(ps, n, ")");
    }
    return OK;
}

static status parse_command(parser *ps, node **out)
{
    if (++ps->depth > SHELL_DEPTH_MAX) return fail(ps, ps->line, "nested too deeply");
    skip_blanks(ps);
    while (eat_word(ps, "time")) continue;
    node *n = *out = make(ps, NODE_COMMAND);
    status s = parse_compound(ps, n);
    if (n->kind == NODE_COMMAND && !s) s = parse_simple(ps, n);
    while (!s && at_redirection(ps)) s = take_redirection(ps, n);
    ps->depth--;
    return s;
}

/* ---- lists */

static status parse_pipeline(parser *ps, node **out)
{
    bool negated = false;
    while (eat_word(ps, "!")) negated = !negated;
    status s = parse_command(ps, out);
    while (!s && *ps->p == '|' && !at(ps, "||")) {
        advance(ps, at(ps, "|&") ? 2 : 1);
        skip_newlines(ps);
        node *pipe = make(ps, NODE_PIPE);
        pipe->a = *out;
        *out = pipe;
        s = parse_command(ps, &pipe->b);
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
        *out = n;
        advance(ps, 2);
        skip_newlines(ps);
        s = parse_pipeline(ps, &n->b);
    }
    return s;
}

static bool ends_list(const parser *ps)
{
    static const char *const words[] = {"then", "else", "elif", "fi", "do", "done", "esac", "}"};
    if (!*ps->p || *ps->p == ')' || at(ps, ";;") || at(ps, ";&")) return true;
    for (int i = 0; i < 8; i++)
        if (at_word(ps, words[i])) return true;
    return false;
}

static status parse_list(parser *ps, node **out)
{
    node *list = *out = make(ps, NODE_LIST);
    for (skip_newlines(ps); !ends_list(ps); skip_newlines(ps)) {
        node *item;
        const char *before = ps->p;
        TRY(parse_and_or(ps, &item));
        push_node(ps, list, item);
        if (*ps->p == '&' || (*ps->p == ';' && !at(ps, ";;"))) advance(ps, 1);
        if (ps->p == before) return fail(ps, ps->line, "a command is expected here");
    }
    return OK;
}

status shell_parse(arena *a, const shell_source *from, node **out, error *err)
{
    parser ps = {.a = a,
                 .name = from->name,
                 .p = from->data,
                 .end = from->data + from->n,
                 .line = from->line,
                 .err = err};
    TRY(parse_list(&ps, out));
    if (!*ps.p) return OK;
    int shown = (int)strcspn(ps.p, " \t\r\n;&|");
    return error_set(err, ERR_INPUT, "%s:%d: '%.*s' is not expected here", from->name, ps.line,
                     shown > 20 ? 20
                     : shown    ? shown
                                : 1,
                     ps.p);
}

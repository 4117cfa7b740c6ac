/* shell_parse.c - from the text of a script to its tree: lists and compound commands.
 *
 * I1  The parser never looks into words: it only finds where they end.
 * I2  What it cannot read is an error with its line, never a guess. */
#include "config/shell_parser.h"

#include <string.h>

static status parse_list(parser *ps, node **out);
static status parse_command(parser *ps, node **out);

static status expect_word(parser *ps, const char *word, const char *of, int line)
{
    parser_skip_newlines(ps);
    if (parser_eat_word(ps, word)) return OK;
    return error_set(ps->err, ERR_INPUT, "%s:%d: '%s' has no '%s' (looked for in line %d)",
                     ps->name, line, of, word, ps->line);
}

/* ---- compound commands */

static status parse_if(parser *ps, node **out, int line)
{
    node *n = parser_make(ps, NODE_IF);
    status s = parse_list(ps, &n->a);
    if (!s) s = expect_word(ps, "then", "if", line);
    if (!s) s = parse_list(ps, &n->b);
    if (s) return s;
    *out = n;
    parser_skip_newlines(ps);
    if (parser_eat_word(ps, "elif")) {
        if (++ps->depth > SHELL_DEPTH_MAX) return parser_fail(ps, ps->line, "nested too deeply");
        s = parse_if(ps, &n->c, line); /* takes the fi */
        ps->depth--;
        return s;
    }
    if (parser_eat_word(ps, "else")) s = parse_list(ps, &n->c);
    return s ? s : expect_word(ps, "fi", "if", line);
}

static status parse_body(parser *ps, node *n, const char *of)
{
    while (ps->p < ps->end && *ps->p == ';') {
        parser_advance(ps, 1);
        parser_skip_blanks(ps);
    }
    status s = expect_word(ps, "do", of, n->line);
    if (!s) s = parse_list(ps, &n->b);
    return s ? s : expect_word(ps, "done", of, n->line);
}

static status parse_while(parser *ps, node_kind kind, node **out)
{
    node *n = parser_make(ps, kind);
    *out = n;
    status s = parse_list(ps, &n->a);
    return s ? s : parse_body(ps, n, "while");
}

/* The text up to "))", which begins after "((". */
static status arithmetic_text(parser *ps, slice *out)
{
    int depth = 0, line = ps->line;
    const char *start = ps->p;
    for (; ps->p < ps->end; parser_advance(ps, 1)) {
        if (depth == 0 && parser_at(ps, "))")) {
            *out = (slice){start, (size_t)(ps->p - start), line};
            parser_advance(ps, 2);
            parser_skip_blanks(ps);
            return OK;
        }
        depth += *ps->p == '(';
        depth -= *ps->p == ')';
    }
    return parser_fail(ps, line, "'((' has no '))'");
}

/* for ((a; b; c)) */
static status parse_loop(parser *ps, node **out)
{
    node *n = parser_make(ps, NODE_LOOP);
    *out = n;
    slice all;
    parser_advance(ps, 2);
    status s = arithmetic_text(ps, &all);
    if (s) return s;
    const char *p = all.s, *end = all.s + all.n;
    for (int i = 0; i < 3; i++) {
        const char *stop = memchr(p, ';', (size_t)(end - p));
        if (!stop) stop = end;
        parser_push(ps, &n->words, (slice){p, (size_t)(stop - p), all.line});
        p = stop < end ? stop + 1 : end;
    }
    return parse_body(ps, n, "for");
}

static status parse_for(parser *ps, node **out)
{
    if (parser_at(ps, "((")) return parse_loop(ps, out);
    node *n = parser_make(ps, NODE_FOR);
    *out = n;
    status s = parser_take_word(ps, &n->name);
    if (s) return s;
    parser_skip_newlines(ps);
    n->in_args = !parser_eat_word(ps, "in");
    while (!s && !n->in_args && !parser_ends_command(ps)) {
        slice word;
        const char *before = ps->p;
        s = parser_take_word(ps, &word);
        if (!s && ps->p == before) return parser_fail(ps, ps->line, "'for' has an odd list");
        if (!s) parser_push(ps, &n->words, word);
    }
    return s ? s : parse_body(ps, n, "for");
}

static status parse_arm(parser *ps, node *of)
{
    node *arm = parser_make(ps, NODE_ARM);
    if (ps->p < ps->end && *ps->p == '(') parser_advance(ps, 1);
    for (;;) {
        parser_skip_blanks(ps);
        slice word;
        status s = parser_take_word(ps, &word);
        if (s) return s;
        parser_push(ps, &arm->words, word);
        if (ps->p == ps->end || *ps->p != '|') break;
        parser_advance(ps, 1);
    }
    if (ps->p == ps->end || *ps->p != ')')
        return parser_fail(ps, ps->line, "a pattern of 'case' has no ')'");
    parser_advance(ps, 1);
    status s = parse_list(ps, &arm->b);
    if (s) return s;
    parser_skip_newlines(ps);
    if (parser_at(ps, ";;&"))
        parser_advance(ps, 3);
    else if (parser_at(ps, ";;") || parser_at(ps, ";&"))
        parser_advance(ps, 2);
    ARENA_GROW(ps->a, of->items, of->n_items, of->items_room);
    of->items[of->n_items++] = arm;
    return OK;
}

static status parse_case(parser *ps, node **out)
{
    node *n = parser_make(ps, NODE_CASE);
    *out = n;
    slice word;
    status s = parser_take_word(ps, &word);
    if (!s) parser_push(ps, &n->words, word);
    if (!s) s = expect_word(ps, "in", "case", n->line);
    while (!s) {
        parser_skip_newlines(ps);
        if (ps->p == ps->end) return parser_fail(ps, n->line, "'case' has no 'esac'");
        if (parser_eat_word(ps, "esac")) return OK;
        s = parse_arm(ps, n);
    }
    return s;
}

/* [[ ... ]]: words, and the marks ( ) < > && || as words of their own. */
static status parse_test(parser *ps, node **out)
{
    node *n = parser_make(ps, NODE_TEST);
    *out = n;
    for (parser_skip_newlines(ps); ps->p < ps->end; parser_skip_newlines(ps)) {
        if (parser_at_word(ps, "]]")) {
            parser_advance(ps, 2);
            parser_skip_blanks(ps);
            return OK;
        }
        size_t mark = parser_at(ps, "&&") || parser_at(ps, "||") ? 2
                      : strchr("()<>", *ps->p)                   ? 1
                                                                 : 0;
        slice last = n->words.n ? n->words.items[n->words.n - 1] : (slice){0};
        bool plain = last.n == 2 && shell_slice_is(last, "=~"); /* a pattern may hold ( and | */
        if (mark && !plain) {
            parser_push(ps, &n->words, (slice){ps->p, mark, ps->line});
            parser_advance(ps, mark);
            continue;
        }
        size_t len;
        status s = parser_word_end(ps, plain, &len);
        if (s) return s;
        if (len == 0) return parser_fail(ps, ps->line, "'[[' is not understood here");
        parser_push(ps, &n->words, (slice){ps->p, len, ps->line});
        parser_advance(ps, len);
    }
    return parser_fail(ps, n->line, "'[[' has no ']]'");
}

static status parse_group(parser *ps, const char *close, node **out)
{
    node *n = parser_make(ps, NODE_GROUP);
    *out = n;
    n->subshell = *close == ')';
    status s = parse_list(ps, &n->b);
    if (s) return s;
    parser_skip_newlines(ps);
    if (!parser_at(ps, close))
        return error_set(ps->err, ERR_INPUT, "%s:%d: '%s' has no '%s'", ps->name, n->line,
                         n->subshell ? "(" : "{", close);
    parser_advance(ps, 1);
    parser_skip_blanks(ps);
    return OK;
}

status parser_function_body(parser *ps, slice name, node **out)
{
    node *n = parser_make(ps, NODE_FUNCTION);
    n->name = name;
    *out = n;
    parser_skip_newlines(ps);
    return parse_command(ps, &n->b);
}

static status parse_compound(parser *ps, node **out, bool *taken)
{
    int line = ps->line;
    *taken = true;
    if (parser_eat_word(ps, "if")) return parse_if(ps, out, line);
    if (parser_eat_word(ps, "while")) return parse_while(ps, NODE_WHILE, out);
    if (parser_eat_word(ps, "until")) return parse_while(ps, NODE_UNTIL, out);
    if (parser_eat_word(ps, "for")) return parse_for(ps, out);
    if (parser_eat_word(ps, "case")) return parse_case(ps, out);
    if (parser_eat_word(ps, "[[")) return parse_test(ps, out);
    if (parser_eat_word(ps, "{")) return parse_group(ps, "}", out);
    if (parser_eat_word(ps, "function")) {
        slice name;
        status s = parser_take_word(ps, &name);
        if (s) return s;
        if (parser_at(ps, "()")) parser_advance(ps, 2);
        return parser_function_body(ps, name, out);
    }
    if (parser_at(ps, "((")) {
        parser_advance(ps, 2);
        *out = parser_make(ps, NODE_ARITH);
        slice text;
        status s = arithmetic_text(ps, &text);
        if (!s) parser_push(ps, &(*out)->words, text);
        return s;
    }
    if (parser_at(ps, "(")) {
        parser_advance(ps, 1);
        return parse_group(ps, ")", out);
    }
    *taken = false;
    return OK;
}

static status parse_command(parser *ps, node **out)
{
    if (++ps->depth > SHELL_DEPTH_MAX) return parser_fail(ps, ps->line, "nested too deeply");
    bool taken;
    parser_skip_blanks(ps);
    while (parser_eat_word(ps, "time")) continue;
    status s = parse_compound(ps, out, &taken);
    if (!s && taken) s = parser_take_redirections(ps, *out);
    if (!s && !taken) s = parser_simple(ps, out);
    ps->depth--;
    return s;
}

/* ---- lists */

static status parse_pipeline(parser *ps, node **out)
{
    bool negated = false;
    while (parser_eat_word(ps, "!")) negated = !negated;
    status s = parse_command(ps, out);
    while (!s && ps->p < ps->end && *ps->p == '|' && !parser_at(ps, "||")) {
        parser_advance(ps, parser_at(ps, "|&") ? 2 : 1);
        parser_skip_newlines(ps);
        node *pipe = parser_make(ps, NODE_PIPE);
        pipe->a = *out;
        s = parse_command(ps, &pipe->b);
        *out = pipe;
    }
    if (!s && negated) {
        node *n = parser_make(ps, NODE_NOT);
        n->a = *out;
        *out = n;
    }
    return s;
}

static status parse_and_or(parser *ps, node **out)
{
    status s = parse_pipeline(ps, out);
    while (!s && (parser_at(ps, "&&") || parser_at(ps, "||"))) {
        node *n = parser_make(ps, *ps->p == '&' ? NODE_AND : NODE_OR);
        n->a = *out;
        parser_advance(ps, 2);
        parser_skip_newlines(ps);
        s = parse_pipeline(ps, &n->b);
        *out = n;
    }
    return s;
}

static bool ends_list(const parser *ps)
{
    static const char *const words[] = {"then", "else", "elif", "fi", "do", "done", "esac", "}"};
    if (ps->p >= ps->end || *ps->p == ')' || parser_at(ps, ";;") || parser_at(ps, ";&"))
        return true;
    for (int i = 0; i < 8; i++)
        if (parser_at_word(ps, words[i])) return true;
    return false;
}

static status parse_list(parser *ps, node **out)
{
    node *list = parser_make(ps, NODE_LIST);
    *out = list;
    for (parser_skip_newlines(ps); !ends_list(ps); parser_skip_newlines(ps)) {
        node *item;
        const char *before = ps->p;
        status s = parse_and_or(ps, &item);
        if (s) return s;
        ARENA_GROW(ps->a, list->items, list->n_items, list->items_room);
        list->items[list->n_items++] = item;
        if (ps->p < ps->end && (*ps->p == '&' || (*ps->p == ';' && !parser_at(ps, ";;"))))
            parser_advance(ps, 1);
        if (ps->p == before) return parser_fail(ps, ps->line, "a command is expected here");
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
    status s = parse_list(&ps, out);
    if (s || ps.p == ps.end) return s;
    int shown = (int)strcspn(ps.p, " \t\r\n;&|");
    if (shown > 20) shown = 20;
    if (shown > ps.end - ps.p) shown = (int)(ps.end - ps.p);
    return error_set(err, ERR_INPUT, "%s:%d: '%.*s' is not expected here", from->name, ps.line,
                     shown ? shown : 1, ps.p);
}

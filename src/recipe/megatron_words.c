/* megatron_words.c - splitting a command into words. */
#include "recipe/megatron_words.h"

#include <string.h>

#include "base/text.h"

typedef struct cursor {
    const char *name, *p, *end;
    int line;
    error *err;
} cursor;

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\v' || c == '\f';
}

static char next(cursor *c)
{
    c->line += *c->p == '\n';
    return *c->p++;
}

/* A backslash before the end of a line, with Windows' line ends too; 0: it is none. */
static size_t continuation(const cursor *c)
{
    size_t left = (size_t)(c->end - c->p);
    if (left >= 2 && memcmp(c->p, "\\\n", 2) == 0) return 2;
    if (left >= 3 && memcmp(c->p, "\\\r\n", 3) == 0) return 3;
    return 0;
}

static void skip_to_word(cursor *c)
{
    while (c->p < c->end) {
        size_t n = continuation(c);
        if (n) {
            c->p += n;
            c->line++;
        } else if (is_space(*c->p)) {
            next(c);
        } else if (*c->p == '#') {
            while (c->p < c->end && *c->p != '\n') c->p++;
        } else {
            return;
        }
    }
}

static status unknown_value(const cursor *c)
{
    int n = 1;
    while (n < 60 && c->p + n < c->end && !is_space(c->p[n]) && !strchr("\"'`/", c->p[n])) n++;
    return error_set(c->err, ERR_INPUT,
                     "%s:%d: the value of %.*s is known to the shell only; write the value itself",
                     c->name, c->line, n, c->p);
}

/* One letter, escaped or not; letters between quotes come here too. */
static status letter(cursor *c, char quote, textbuf *t)
{
    size_t joined = quote == '\'' ? 0 : continuation(c);
    if (joined) {
        c->p += joined;
        c->line++;
        return OK;
    }
    if (quote != '\'' && (*c->p == '$' || *c->p == '`')) return unknown_value(c);
    bool escape = quote != '\'' && *c->p == '\\' && c->p + 1 < c->end;
    if (escape && (!quote || strchr("\\\"$`", c->p[1]))) c->p++;
    if (!*c->p) return error_set(c->err, ERR_INPUT, "%s:%d: a byte 0 is no text", c->name, c->line);
    char plain = next(c);
    text_put(t, &plain, 1);
    return OK;
}

static status quoted(cursor *c, textbuf *t)
{
    int line = c->line;
    char quote = next(c);
    while (c->p < c->end && *c->p != quote) {
        status s = letter(c, quote, t);
        if (s) return s;
    }
    if (c->p == c->end)
        return error_set(c->err, ERR_INPUT, "%s:%d: the quote %c has no end", c->name, line, quote);
    c->p++;
    return OK;
}

static status word(cursor *c, textbuf *t)
{
    while (c->p < c->end && !is_space(*c->p)) {
        bool quote = *c->p == '\'' || *c->p == '"';
        status s = quote ? quoted(c, t) : letter(c, 0, t);
        if (s) return s;
    }
    return OK;
}

status words_split(arena *a, const char *name, const char *data, size_t n, int max,
                   shell_words *out, error *err)
{
    cursor c = {name, data, data + n, 1, err};
    shell_words w = {ARENA_ARRAY(a, char *, max), ARENA_ARRAY(a, int, max), 0};
    for (skip_to_word(&c); c.p < c.end; skip_to_word(&c)) {
        if (w.n == max)
            return error_set(err, ERR_INPUT, "%s:%d: more than %d words", name, c.line, max);
        w.line[w.n] = c.line;
        textbuf t = text_init(a);
        status s = word(&c, &t);
        if (s) return s;
        w.text[w.n++] = t.s;
    }
    *out = w;
    return OK;
}

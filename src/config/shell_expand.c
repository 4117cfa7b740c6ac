/* shell_expand.c - what a word becomes: quotes, variables, splitting. */
#include "config/shell_state.h"

#include <string.h>

/* A word while it is made: fields that are done, and the one under way. */
typedef struct making {
    shell *sh;
    shell_words *out;
    textbuf now;
    bool begun;
    bool split, pattern;
    int line;
} making;

static void put(making *m, const char *s, size_t n)
{
    text_put(&m->now, s, n);
    m->begun = true;
}

/* Text that was quoted: in a pattern it means itself. */
static void put_quoted(making *m, const char *s, size_t n)
{
    m->begun = true;
    if (!m->pattern) {
        text_put(&m->now, s, n);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        if (s[i] && strchr("*?[]\\", s[i])) text_put(&m->now, "\\", 1);
        text_put(&m->now, s + i, 1);
    }
}

static status end_field(making *m)
{
    if (!m->begun) return OK;
    shell_push(m->sh->a, m->out, m->now.s, m->line);
    status s = shell_charge(m->sh, m->now.n + sizeof(char *));
    m->now = text_init(m->sh->a);
    m->begun = false;
    return s;
}

static bool is_white(char c)
{
    return c == ' ' || c == '\t' || c == '\n';
}

/* Words of an unquoted value; a mark is never split. */
static status put_split(making *m, const char *s)
{
    status st = OK;
    while (*s && !st) {
        size_t n = 0;
        bool in_mark = false;
        while (s[n] && (in_mark || !is_white(s[n]))) {
            in_mark = s[n] == SHELL_MARK || (in_mark && s[n] != SHELL_MARK_END);
            n++;
        }
        if (n) put(m, s, n);
        s += n;
        if (!*s) break;
        while (is_white(*s)) s++;
        st = end_field(m);
    }
    return st;
}

static status put_parameter(making *m, const char **p, const char *end, bool quoted)
{
    parameter got;
    status s = shell_parameter(m->sh, *p, end, m->line, &got);
    if (s) return s;
    *p += got.used;
    for (int i = 0; i < got.fields.n && !s; i++) {
        const char *text = got.fields.text[i];
        if (i > 0 && got.joined && quoted) {
            put_quoted(m, " ", 1);
        } else if (i > 0 && (got.several || !quoted)) {
            if (m->split)
                s = end_field(m);
            else
                put(m, " ", 1);
        }
        if (s) return s;
        if (got.several) m->line = got.fields.line[i]; /* of an array: where the item stands */
        s = shell_charge(m->sh, m->now.n / 8 + strlen(text));
        if (!s && quoted)
            put_quoted(m, text, strlen(text));
        else if (!s && m->split)
            s = put_split(m, text);
        else if (!s)
            put(m, text, strlen(text));
    }
    return s;
}

/* A backslash between double quotes; p stands on it. */
static const char *quoted_escape(making *m, const char *p, const char *end)
{
    if (p + 1 < end && p[1] == '\n') return p + 2;
    if (p + 1 < end && p[1] && strchr("$`\"\\", p[1])) {
        put_quoted(m, p + 1, 1);
        return p + 2;
    }
    put_quoted(m, p, 1);
    return p + 1;
}

static status put_double(making *m, const char *p, const char *end)
{
    bool had = m->begun;
    int fields = m->out->n;
    size_t before = m->now.n;
    bool parameters = false;
    while (p < end) {
        if (*p == '\\') {
            p = quoted_escape(m, p, end);
        } else if (*p == '$' || *p == '`') {
            parameters = true;
            status s = put_parameter(m, &p, end, true);
            if (s) return s;
        } else {
            put_quoted(m, p++, 1);
        }
    }
    /* "" and "$empty" are words; "${nothing[@]}" is none */
    bool nothing = !had && m->out->n == fields && m->now.n == before && !m->begun;
    if (!nothing || !parameters) m->begun = true;
    return OK;
}

/* $'...': the usual letters after a backslash. */
static void put_ansi(making *m, const char *p, const char *end)
{
    for (; p < end; p++) {
        char c = *p;
        if (c == '\\' && p + 1 < end) {
            c = *++p;
            c = c == 'n' ? '\n' : c == 't' ? '\t' : c;
        }
        put_quoted(m, &c, 1);
    }
    m->begun = true;
}

static status put_word(making *m, const char *p, const char *end)
{
    while (p < end) {
        size_t q = 0;
        status s = OK;
        if (*p == '\'' || *p == '"' || (*p == '$' && p + 1 < end && p[1] == '\''))
            q = shell_skip_quoted(p, end, 0);
        if (q && *p == '\'') {
            put_quoted(m, p + 1, q - 2);
            p += q;
        } else if (q && *p == '"') {
            s = put_double(m, p + 1, p + q - 1);
            p += q;
        } else if (q) {
            put_ansi(m, p + 2, p + q - 1);
            p += q;
        } else if (*p == '\\' && p + 1 < end) {
            size_t end_of_line = p[1] == '\n'                                  ? 2
                                 : p + 2 < end && p[1] == '\r' && p[2] == '\n' ? 3
                                                                               : 0;
            if (!end_of_line) put_quoted(m, p + 1, 1);
            p += end_of_line ? end_of_line : 2;
        } else if (*p == '$' || *p == '`') {
            s = put_parameter(m, &p, end, false);
        } else {
            put(m, p++, 1);
        }
        if (s) return s;
    }
    return OK;
}

status shell_expand(shell *sh, slice word, bool split, shell_words *out)
{
    making m = {sh, out, text_init(sh->a), .split = split, .line = word.line};
    status s = put_word(&m, word.s, word.s + word.n);
    return s ? s : end_field(&m);
}

status shell_expand_one(shell *sh, slice word, bool pattern, char **out)
{
    shell_words fields = {0};
    making m = {sh, &fields, text_init(sh->a), .pattern = pattern, .line = word.line};
    status s = put_word(&m, word.s, word.s + word.n);
    if (!s) s = shell_charge(sh, m.now.n);
    *out = m.now.s;
    return s;
}

status shell_expand_text(shell *sh, slice text, char **out)
{
    shell_words fields = {0};
    making m = {sh, &fields, text_init(sh->a), .line = text.line};
    status s = put_double(&m, text.s, text.s + text.n);
    if (!s) s = shell_charge(sh, m.now.n);
    *out = m.now.s;
    return s;
}

/* shell_word.c - where words and quotes end, and the marks of what is not known. */
#include "config/shell_tree.h"

#include <string.h>

/* ---- ends */

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
    switch (*p) {
    case '\'':
        return skip_single(p, end);
    case '"':
        return skip_to(p, 1, end, 0, '"', depth);
    case '`':
        return skip_to(p, 1, end, 0, '`', depth);
    case '$':
        if (p + 1 < end && p[1] == '(') return skip_to(p, 2, end, '(', ')', depth);
        if (p + 1 < end && p[1] == '{') return skip_to(p, 2, end, '{', '}', depth);
        if (p + 1 < end && p[1] == '\'') {
            size_t n = skip_single(p + 1, end);
            return n ? n + 1 : 0;
        }
        return 0;
    default:
        return 0;
    }
}

size_t shell_skip_parens(const char *p, const char *end)
{
    return skip_to(p, 1, end, '(', ')', 0);
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
            int shown = c == '$' ? 2 : 1;
            return error_set(err, ERR_INPUT, "%s:%d: the quote %.*s has no end", from->name, line,
                             shown, p + i);
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

/* ---- marks */

bool shell_has_mark(const char *text)
{
    return strchr(text, SHELL_MARK) != NULL;
}

const char *shell_next_mark(arena *a, const char **p)
{
    const char *open = strchr(*p, SHELL_MARK);
    if (!open) return NULL;
    const char *close = strchr(open, SHELL_MARK_END);
    if (!close) return NULL;
    *p = close + 1;
    return arena_copy(a, open + 1, (size_t)(close - open) - 1);
}

char *shell_plain(arena *a, const char *text)
{
    textbuf t = text_init(a);
    for (; *text; text++) {
        if (*text == SHELL_MARK)
            text_add(&t, text[1] == '$' ? "" : "${");
        else if (*text != SHELL_MARK_END)
            text_put(&t, text, 1);
        else if (t.n == 0 || t.s[t.n - 1] != ')')
            text_add(&t, "}");
    }
    return t.s;
}

void shell_push(arena *a, shell_words *w, char *text, int line)
{
    int room = w->room;
    ARENA_GROW(a, w->text, w->n, w->room);
    ARENA_GROW(a, w->line, w->n, room);
    w->text[w->n] = text;
    w->line[w->n++] = line;
}

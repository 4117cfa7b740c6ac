/* value.c - values from text and back. */
#include "config/value.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LIST_DEPTH_MAX = 4, LIST_ITEMS_MAX = 65536 };

typedef struct cursor {
    arena *a;
    const char *p;
    bool text; /* words stay as they are written */
    error *err;
} cursor;

static bool looks_like_number(const char *s)
{
    if (*s == '+' || *s == '-') s++;
    if (!isdigit((unsigned char)*s) && !(*s == '.' && isdigit((unsigned char)s[1]))) return false;
    while (isdigit((unsigned char)*s) || *s == '_') s++;
    if (*s == '.') s++;
    while (isdigit((unsigned char)*s)) s++;
    if (*s == 'e' || *s == 'E') {
        s++;
        if (*s == '+' || *s == '-') s++;
        if (!isdigit((unsigned char)*s)) return false;
        while (isdigit((unsigned char)*s)) s++;
    }
    return *s == 0;
}

static status number(arena *a, const char *s, value *out, error *err)
{
    char *digits = arena_take(a, strlen(s) + 1); /* without the underscores of 1_000_000 */
    for (size_t i = 0, n = 0; s[i]; i++)
        if (s[i] != '_') digits[n++] = s[i];
    errno = 0;
    if (!strpbrk(digits, ".eE")) {
        *out = value_of_int(strtoll(digits, NULL, 10));
        if (errno) return error_set(err, ERR_INPUT, "%s does not fit into 64 bits", s);
        return OK;
    }
    *out = value_of_float(strtod(digits, NULL));
    if (!isfinite(out->real)) return error_set(err, ERR_INPUT, "%s is too large for a number", s);
    return OK;
}

bool value_size(const char *s, int64_t *out)
{
    size_t n = strspn(s, "0123456789_");
    int64_t unit = 1, whole = 0;
    if (s[n] == 'K' || s[n] == 'k') unit = 1 << 10;
    if (s[n] == 'M') unit = 1 << 20;
    if (!n || s[0] == '_' || s[n + (unit > 1)]) return false;
    for (size_t i = 0; i < n; i++)
        if (s[i] != '_' && (__builtin_mul_overflow(whole, 10, &whole) ||
                            __builtin_add_overflow(whole, s[i] - '0', &whole)))
            return false;
    return !__builtin_mul_overflow(whole, unit, out);
}

status value_scalar(arena *a, const char *s, value *out, error *err)
{
    if (text_in("null|Null|NULL|none|None|~|", '|', s)) {
        *out = (value){.kind = V_NULL};
        return OK;
    }
    bool yes = text_in("true|True|TRUE", '|', s), no = text_in("false|False|FALSE", '|', s);
    if (yes || no) {
        *out = value_of_bool(yes);
        return OK;
    }
    if (looks_like_number(s)) return number(a, s, out, err);
    *out = value_of_text(s);
    return OK;
}

value value_scalar_text(const char *s)
{
    return text_in("null|Null|NULL|~|", '|', s) ? (value){.kind = V_NULL} : value_of_text(s);
}

static void skip_space(cursor *c)
{
    while (isspace((unsigned char)*c->p)) c->p++;
}

static status quoted(cursor *c, value *out)
{
    char quote = *c->p++;
    textbuf t = text_init(c->a);
    while (*c->p && *c->p != quote) {
        if (*c->p == '\\' && (c->p[1] == quote || c->p[1] == '\\')) c->p++;
        text_put(&t, c->p++, 1);
    }
    if (*c->p != quote) return error_set(c->err, ERR_INPUT, "the quote %c has no end", quote);
    c->p++;
    *out = value_of_text(t.s);
    return OK;
}

static status element(cursor *c, int depth, value *out);

static status list(cursor *c, int depth, value *out)
{
    if (depth >= LIST_DEPTH_MAX)
        return error_set(c->err, ERR_INPUT, "lists are nested deeper than %d", LIST_DEPTH_MAX);
    c->p++;
    int room = 8, n = 0;
    value *items = ARENA_ARRAY(c->a, value, room);
    skip_space(c);
    while (*c->p != ']') {
        if (n == LIST_ITEMS_MAX)
            return error_set(c->err, ERR_INPUT, "a list has more than %d items", LIST_ITEMS_MAX);
        if (n == room) {
            value *larger = ARENA_ARRAY(c->a, value, room * 2);
            memcpy(larger, items, sizeof *items * (size_t)n);
            items = larger;
            room *= 2;
        }
        TRY(element(c, depth + 1, &items[n++]));
        skip_space(c);
        if (*c->p == ',')
            c->p++;
        else if (*c->p != ']')
            return error_set(c->err, ERR_INPUT, "a list [ has no closing ]");
        skip_space(c);
    }
    c->p++;
    *out = (value){.kind = V_LIST, .list = {items, n}};
    return OK;
}

static status element(cursor *c, int depth, value *out)
{
    const char *whole = c->p;
    skip_space(c);
    if (*c->p == '[') return list(c, depth, out);
    if (*c->p == '\'' || *c->p == '"') return quoted(c, out);
    size_t n = depth ? strcspn(c->p, ",]") : strlen(c->p);
    const char *start = c->p;
    c->p += n;
    if (c->text && !depth) { /* spaces and all */
        *out =
            text_in("null|Null|NULL|", '|', start) ? (value){.kind = V_NULL} : value_of_text(whole);
        return OK;
    }
    while (n && isspace((unsigned char)start[n - 1])) n--;
    if (depth && !n) return error_set(c->err, ERR_INPUT, "a list has an empty item");
    const char *word = arena_copy(c->a, start, n);
    *out = value_of_text(word);
    return c->text ? OK : value_scalar(c->a, word, out, c->err);
}

static status parse(cursor c, value *out)
{
    value v;
    TRY(element(&c, 0, &v));
    skip_space(&c);
    if (*c.p) return error_set(c.err, ERR_INPUT, "'%s' follows the end of the value", c.p);
    *out = v;
    return OK;
}

status value_parse(arena *a, const char *s, value *out, error *err)
{
    return parse((cursor){a, s, false, err}, out);
}

status value_parse_text(arena *a, const char *s, value *out, error *err)
{
    return parse((cursor){a, s, true, err}, out);
}

/* A word that would read as something else, or that holds a mark, needs quotes. */
static bool needs_quotes(const char *s)
{
    if (text_in("null|Null|NULL|none|None|~||true|True|TRUE|false|False|FALSE", '|', s))
        return true;
    return looks_like_number(s) || strpbrk(s, "[],'\" \t\n\r\v\f#:{}") != NULL;
}

static void print_quoted(textbuf *t, const char *s)
{
    text_put(t, "'", 1);
    for (; *s; s++) {
        if (*s == '\'' || *s == '\\') text_put(t, "\\", 1);
        text_put(t, s, 1);
    }
    text_put(t, "'", 1);
}

void value_print(textbuf *t, value v)
{
    switch (v.kind) {
    case V_NULL:
        text_add(t, "null");
        break;
    case V_BOOL:
        text_add(t, "%s", v.flag ? "true" : "false");
        break;
    case V_INT:
        text_add(t, "%" PRId64, v.whole);
        break;
    case V_FLOAT:
        text_real(t, v.real);
        break;
    case V_TEXT:
        if (needs_quotes(v.text))
            print_quoted(t, v.text);
        else
            text_add(t, "%s", v.text);
        break;
    case V_LIST:
        text_add(t, "[");
        for (int i = 0; i < v.list.n; i++) {
            if (i) text_add(t, ",");
            value_print(t, v.list.items[i]);
        }
        text_add(t, "]");
        break;
    }
}

const char *value_text(arena *a, value v)
{
    textbuf t = text_init(a);
    value_print(&t, v);
    return t.s;
}

bool value_equal(value a, value b)
{
    if (a.kind == V_INT && b.kind == V_FLOAT) return (double)a.whole == b.real;
    if (a.kind == V_FLOAT && b.kind == V_INT) return a.real == (double)b.whole;
    if (a.kind != b.kind) return false;
    switch (a.kind) {
    case V_NULL:
        return true;
    case V_BOOL:
        return a.flag == b.flag;
    case V_INT:
        return a.whole == b.whole;
    case V_FLOAT:
        return a.real == b.real;
    case V_TEXT:
        return strcmp(a.text, b.text) == 0;
    case V_LIST:
        if (a.list.n != b.list.n) return false;
        for (int i = 0; i < a.list.n; i++)
            if (!value_equal(a.list.items[i], b.list.items[i])) return false;
        return true;
    }
    return false;
}

const char *value_kind_name(value_kind kind)
{
    static const char *const names[] = {"null",     "true or false", "a whole number",
                                        "a number", "a word",        "a list"};
    return names[kind];
}

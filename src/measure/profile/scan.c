/* scan.c - a JSON document, one value after another.
 *
 * I1  Nothing is read past the value that was asked for.
 * I2  What nests deeper than DEPTH is refused: profiles do not, and the stack is finite. */
#include "measure/profile/scan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH = 200, NUMBER_MAX = 64 };

static bool refuse(scan *c, const char *why)
{
    if (c->s) return false;
    c->s = bytes_failed(c->b, c->err);
    if (!c->s && bytes_peek(c->b) < 0)
        c->s = error_set(c->err, ERR_INPUT,
                         "%s: cut short after %lld bytes (%s expected); repair: copy the file "
                         "again, or profile fewer steps",
                         c->name, (long long)bytes_at(c->b), why);
    else if (!c->s)
        c->s = error_set(c->err, ERR_INPUT, "%s: byte %lld is not JSON: %s expected; repair: %s",
                         c->name, (long long)bytes_at(c->b), why,
                         "write the file again, as torch.profiler does");
    return false;
}

static int peek(scan *c)
{
    int x = bytes_peek(c->b);
    while (x == ' ' || x == '\n' || x == '\t' || x == '\r') {
        bytes_next(c->b);
        x = bytes_peek(c->b);
    }
    return x;
}

static bool take(scan *c, char what)
{
    if (c->s) return false;
    if (peek(c) != what) {
        char text[] = {'\'', what, '\'', 0};
        return refuse(c, text);
    }
    bytes_next(c->b);
    return true;
}

scan_kind scan_peek(scan *c)
{
    if (c->s) return SCAN_NOTHING;
    int x = peek(c);
    if (x == '{') return SCAN_OBJECT;
    if (x == '[') return SCAN_ARRAY;
    if (x == '"') return SCAN_STRING;
    if (x == '-' || (x >= '0' && x <= '9')) return SCAN_NUMBER;
    if ((x >= 'a' && x <= 'z') || x == 'N' || x == 'I') return SCAN_WORD;
    return SCAN_NOTHING;
}

bool scan_enter(scan *c, char bracket)
{
    return take(c, bracket);
}

/* The comma, or the end. */
static bool another(scan *c, int64_t n, char close)
{
    if (c->s) return false;
    if (peek(c) == close) {
        bytes_next(c->b);
        return false;
    }
    return n == 0 || take(c, ',');
}

bool scan_element(scan *c, int64_t *n)
{
    if (!another(c, *n, ']')) return false;
    (*n)++;
    return true;
}

bool scan_key(scan *c, int64_t *n)
{
    if (!another(c, *n, '}') || !scan_string(c)) return false;
    (*n)++;
    return take(c, ':');
}

/* ---- values */

static int hex4(scan *c)
{
    int v = 0;
    for (int i = 0; i < 4; i++) {
        int x = bytes_next(c->b);
        int d = x >= '0' && x <= '9'   ? x - '0'
                : x >= 'a' && x <= 'f' ? x - 'a' + 10
                : x >= 'A' && x <= 'F' ? x - 'A' + 10
                                       : -1;
        if (d < 0) return -1;
        v = v * 16 + d;
    }
    return v;
}

/* Names are ASCII; whatever else an escape stands for becomes a question mark. */
static int escaped(scan *c)
{
    int x = bytes_next(c->b);
    switch (x) {
    case 'n':
        return '\n';
    case 't':
        return '\t';
    case 'r':
        return '\r';
    case 'b':
        return '\b';
    case 'f':
        return '\f';
    case '"':
    case '\\':
    case '/':
        return x;
    case 'u': {
        int v = hex4(c);
        return v < 0 ? -1 : v > 0 && v < 128 ? v : '?';
    }
    default:
        return -1;
    }
}

bool scan_string(scan *c)
{
    if (!take(c, '"')) return false;
    size_t n = 0;
    for (;;) {
        int x = bytes_next(c->b);
        if (x == '"') break;
        if (x == '\\') x = escaped(c);
        if (x < 0) return refuse(c, "the end of a string");
        if (n + 1 < SCAN_TEXT) c->text[n++] = (char)(x ? x : '?');
    }
    c->text[n] = 0;
    return true;
}

static bool of_number(int x)
{
    return (x >= '0' && x <= '9') || x == '-' || x == '+' || x == '.' || x == 'e' || x == 'E';
}

bool scan_number(scan *c, double *out)
{
    if (scan_peek(c) != SCAN_NUMBER) return refuse(c, "a number");
    char text[NUMBER_MAX + 1];
    int n = 0;
    for (int x = bytes_peek(c->b); of_number(x) && n < NUMBER_MAX; x = bytes_peek(c->b))
        text[n++] = (char)bytes_next(c->b);
    text[n] = 0;
    char *end;
    *out = strtod(text, &end);
    return *end ? refuse(c, "a number") : true;
}

static void skip_plain(scan *c)
{
    double number;
    switch (scan_peek(c)) {
    case SCAN_STRING:
        scan_string(c);
        break;
    case SCAN_NUMBER:
        scan_number(c, &number);
        break;
    case SCAN_WORD: {
        int x = bytes_peek(c->b);
        for (; (x >= 'a' && x <= 'z') || (x >= 'A' && x <= 'Z'); x = bytes_peek(c->b))
            bytes_next(c->b);
        break;
    }
    default:
        refuse(c, "a value");
    }
}

static void skip_at(scan *c, int depth)
{
    scan_kind k = scan_peek(c);
    int64_t n = 0;
    if (depth > DEPTH) { /* I2 */
        refuse(c, "less nesting");
    } else if (k == SCAN_OBJECT) {
        scan_enter(c, '{');
        while (scan_key(c, &n)) skip_at(c, depth + 1);
    } else if (k == SCAN_ARRAY) {
        scan_enter(c, '[');
        while (scan_element(c, &n)) skip_at(c, depth + 1);
    } else if (!c->s) {
        skip_plain(c);
    }
}

void scan_skip(scan *c)
{
    skip_at(c, 0);
}

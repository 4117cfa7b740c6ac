/* shell_arith.c - $((...)): whole numbers of 64 bits, as the shell has them.
 *
 * I1  What is not known makes the whole result not known: it then holds the marks of all that is
 *     missing, so that they can be named. */
#include "config/shell_state.h"

#include <inttypes.h>
#include <string.h>

typedef struct number {
    int64_t v;
    bool known;
} number;

typedef struct reader {
    shell *sh;
    const char *p;
    int line, depth;
    int quiet; /* in the branch of ?: && || that is not taken: nothing is assigned */
    textbuf missing;
    bool bad; /* not understood */
    status s;
} reader;

static number ternary(reader *r);

static number of(int64_t v)
{
    return (number){v, true};
}

static void blanks(reader *r)
{
    while (*r->p && strchr(" \t\r\n", *r->p)) r->p++;
}

static bool eat(reader *r, const char *op)
{
    blanks(r);
    size_t n = strlen(op);
    if (strncmp(r->p, op, n) != 0) return false;
    r->p += n;
    return true;
}

/* An operator of one letter that is not the beginning of a longer one. */
static bool eat_one(reader *r, char op, const char *not_before)
{
    blanks(r);
    if (*r->p != op || (r->p[1] && strchr(not_before, r->p[1]))) return false;
    r->p++;
    return true;
}

/* What is not understood is not known: the rest is left out. */
static void fail(reader *r)
{
    r->bad = true;
    r->p = "";
}

static void miss(reader *r, const char *mark)
{
    if (r->missing.n < 1024 && !strstr(r->missing.s, mark)) text_add(&r->missing, "%s", mark);
}

/* ---- values */

static number digits(const char **p)
{
    uint64_t v = 0;
    unsigned base = 10;
    if ((*p)[0] == '0' && ((*p)[1] == 'x' || (*p)[1] == 'X')) {
        base = 16;
        *p += 2;
    } else if ((*p)[0] == '0') {
        base = 8;
    }
    for (;; (*p)++) {
        char c = **p;
        unsigned d = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                     : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
                     : c >= 'A' && c <= 'F' ? (unsigned)(c - 'A') + 10
                                            : 99;
        if (d >= base) break;
        v = v * base + d;
    }
    return of((int64_t)v);
}

/* The number that a variable holds: its text, or nothing, which is 0. */
static number of_text(reader *r, const char *text)
{
    if (shell_has_mark(text)) {
        miss(r, text);
        return (number){0};
    }
    while (*text == ' ') text++;
    bool minus = *text == '-';
    if (*text == '-' || *text == '+') text++;
    if (!*text) return of(0);
    number n = digits(&text);
    while (*text == ' ') text++;
    if (*text) {
        miss(r, shell_mark(r->sh->a, "$(arithmetic)")); /* words are no numbers */
        return (number){0};
    }
    return minus ? of((int64_t)(0 - (uint64_t)n.v)) : n;
}

static number of_name(reader *r, const char *name)
{
    slice word = {arena_text(r->sh->a, "${%s}", name), strlen(name) + 3, r->line};
    char *text;
    status s = shell_expand_one(r->sh, word, false, &text);
    if (s && !r->s) r->s = s;
    return s ? of(0) : of_text(r, text);
}

static void store(reader *r, const char *name, number n)
{
    if (r->quiet || r->s) return;
    char *text = n.known ? arena_text(r->sh->a, "%" PRId64, n.v) : shell_mark(r->sh->a, name);
    r->s = shell_assign(r->sh, name, text);
}

static number apply(reader *r, char op, number a, number b)
{
    if (!a.known || !b.known) return (number){0};
    uint64_t x = (uint64_t)a.v, y = (uint64_t)b.v;
    switch (op) {
    case '+':
        return of((int64_t)(x + y));
    case '-':
        return of((int64_t)(x - y));
    case '*':
        return of((int64_t)(x * y));
    default:
        break;
    }
    if (b.v == 0) {
        miss(r, shell_mark(r->sh->a, "$(division by 0)"));
        return (number){0};
    }
    if (b.v == -1) return of(op == '/' ? (int64_t)(0 - x) : 0);
    return of(op == '/' ? a.v / b.v : a.v % b.v);
}

/* name, name = value, name += value, name++ */
static number named(reader *r)
{
    size_t n = shell_name_length(r->p, r->p + strlen(r->p));
    const char *name = arena_copy(r->sh->a, r->p, n);
    r->p += n;
    blanks(r);
    if (r->p[0] == '=' && r->p[1] != '=') {
        r->p++;
        number v = ternary(r);
        store(r, name, v);
        return v;
    }
    if (r->p[0] && strchr("+-*/%", r->p[0]) && r->p[1] == '=') {
        char op = r->p[0];
        r->p += 2;
        number v = apply(r, op, of_name(r, name), ternary(r));
        store(r, name, v);
        return v;
    }
    number v = of_name(r, name);
    if ((r->p[0] == '+' || r->p[0] == '-') && r->p[1] == r->p[0]) {
        store(r, name, apply(r, r->p[0], v, of(1)));
        r->p += 2;
    }
    return v;
}

static number primary(reader *r)
{
    blanks(r);
    if (eat(r, "(")) {
        number n = ternary(r);
        if (!eat(r, ")")) fail(r);
        return n;
    }
    if (*r->p == SHELL_MARK) {
        const char *name = shell_next_mark(r->sh->a, &r->p);
        if (name) miss(r, shell_mark(r->sh->a, name));
        return (number){0};
    }
    if (*r->p >= '0' && *r->p <= '9') return digits(&r->p);
    if (shell_is_name_letter(*r->p, true)) return named(r);
    fail(r);
    return of(0);
}

static number unary(reader *r)
{
    if (++r->depth > SHELL_DEPTH_MAX) fail(r);
    number n = of(0);
    blanks(r);
    if (r->s || r->bad) {
        r->depth--;
        return n;
    }
    if ((r->p[0] == '+' || r->p[0] == '-') && r->p[1] == r->p[0] &&
        shell_is_name_letter(r->p[2], true)) {
        char op = r->p[0];
        r->p += 2;
        const char *name = arena_copy(r->sh->a, r->p, shell_name_length(r->p, r->p + strlen(r->p)));
        r->p += strlen(name);
        n = apply(r, op, of_name(r, name), of(1));
        store(r, name, n);
    } else if (eat_one(r, '-', "")) {
        n = apply(r, '-', of(0), unary(r));
    } else if (eat_one(r, '+', "")) {
        n = unary(r);
    } else if (eat_one(r, '!', "=")) {
        n = unary(r);
        n.v = !n.v;
    } else {
        n = primary(r);
    }
    r->depth--;
    return n;
}

static number power(reader *r)
{
    number a = unary(r);
    while (!r->s && eat(r, "**")) {
        number b = unary(r);
        if (!a.known || !b.known || b.v < 0 || b.v > 64) {
            a.known = false;
            continue;
        }
        number v = of(1);
        for (int64_t i = 0; i < b.v; i++) v = apply(r, '*', v, a);
        a = v;
    }
    return a;
}

static number gemm(reader *r)
{
    number a = power(r);
    for (;;) {
        char op = eat_one(r, '*', "*=") ? '*' : eat_one(r, '/', "=") ? '/' : 0;
        if (!op && eat_one(r, '%', "=")) op = '%';
        if (!op || r->s) return a;
        a = apply(r, op, a, power(r));
    }
}

static number sum(reader *r)
{
    number a = gemm(r);
    for (;;) {
        char op = eat_one(r, '+', "+=") ? '+' : eat_one(r, '-', "-=") ? '-' : 0;
        if (!op || r->s) return a;
        a = apply(r, op, a, gemm(r));
    }
}

static number compared(reader *r)
{
    number a = sum(r);
    static const char *const ops[] = {"<=", ">=", "==", "!=", "<", ">"};
    for (int i = 0; i < 6 && !r->s; i++) {
        if (!eat(r, ops[i])) continue;
        number b = sum(r);
        bool yes = i == 0   ? a.v <= b.v
                   : i == 1 ? a.v >= b.v
                   : i == 2 ? a.v == b.v
                   : i == 3 ? a.v != b.v
                   : i == 4 ? a.v < b.v
                            : a.v > b.v;
        return (number){yes, a.known && b.known};
    }
    return a;
}

static number both(reader *r)
{
    number a = compared(r);
    while (!r->s && eat(r, "&&")) {
        bool off = a.known && !a.v;
        r->quiet += off;
        number b = compared(r);
        r->quiet -= off;
        a = off ? of(0) : (number){a.v && b.v, a.known && b.known};
    }
    return a;
}

static number either(reader *r)
{
    number a = both(r);
    while (!r->s && eat(r, "||")) {
        bool on = a.known && a.v;
        r->quiet += on;
        number b = both(r);
        r->quiet -= on;
        a = on ? of(1) : (number){a.v || b.v, a.known && b.known};
    }
    return a;
}

static number ternary(reader *r)
{
    if (++r->depth > SHELL_DEPTH_MAX) fail(r);
    number a = r->s || r->bad ? of(0) : either(r);
    if (!r->s && eat_one(r, '?', "")) {
        bool no = a.known && !a.v, yes = a.known && a.v;
        r->quiet += !yes;
        number b = ternary(r);
        r->quiet -= !yes;
        if (!eat(r, ":")) fail(r);
        r->quiet += !no;
        number c = ternary(r);
        r->quiet -= !no;
        a = yes ? b : no ? c : (number){0};
    }
    r->depth--;
    return a;
}

status shell_arithmetic(shell *sh, slice text, char **out)
{
    char *expanded;
    status s = shell_expand_text(sh, text, &expanded);
    if (s) return s;
    reader r = {.sh = sh, .p = expanded, .line = text.line, .missing = text_init(sh->a)};
    number n = of(0);
    blanks(&r);
    while (*r.p && !r.s) {
        n = ternary(&r);
        if (!eat(&r, ",")) break;
    }
    blanks(&r);
    if (*r.p) r.bad = true;
    if (r.s) return r.s;
    n.known &= !r.bad;
    *out = n.known ? arena_text(sh->a, "%" PRId64, n.v) : r.missing.s;
    if (!n.known && !r.missing.n) *out = shell_mark(sh->a, "$(arithmetic)"); /* I1 */
    return OK;
}

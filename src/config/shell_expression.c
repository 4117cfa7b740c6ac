/* shell_expression.c - what $((...)), [ ] and [[ ]] come to: numbers of 64 bits, yes and no, or
 * that it depends on what is not known.
 *
 * I1  What is not known makes a whole number not known: it then holds the marks of all that is
 *     missing, so that they can be named.
 * I2  Files are not looked at: a test of one is MAYBE.
 * I3  -n and -z of a variable that nobody set take it as empty, and $# of the script itself is
 *     compared as 0; sh->assumed says so. */
#include "config/shell_walk.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ==== numbers */

typedef struct number {
    int64_t v;
    bool known;
} number;

typedef struct arith {
    shell *sh;
    const char *p;
    int line, depth;
    int quiet; /* in the branch of ?: && || that is not taken: nothing is assigned */
    textbuf missing;
    bool bad; /* not understood */
    status s;
} arith;

static number ternary(arith *r);

static number of(int64_t v)
{
    return (number){v, true};
}

static void blanks(arith *r)
{
    while (*r->p && strchr(" \t\r\n", *r->p)) r->p++;
}

static bool eat(arith *r, const char *op)
{
    blanks(r);
    size_t n = strlen(op);
    if (strncmp(r->p, op, n) != 0) return false;
    r->p += n;
    return true;
}

/* An operator of one letter that is not the beginning of a longer one. */
static bool eat_one(arith *r, char op, const char *not_before)
{
    blanks(r);
    if (*r->p != op || (r->p[1] && strchr(not_before, r->p[1]))) return false;
    r->p++;
    return true;
}

/* What is not understood is not known: the rest is left out. */
static void give_up(arith *r)
{
    r->bad = true;
    r->p = "";
}

static void miss(arith *r, const char *mark)
{
    if (r->missing.n < 1024 && !strstr(r->missing.s, mark)) text_add(&r->missing, "%s", mark);
}

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
static number of_text(arith *r, const char *text)
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

static number of_name(arith *r, const char *name)
{
    slice word = {arena_text(r->sh->a, "${%s}", name), strlen(name) + 3, r->line};
    char *text;
    status s = shell_expand_one(r->sh, word, false, &text);
    if (s && !r->s) r->s = s;
    return s ? of(0) : of_text(r, text);
}

static void store(arith *r, const char *name, number n)
{
    if (r->quiet || r->s) return;
    char *text = n.known ? arena_text(r->sh->a, "%" PRId64, n.v) : shell_mark(r->sh->a, name);
    r->s = shell_assign(r->sh, name, text);
}

static number apply(arith *r, char op, number a, number b)
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
static number named(arith *r)
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

static number operand(arith *r)
{
    blanks(r);
    if (eat(r, "(")) {
        number n = ternary(r);
        if (!eat(r, ")")) give_up(r);
        return n;
    }
    if (*r->p == SHELL_MARK) {
        const char *name = shell_next_mark(r->sh->a, &r->p);
        if (name) miss(r, shell_mark(r->sh->a, name));
        return (number){0};
    }
    if (*r->p >= '0' && *r->p <= '9') return digits(&r->p);
    if (shell_is_name_letter(*r->p, true)) return named(r);
    give_up(r);
    return of(0);
}

static number signed_operand(arith *r)
{
    if (++r->depth > SHELL_DEPTH_MAX) give_up(r);
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
        n = apply(r, '-', of(0), signed_operand(r));
    } else if (eat_one(r, '+', "")) {
        n = signed_operand(r);
    } else if (eat_one(r, '!', "=")) {
        n = signed_operand(r);
        n.v = !n.v;
    } else {
        n = operand(r);
    }
    r->depth--;
    return n;
}

static number power(arith *r)
{
    number a = signed_operand(r);
    while (!r->s && eat(r, "**")) {
        number b = signed_operand(r);
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

static number product(arith *r)
{
    number a = power(r);
    for (;;) {
        char op = eat_one(r, '*', "*=") ? '*' : eat_one(r, '/', "=") ? '/' : 0;
        if (!op && eat_one(r, '%', "=")) op = '%';
        if (!op || r->s) return a;
        a = apply(r, op, a, power(r));
    }
}

static number sum(arith *r)
{
    number a = product(r);
    for (;;) {
        char op = eat_one(r, '+', "+=") ? '+' : eat_one(r, '-', "-=") ? '-' : 0;
        if (!op || r->s) return a;
        a = apply(r, op, a, product(r));
    }
}

static number compared(arith *r)
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

static number and_of(arith *r)
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

static number or_of(arith *r)
{
    number a = and_of(r);
    while (!r->s && eat(r, "||")) {
        bool on = a.known && a.v;
        r->quiet += on;
        number b = and_of(r);
        r->quiet -= on;
        a = on ? of(1) : (number){a.v || b.v, a.known && b.known};
    }
    return a;
}

static number ternary(arith *r)
{
    if (++r->depth > SHELL_DEPTH_MAX) give_up(r);
    number a = r->s || r->bad ? of(0) : or_of(r);
    if (!r->s && eat_one(r, '?', "")) {
        bool no = a.known && !a.v, yes = a.known && a.v;
        r->quiet += !yes;
        number b = ternary(r);
        r->quiet -= !yes;
        if (!eat(r, ":")) give_up(r);
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
    TRY(shell_expand_text(sh, text, &expanded));
    arith r = {.sh = sh, .p = expanded, .line = text.line, .missing = text_init(sh->a)};
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

/* ==== patterns */

/* One letter of the text against one part of the pattern; *p moves behind that part. */
static bool match_letter(const char **p, char c)
{
    const char *s = *p;
    if (*s == '\\' && s[1]) {
        *p = s + 2;
        return s[1] == c;
    }
    const char *close = *s == '[' && s[1] ? strchr(s + 2, ']') : NULL;
    if (!close) {
        *p = s + 1;
        return *s == '?' || *s == c;
    }
    bool invert = s[1] == '!' || s[1] == '^', in = false;
    for (s += 1 + invert; s < close; s++) {
        if (s + 2 < close && s[1] == '-') {
            in |= *s <= c && c <= s[2];
            s += 2;
        } else {
            in |= *s == c;
        }
    }
    *p = close + 1;
    return in != invert;
}

bool shell_match(const char *pattern, const char *text)
{
    const char *star = NULL, *back = NULL;
    for (;;) {
        if (*pattern == '*') {
            star = ++pattern;
            back = text;
            continue;
        }
        if (!*text && !*pattern) return true;
        const char *next = pattern;
        if (*text && *pattern && match_letter(&next, *text)) {
            pattern = next;
            text++;
            continue;
        }
        if (!star || !*back) return false;
        pattern = star;
        text = ++back;
    }
}

/* ==== tests */

typedef struct test {
    shell *sh;
    const slices *words;       /* [[ ]], or NULL */
    const shell_words *fields; /* [ ] */
    int i, n, depth;
    status s;
} test;

static truth test_or(test *r);

/* ---- words */

/* The next word as it stands there; operators are never quoted. */
static bool at_mark(const test *r, int at, const char *op)
{
    if (r->i + at >= r->n) return false;
    if (!r->words) return strcmp(r->fields->text[r->i + at], op) == 0;
    slice word = r->words->items[r->i + at];
    return word.n == strlen(op) && memcmp(word.s, op, word.n) == 0;
}

static char *take_word(test *r, bool pattern)
{
    char *text = "";
    if (r->i >= r->n || r->s) return text;
    if (r->words)
        r->s = shell_expand_one(r->sh, r->words->items[r->i], pattern, &text);
    else
        text = r->fields->text[r->i];
    r->i++;
    return text;
}

/* ---- tests of one word */

/* Nobody set the variable: it is empty where nothing else sets it. */
static const char *unset_name(test *r, const char *text)
{
    const char *p = text;
    if (text[0] != SHELL_MARK || text[1] == '$') return NULL;
    const char *name = shell_next_mark(r->sh->a, &p);
    return name && !*p && strcmp(name, "#") != 0 ? name : NULL;
}

static truth test_empty(test *r, const char *text)
{
    if (!*text) r->sh->assumed = ""; /* CONTAINER_IMAGE="" is a blank to fill in: I3 */
    if (!shell_has_mark(text)) return *text ? NO : YES;
    const char *name = unset_name(r, text), *p = text;
    if (name) {
        r->sh->assumed = name; /* I3 */
        return YES;
    }
    for (; *p; p++) { /* what is known of it is enough */
        if (*p == SHELL_MARK)
            while (*p && *p != SHELL_MARK_END) p++;
        else
            return NO;
        if (!*p) break;
    }
    shell_depends(r->sh, text);
    return MAYBE;
}

static truth not(truth t)
{
    return t == MAYBE ? MAYBE : !t;
}

static truth test_word(test *r, char op, const char *word)
{
    if (op == 'z') return test_empty(r, word);
    if (op == 'n') return not(test_empty(r, word));
    if (op == 'v') {
        char *bracket = strchr(word, '[');
        const variable *v = shell_find(
            r->sh, bracket ? arena_copy(r->sh->a, word, (size_t)(bracket - word)) : word);
        if (!bracket) return v && v->set;
        for (int i = 0; v && i < v->n; i++) {
            size_t n = strlen(v->items[i].key);
            if (strncmp(bracket + 1, v->items[i].key, n) == 0 && bracket[1 + n] == ']') return YES;
        }
        return NO;
    }
    return MAYBE; /* I2 */
}

/* ---- tests of two */

/* The script's own number of arguments: none are assumed (I3). */
static const char *assume_arguments(test *r, const char *text)
{
    static const char mark[] = {SHELL_MARK, '#', SHELL_MARK_END, 0};
    if (strcmp(text, mark) != 0) return text;
    r->sh->assumed = "#";
    return "0";
}

static truth compare_numbers(test *r, const char *a, const char *op, const char *b)
{
    char *difference;
    a = assume_arguments(r, a);
    b = assume_arguments(r, b);
    slice text = {arena_text(r->sh->a, "(%s)-(%s)", a, b), strlen(a) + strlen(b) + 5, r->sh->line};
    if (!*a || !*b) return NO;
    status s = shell_arithmetic(r->sh, text, &difference);
    if (s) { /* words that are no numbers: the shell says so and goes on with "no" */
        r->sh->err->text[0] = 0;
        return NO;
    }
    if (shell_has_mark(difference)) {
        shell_depends(r->sh, difference);
        return MAYBE;
    }
    long long d = atoll(difference);
    if (strcmp(op, "-eq") == 0) return d == 0;
    if (strcmp(op, "-ne") == 0) return d != 0;
    if (strcmp(op, "-lt") == 0) return d < 0;
    if (strcmp(op, "-le") == 0) return d <= 0;
    if (strcmp(op, "-gt") == 0) return d > 0;
    return d >= 0;
}

static truth test_two(test *r, const char *a, const char *op)
{
    if (op[0] == '-') return compare_numbers(r, a, op, take_word(r, false));
    bool find = strcmp(op, "=~") == 0;
    bool quoted = r->words && r->i < r->n && r->words->items[r->i].n &&
                  strchr("\"'", r->words->items[r->i].s[0]);
    char *b = take_word(r, r->words != NULL && !find);
    if (r->s) return NO;
    if (shell_has_mark(a) || shell_has_mark(b)) {
        shell_depends(r->sh, shell_has_mark(a) ? a : b);
        return MAYBE;
    }
    if (op[0] == '<') return strcmp(a, b) < 0;
    if (op[0] == '>') return strcmp(a, b) > 0;
    /* =~ with a plain text is a search for it; other expressions are not evaluated. */
    if (find && !quoted && b[strcspn(b, "^$.*+?()[]{}|\\")]) return MAYBE;
    r->s = shell_charge_search(r->sh, a, b);
    if (find) return strstr(a, b) != NULL;
    bool same = r->s ? false : r->words ? shell_match(b, a) : strcmp(a, b) == 0;
    return op[0] == '!' ? !same : same;
}

static const char *binary_operator(const test *r)
{
    static const char *const ops[] = {"==",  "=",   "!=",  "=~",  "<",   ">",   "-eq",
                                      "-ne", "-lt", "-le", "-gt", "-ge", "\\<", "\\>"};
    for (int i = 0; i < 14; i++)
        if (at_mark(r, 1, ops[i])) return ops[i][0] == '\\' ? ops[i] + 1 : ops[i];
    return NULL;
}

/* -x word: the letter, or 0. */
static char unary_operator(const test *r)
{
    static const char letters[] = "abcdefghknoprstuvwxzGLNOS";
    if (r->n - r->i < 2) return 0;
    for (const char *c = letters; *c; c++) {
        char op[3] = {'-', *c, 0};
        if (at_mark(r, 0, op)) return *c;
    }
    return 0;
}

static truth test_one(test *r)
{
    if (r->s || r->i >= r->n) return NO;
    if (++r->depth > SHELL_DEPTH_MAX) {
        r->s = shell_fail(r->sh, r->sh->line, "nested too deeply");
        return NO;
    }
    truth t;
    const char *op = binary_operator(r);
    char letter = unary_operator(r);
    if (!op && at_mark(r, 0, "!")) {
        r->i++;
        t = not(test_one(r));
    } else if (!op && at_mark(r, 0, "(")) {
        r->i++;
        t = test_or(r);
        r->i += at_mark(r, 0, ")");
    } else if (op) {
        const char *a = take_word(r, false);
        r->i++;
        t = test_two(r, a, op);
    } else if (letter) {
        r->i++;
        t = test_word(r, letter, take_word(r, false));
    } else {
        t = not(test_empty(r, take_word(r, false)));
    }
    r->depth--;
    return t;
}

static truth test_and(test *r)
{
    truth t = test_one(r);
    while (!r->s && (at_mark(r, 0, "&&") || at_mark(r, 0, "-a"))) {
        r->i++;
        truth b = test_one(r);
        t = t == NO || b == NO ? NO : t == YES && b == YES ? YES : MAYBE;
    }
    return t;
}

static truth test_or(test *r)
{
    truth t = test_and(r);
    while (!r->s && (at_mark(r, 0, "||") || at_mark(r, 0, "-o"))) {
        r->i++;
        truth b = test_and(r);
        t = t == YES || b == YES ? YES : t == NO && b == NO ? NO : MAYBE;
    }
    return t;
}

static status test_all(test *r, truth *out)
{
    *out = r->n ? test_or(r) : NO;
    if (!r->s && r->i < r->n) *out = MAYBE; /* more words than were understood */
    return r->s;
}

status shell_test_words(shell *sh, const slices *words, truth *out)
{
    test r = {.sh = sh, .words = words, .n = words->n};
    return test_all(&r, out);
}

status shell_test_fields(shell *sh, const shell_words *fields, int n, truth *out)
{
    test r = {.sh = sh, .fields = fields, .n = n};
    return test_all(&r, out);
}

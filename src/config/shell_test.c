/* shell_test.c - [ ], [[ ]] and patterns: yes, no, or it depends on what is not known.
 *
 * I1  Files are not looked at: a test of one is MAYBE.
 * I2  -n and -z of a variable that nobody set take it as empty, and $# of the script itself is
 *     compared as 0; sh->assumed says so. */
#include "config/shell_state.h"

#include <stdlib.h>
#include <string.h>

typedef struct reader {
    shell *sh;
    const slices *words;       /* [[ ]], or NULL */
    const shell_words *fields; /* [ ] */
    int i, n, depth;
    status s;
} reader;

static truth either(reader *r);

static void depends(reader *r, const char *text)
{
    if (!r->sh->cause) {
        const char *p = text;
        r->sh->cause = shell_next_mark(r->sh->a, &p);
    }
}

/* ---- words */

/* The next word as it stands there; operators are never quoted. */
static bool is(const reader *r, int at, const char *op)
{
    if (r->i + at >= r->n) return false;
    if (r->words) return shell_slice_is(r->words->items[r->i + at], op);
    return strcmp(r->fields->text[r->i + at], op) == 0;
}

static char *take(reader *r, bool pattern)
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

static status charge_match(shell *sh, const char *a, const char *b)
{
    return shell_charge(sh, strlen(a) * strlen(b) / 16);
}

/* ---- patterns */

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

/* ---- tests of one word */

/* Nobody set the variable: it is empty where nothing else sets it. */
static const char *unset_name(reader *r, const char *text)
{
    const char *p = text;
    if (text[0] != SHELL_MARK || text[1] == '$') return NULL;
    const char *name = shell_next_mark(r->sh->a, &p);
    return name && !*p && strcmp(name, "#") != 0 ? name : NULL;
}

static truth empty(reader *r, const char *text)
{
    if (!*text) r->sh->assumed = ""; /* CONTAINER_IMAGE="" is a blank to fill in: I2 */
    if (!shell_has_mark(text)) return *text ? NO : YES;
    const char *name = unset_name(r, text), *p = text;
    if (name) {
        r->sh->assumed = name; /* I2 */
        return YES;
    }
    for (; *p; p++) { /* what is known of it is enough */
        if (*p == SHELL_MARK)
            while (*p && *p != SHELL_MARK_END) p++;
        else
            return NO;
        if (!*p) break;
    }
    depends(r, text);
    return MAYBE;
}

static truth not(truth t)
{
    return t == MAYBE ? MAYBE : !t;
}

static truth unary(reader *r, char op, const char *word)
{
    if (op == 'z') return empty(r, word);
    if (op == 'n') return not(empty(r, word));
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
    return MAYBE; /* I1 */
}

/* ---- tests of two */

/* The script's own number of arguments: none are assumed (I2). */
static const char *assume_arguments(reader *r, const char *text)
{
    static const char mark[] = {SHELL_MARK, '#', SHELL_MARK_END, 0};
    if (strcmp(text, mark) != 0) return text;
    r->sh->assumed = "#";
    return "0";
}

static truth compare_numbers(reader *r, const char *a, const char *op, const char *b)
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
        depends(r, difference);
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

/* =~ with a plain text is a search for it; other expressions are not evaluated. */
static truth contains(reader *r, const char *a, const char *pattern, bool quoted)
{
    if (!quoted && pattern[strcspn(pattern, "^$.*+?()[]{}|\\")]) return MAYBE;
    r->s = charge_match(r->sh, a, pattern);
    return strstr(a, pattern) != NULL;
}

static truth binary(reader *r, const char *a, const char *op)
{
    if (op[0] == '-') return compare_numbers(r, a, op, take(r, false));
    bool find = strcmp(op, "=~") == 0;
    bool quoted = r->words && r->i < r->n && r->words->items[r->i].n &&
                  strchr("\"'", r->words->items[r->i].s[0]);
    char *b = take(r, r->words != NULL && !find);
    if (r->s) return NO;
    if (shell_has_mark(a) || shell_has_mark(b)) {
        depends(r, shell_has_mark(a) ? a : b);
        return MAYBE;
    }
    if (find) return contains(r, a, b, quoted);
    if (op[0] == '<') return strcmp(a, b) < 0;
    if (op[0] == '>') return strcmp(a, b) > 0;
    r->s = charge_match(r->sh, a, b);
    bool same = r->s ? false : r->words ? shell_match(b, a) : strcmp(a, b) == 0;
    return op[0] == '!' ? !same : same;
}

static const char *binary_operator(const reader *r)
{
    static const char *const ops[] = {"==",  "=",   "!=",  "=~",  "<",   ">",   "-eq",
                                      "-ne", "-lt", "-le", "-gt", "-ge", "\\<", "\\>"};
    for (int i = 0; i < 14; i++)
        if (is(r, 1, ops[i])) return ops[i][0] == '\\' ? ops[i] + 1 : ops[i];
    return NULL;
}

/* -x word: the letter, or 0. */
static char unary_operator(const reader *r)
{
    static const char letters[] = "abcdefghknoprstuvwxzGLNOS";
    if (r->n - r->i < 2) return 0;
    for (const char *c = letters; *c; c++) {
        char op[3] = {'-', *c, 0};
        if (is(r, 0, op)) return *c;
    }
    return 0;
}

static truth primary(reader *r)
{
    if (r->s || r->i >= r->n) return NO;
    if (++r->depth > SHELL_DEPTH_MAX) {
        r->s = shell_fail(r->sh, r->sh->line, "nested too deeply");
        return NO;
    }
    truth t;
    const char *op = binary_operator(r);
    char letter = unary_operator(r);
    if (!op && is(r, 0, "!")) {
        r->i++;
        t = not(primary(r));
    } else if (!op && is(r, 0, "(")) {
        r->i++;
        t = either(r);
        r->i += is(r, 0, ")");
    } else if (op) {
        const char *a = take(r, false);
        r->i++;
        t = binary(r, a, op);
    } else if (letter) {
        r->i++;
        t = unary(r, letter, take(r, false));
    } else {
        t = not(empty(r, take(r, false)));
    }
    r->depth--;
    return t;
}

static truth both(reader *r)
{
    truth t = primary(r);
    while (!r->s && (is(r, 0, "&&") || is(r, 0, "-a"))) {
        r->i++;
        truth b = primary(r);
        t = t == NO || b == NO ? NO : t == YES && b == YES ? YES : MAYBE;
    }
    return t;
}

static truth either(reader *r)
{
    truth t = both(r);
    while (!r->s && (is(r, 0, "||") || is(r, 0, "-o"))) {
        r->i++;
        truth b = both(r);
        t = t == YES || b == YES ? YES : t == NO && b == NO ? NO : MAYBE;
    }
    return t;
}

static status evaluate(reader *r, truth *out)
{
    *out = r->n ? either(r) : NO;
    if (!r->s && r->i < r->n) *out = MAYBE; /* more words than were understood */
    return r->s;
}

status shell_test_words(shell *sh, const slices *words, truth *out)
{
    reader r = {.sh = sh, .words = words, .n = words->n};
    return evaluate(&r, out);
}

status shell_test_fields(shell *sh, const shell_words *fields, int n, truth *out)
{
    reader r = {.sh = sh, .fields = fields, .n = n};
    return evaluate(&r, out);
}

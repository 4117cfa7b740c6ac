/* shell_param.c - $X, ${X:-d} and its relatives, $((...)), $(...).
 *
 * I1  What nobody set gives a mark with its name, never an empty text.
 * I2  No command is run: $(...) gives a mark with what stands in it. */
#include "config/shell_state.h"

#include <stdlib.h>
#include <string.h>

static void one(shell *sh, parameter *out, char *text, int line)
{
    out->fields = (shell_words){0};
    shell_push(sh->a, &out->fields, text, line);
}

/* ---- values of a name */

/* The items of a name: none where it is not set. */
typedef struct found {
    shell_words items;
    bool set, several; /* several: [@], [*], $@, $* */
    bool joined;       /* [*], $*: one word between quotes */
} found;

static void arguments(shell *sh, const char *name, int line, found *f)
{
    const shell_words *args = sh->arguments;
    if (name[0] == '@' || name[0] == '*') {
        f->several = f->set = true;
        f->joined = name[0] == '*';
        for (int i = 0; args && i < args->n; i++) shell_push(sh->a, &f->items, args->text[i], line);
        if (!args)
            shell_note(sh,
                       "%s:%d: the script's own arguments (\"$%s\") are not known: none are "
                       "assumed",
                       sh->name, line, name);
        return;
    }
    if (name[0] == '#') {
        f->set = args != NULL;
        if (args) shell_push(sh->a, &f->items, arena_text(sh->a, "%d", args->n), line);
        return;
    }
    long i = strtol(name, NULL, 10);
    f->set = args && i >= 1 && i <= args->n;
    if (f->set) shell_push(sh->a, &f->items, args->text[i - 1], line);
}

static bool is_argument(const char *name)
{
    return name[0] && (strchr("@*#", name[0]) || (name[0] >= '1' && name[0] <= '9'));
}

static void lookup(shell *sh, const char *name, const char *key, int line, found *f)
{
    *f = (found){0};
    variable *v = shell_find(sh, name);
    if (!v && is_argument(name)) {
        arguments(sh, name, line, f);
        return;
    }
    if (strcmp(name, "0") == 0) {
        f->set = true;
        shell_push(sh->a, &f->items, arena_copy(sh->a, sh->name, strlen(sh->name)), line);
        return;
    }
    if (!v || !v->set) return;
    shell_use(sh, v);
    f->several = key && (strcmp(key, "@") == 0 || strcmp(key, "*") == 0);
    f->set = f->several;
    f->joined = key && strcmp(key, "*") == 0;
    for (int i = 0; i < v->n; i++) {
        if (!f->several && strcmp(v->items[i].key, key ? key : "0") != 0) continue;
        f->set = true;
        const char *text = v->items[i].text;
        shell_push(sh->a, &f->items, arena_copy(sh->a, text, strlen(text)),
                   f->several ? v->items[i].line : line);
    }
}

/* Nothing that can be known is in it: nobody set the variable it came from. */
static bool is_unset_mark(const char *text)
{
    const char *close = strchr(text, SHELL_MARK_END);
    return text[0] == SHELL_MARK && text[1] != '$' && close && close[1] == 0;
}

static bool is_null(const found *f, bool colon)
{
    if (!f->set) return true;
    if (f->items.n == 0) return colon || f->several;
    if (f->items.n > 1) return false;
    return (colon && !f->items.text[0][0]) || is_unset_mark(f->items.text[0]);
}

/* ---- what follows the name */

static status substitute(shell *sh, const char *text, const char *pattern, const char *with,
                         bool all, char **out)
{
    textbuf t = text_init(sh->a);
    size_t n = strlen(pattern);
    bool done = n == 0;
    while (*text) {
        if (!done && strncmp(text, pattern, n) == 0) {
            text_put(&t, with, strlen(with));
            text += n;
            done = !all;
            status s = shell_charge(sh, t.n / 8);
            if (s) return s;
        } else {
            text_put(&t, text++, 1);
        }
    }
    *out = t.s;
    return shell_charge(sh, t.n);
}

/* The shortest or longest part that matches, cut off at the front (#) or the back (%). */
static char *trim(shell *sh, const char *text, const char *pattern, bool front, bool longest)
{
    size_t n = strlen(text), best = 0;
    char *part = arena_copy(sh->a, text, n);
    for (size_t i = 0; i <= n; i++) {
        char kept = part[i];
        if (front) part[i] = 0;
        bool match = shell_match(pattern, front ? part : part + n - i);
        part[i] = kept;
        if (!match) continue;
        best = i;
        if (!longest) break;
    }
    return front ? arena_copy(sh->a, text + best, n - best) : arena_copy(sh->a, text, n - best);
}

static char *in_case(shell *sh, const char *text, char op, bool all)
{
    char *copy = arena_copy(sh->a, text, strlen(text));
    for (char *c = copy; *c; c++) {
        if (op == '^' && *c >= 'a' && *c <= 'z') *c = (char)(*c - 'a' + 'A');
        if (op == ',' && *c >= 'A' && *c <= 'Z') *c = (char)(*c - 'A' + 'a');
        if (!all) break;
    }
    return copy;
}

/* ${X:offset:length} */
static status cut(shell *sh, const char *text, slice rest, char **out)
{
    const char *colon = memchr(rest.s, ':', rest.n);
    slice first = {rest.s, colon ? (size_t)(colon - rest.s) : rest.n, rest.line};
    slice second = {colon ? colon + 1 : NULL, colon ? rest.n - first.n - 1 : 0, rest.line};
    char *from, *count = NULL;
    status s = shell_arithmetic(sh, first, &from);
    if (!s && colon) s = shell_arithmetic(sh, second, &count);
    if (s) return s;
    if (shell_has_mark(from) || (count && shell_has_mark(count))) {
        *out = arena_text(sh->a, "%s%s", from, count ? count : "");
        return OK;
    }
    long long n = (long long)strlen(text), i = atoll(from), len = count ? atoll(count) : n;
    if (i < 0) i = i + n < 0 ? n : i + n;
    if (i > n) i = n;
    if (len < 0) len = n - i + len < 0 ? 0 : n - i + len;
    if (len > n - i) len = n - i;
    *out = arena_copy(sh->a, text + i, (size_t)len);
    return OK;
}

static status edit(shell *sh, char *text, slice op, char **out)
{
    char c = op.s[0];
    bool twice = op.n > 1 && op.s[1] == c;
    slice rest = {op.s + 1 + twice, op.n - 1 - twice, op.line};
    *out = text;
    if (shell_has_mark(text)) return OK; /* I1: what is not known stays so, and marks stay whole */
    if (c == ':') return cut(sh, text, (slice){op.s + 1, op.n - 1, op.line}, out);
    char *pattern;
    if (c == '#' || c == '%') {
        status s = shell_expand_one(sh, rest, true, &pattern);
        if (!s) s = shell_charge(sh, strlen(text) * strlen(text) / 16);
        if (!s) *out = trim(sh, text, pattern, c == '#', twice);
        return s;
    }
    if (c == '^' || c == ',') {
        *out = in_case(sh, text, c, twice);
        return OK;
    }
    if (c != '/') return OK;
    const char *slash = memchr(rest.s, '/', rest.n);
    size_t n = slash ? (size_t)(slash - rest.s) : rest.n;
    char *with = arena_copy(sh->a, "", 0);
    status s = shell_expand_one(sh, (slice){rest.s, n, rest.line}, false, &pattern);
    if (!s && slash)
        s = shell_expand_one(sh, (slice){slash + 1, rest.n - n - 1, rest.line}, false, &with);
    if (!s) s = shell_charge(sh, strlen(text) * strlen(pattern) / 16);
    return s ? s : substitute(sh, text, pattern, with, twice, out);
}

/* :- - := = :+ + :? ? */
static status alternative(shell *sh, const char *name, found *f, slice op, parameter *out)
{
    bool colon = op.s[0] == ':';
    char c = op.s[colon];
    slice word = {op.s + colon + 1, op.n - colon - 1, op.line};
    bool null = is_null(f, colon);
    if (c == '+' ? null : !null) {
        out->fields = f->items;
        out->several = f->several;
        out->joined = f->joined;
        if (c == '+') one(sh, out, arena_copy(sh->a, "", 0), op.line);
        return OK;
    }
    if (c == '?') {
        one(sh, out, shell_mark(sh->a, name), op.line);
        return OK;
    }
    out->fields = (shell_words){0};
    out->several = true; /* ${X:-"${A[@]}"} keeps its fields */
    status s = shell_expand(sh, word, true, &out->fields);
    if (s) return s;
    if (out->fields.n < 2 || c == '=') {
        char *text;
        s = shell_expand_one(sh, word, false, &text);
        if (s) return s;
        one(sh, out, text, op.line);
        out->several = false;
        if (c == '=') s = shell_assign(sh, name, text);
    }
    return s;
}

/* ---- ${...} */

static bool is_alternative(slice op)
{
    size_t i = op.n && op.s[0] == ':';
    return op.n > i && op.s[i] && strchr("-=+?", op.s[i]);
}

/* NAME, NAME[key] or one of @ * # ? 0 1 ...; returns how many bytes. */
static status take_name(shell *sh, slice in, const char **name, char **key, size_t *used)
{
    const char *end = in.s + in.n;
    size_t n = shell_name_length(in.s, end);
    if (n == 0 && in.n && in.s[0] >= '0' && in.s[0] <= '9')
        while (n < in.n && in.s[n] >= '0' && in.s[n] <= '9') n++;
    if (n == 0 && in.n && in.s[0] && strchr("@*#?$!-", in.s[0])) n = 1;
    *name = arena_copy(sh->a, in.s, n);
    *key = NULL;
    *used = n;
    if (n == 0 || in.s + n >= end || in.s[n] != '[') return OK;
    const char *close = memchr(in.s + n, ']', in.n - n);
    if (!close) return OK;
    slice inside = {in.s + n + 1, (size_t)(close - (in.s + n + 1)), in.line};
    *used = (size_t)(close + 1 - in.s);
    return shell_expand_one(sh, inside, false, key);
}

static status braces(shell *sh, slice in, parameter *out)
{
    bool length = in.n > 1 && in.s[0] == '#', indirect = in.n > 1 && in.s[0] == '!';
    size_t skip = length || indirect, used;
    const char *name;
    char *key;
    found f;
    slice inner = {in.s + skip, in.n - skip, in.line};
    status s = take_name(sh, inner, &name, &key, &used);
    if (s) return s;
    if (!name[0]) return shell_fail(sh, in.line, "'${' is not followed by a name");
    lookup(sh, name, key, in.line, &f);
    if (indirect && key) { /* the keys of an array */
        const variable *v = shell_find(sh, name);
        out->several = true;
        for (int i = 0; v && i < v->n; i++)
            shell_push(sh->a, &out->fields,
                       arena_copy(sh->a, v->items[i].key, strlen(v->items[i].key)), in.line);
        return OK;
    }
    if (indirect && f.set && f.items.n == 1 && !shell_has_mark(f.items.text[0])) {
        name = f.items.text[0];
        lookup(sh, name, NULL, in.line, &f);
    }
    if (length) {
        bool known = f.set;
        for (int i = 0; i < f.items.n; i++) known &= !shell_has_mark(f.items.text[i]);
        size_t n = f.several ? (size_t)f.items.n : f.items.n ? strlen(f.items.text[0]) : 0;
        one(sh, out, known ? arena_text(sh->a, "%zu", n) : shell_mark(sh->a, name), in.line);
        return OK;
    }
    slice op = {inner.s + used, inner.n - used, in.line};
    if (is_alternative(op)) return alternative(sh, name, &f, op, out);
    out->fields = f.items;
    out->several = f.several;
    out->joined = f.joined;
    if (!f.set) one(sh, out, shell_mark(sh->a, name), in.line); /* I1 */
    for (int i = 0; i < out->fields.n && op.n && f.set && !s; i++)
        s = edit(sh, out->fields.text[i], op, &out->fields.text[i]);
    return s;
}

/* ---- commands */

static void command(shell *sh, slice in, parameter *out)
{
    textbuf t = text_init(sh->a);
    text_add(&t, "$(");
    bool blank = true;
    for (size_t i = 0; i < in.n && t.n < 60; i++) {
        char c = in.s[i];
        bool white = strchr(" \t\r\n", c) || c == SHELL_MARK || c == SHELL_MARK_END;
        if (!white) text_put(&t, &c, 1);
        if (white && !blank) text_put(&t, " ", 1);
        blank = white;
    }
    text_add(&t, ")");
    one(sh, out, shell_mark(sh->a, t.s), in.line);
}

static status dollar(shell *sh, const char *p, int line, size_t n, parameter *out)
{
    if (p[1] == '{') return braces(sh, (slice){p + 2, n - 3, line}, out);
    bool twice = n > 4 && p[2] == '(' && p[n - 2] == ')';
    if (twice) {
        char *text;
        status s = shell_arithmetic(sh, (slice){p + 3, n - 5, line}, &text);
        if (!s) one(sh, out, text, line);
        return s;
    }
    command(sh, (slice){p + 2, n - 3, line}, out);
    return OK;
}

status shell_parameter(shell *sh, const char *p, const char *end, int line, parameter *out)
{
    *out = (parameter){0};
    if (++sh->depth > SHELL_DEPTH_MAX) return shell_fail(sh, line, "nested too deeply");
    status s = OK;
    size_t n = shell_skip_quoted(p, end, 0);
    if (n && *p == '`') {
        command(sh, (slice){p + 1, n - 2, line}, out);
    } else if (n) {
        s = dollar(sh, p, line, n, out);
    } else {
        size_t name = *p == '$' ? shell_name_length(p + 1, end) : 0;
        if (!name && *p == '$' && p + 1 < end && p[1] && strchr("@*#?$!-0123456789", p[1]))
            name = 1;
        n = 1 + name;
        if (name)
            s = braces(sh, (slice){p + 1, name, line}, out);
        else
            one(sh, out, arena_copy(sh->a, p, 1), line); /* a lone $ means itself */
    }
    out->used = n;
    sh->depth--;
    return s;
}

/* shell_expand.c - what a word becomes: quotes, $X, ${X:-d} and its relatives, splitting.
 *
 * I1  What nobody set gives a mark with its name, never an empty text.
 * I2  No command is run: $(...) gives a mark with what stands in it.
 * I3  Every text that is made is charged, so that a script cannot make too many. */
#include "config/shell_walk.h"

#include <stdlib.h>
#include <string.h>

/* ---- marks of what is not known */

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

char *shell_mark(arena *a, const char *name)
{
    return arena_text(a, "%c%.200s%c", SHELL_MARK, name, SHELL_MARK_END);
}

void shell_depends(shell *sh, const char *text)
{
    if (!sh->cause) sh->cause = shell_next_mark(sh->a, &text);
}

/* ---- values of a name */

/* What $X or ${...} stands for. */
typedef struct parameter {
    shell_words fields;
    bool set;
    bool several; /* "$@" and "${A[@]}": each item a field of its own */
    bool joined;  /* "$*" and "${A[*]}": one field */
} parameter;

static char *copied(shell *sh, const char *text)
{
    return arena_copy(sh->a, text, strlen(text));
}

static void one(shell *sh, parameter *out, char *text, int line)
{
    out->fields = (shell_words){0};
    shell_push(sh->a, &out->fields, text, line);
}

static void arguments(shell *sh, const char *name, int line, parameter *out)
{
    const shell_words *args = sh->arguments;
    if (name[0] == '@' || name[0] == '*') {
        out->several = out->set = true;
        out->joined = name[0] == '*';
        for (int i = 0; args && i < args->n; i++)
            shell_push(sh->a, &out->fields, args->text[i], line);
        if (!args)
            shell_note(sh,
                       "%s:%d: the script's own arguments (\"$%s\") are not known: none are "
                       "assumed",
                       sh->name, line, name);
    } else if (name[0] == '#') {
        out->set = args != NULL;
        if (args) one(sh, out, arena_text(sh->a, "%d", args->n), line);
    } else {
        long i = strtol(name, NULL, 10);
        out->set = args && i >= 1 && i <= args->n;
        if (out->set) one(sh, out, args->text[i - 1], line);
    }
}

/* The items of a name: none where it is not set. */
static void lookup(shell *sh, const char *name, const char *key, int line, parameter *out)
{
    *out = (parameter){0};
    variable *v = shell_find(sh, name);
    if (!v && name[0] && strchr("@*#123456789", name[0])) {
        arguments(sh, name, line, out);
    } else if (strcmp(name, "0") == 0) {
        out->set = true;
        one(sh, out, copied(sh, sh->name), line);
    } else if (v && v->set) {
        shell_use(sh, v);
        out->joined = key && strcmp(key, "*") == 0;
        out->set = out->several = out->joined || (key && strcmp(key, "@") == 0);
        for (int i = 0; i < v->n; i++) {
            const element *e = &v->items[i];
            if (!out->several && strcmp(e->key, key ? key : "0") != 0) continue;
            out->set = true;
            shell_push(sh->a, &out->fields, copied(sh, e->text), out->several ? e->line : line);
        }
    }
}

/* Nothing that can be known is in it: nobody set the variable it came from. */
static bool is_unset_mark(const char *text)
{
    const char *close = strchr(text, SHELL_MARK_END);
    return text[0] == SHELL_MARK && text[1] != '$' && close && close[1] == 0;
}

static bool is_null(const parameter *p, bool colon)
{
    if (!p->set) return true;
    if (p->fields.n == 0) return colon || p->several;
    if (p->fields.n > 1) return false;
    return (colon && !p->fields.text[0][0]) || is_unset_mark(p->fields.text[0]);
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
            TRY(shell_charge(sh, t.n / 8));
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
    char *copy = copied(sh, text);
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
    TRY(shell_arithmetic(sh, first, &from));
    if (colon) TRY(shell_arithmetic(sh, second, &count));
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
        TRY(shell_expand_one(sh, rest, true, &pattern));
        TRY(shell_charge_search(sh, text, text));
        *out = trim(sh, text, pattern, c == '#', twice);
        return OK;
    }
    if (c == '^' || c == ',') {
        *out = in_case(sh, text, c, twice);
        return OK;
    }
    if (c != '/') return OK;
    const char *slash = memchr(rest.s, '/', rest.n);
    size_t n = slash ? (size_t)(slash - rest.s) : rest.n;
    char *with = arena_copy(sh->a, "", 0);
    TRY(shell_expand_one(sh, (slice){rest.s, n, rest.line}, false, &pattern));
    if (slash)
        TRY(shell_expand_one(sh, (slice){slash + 1, rest.n - n - 1, rest.line}, false, &with));
    TRY(shell_charge_search(sh, text, pattern));
    return substitute(sh, text, pattern, with, twice, out);
}

/* :- - := = :+ + :? ?, where *out is what the name alone stands for. */
static status alternative(shell *sh, const char *name, slice op, parameter *out)
{
    bool colon = op.s[0] == ':', null = is_null(out, colon);
    char c = op.s[colon];
    slice word = {op.s + colon + 1, op.n - colon - 1, op.line};
    if (c == '+' ? null : !null) {
        if (c == '+') one(sh, out, copied(sh, ""), op.line);
        return OK;
    }
    *out = (parameter){0};
    if (c == '?') {
        one(sh, out, shell_mark(sh->a, name), op.line);
        return OK;
    }
    out->several = true; /* ${X:-"${A[@]}"} keeps its fields */
    TRY(shell_expand(sh, word, true, &out->fields));
    if ((out->fields.n > 1 && c != '=')) return OK;
    char *text;
    out->several = false;
    TRY(shell_expand_one(sh, word, false, &text));
    one(sh, out, text, op.line);
    return c == '=' ? shell_assign(sh, name, text) : OK;
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
    slice inner = {in.s + skip, in.n - skip, in.line};
    status s = take_name(sh, inner, &name, &key, &used);
    if (s) return s;
    if (!name[0]) return shell_fail(sh, in.line, "'${' is not followed by a name");
    lookup(sh, name, key, in.line, out);
    const shell_words *found = &out->fields;
    if (indirect && key) { /* the keys of an array */
        const variable *v = shell_find(sh, name);
        *out = (parameter){.several = true};
        for (int i = 0; v && i < v->n; i++)
            shell_push(sh->a, &out->fields, copied(sh, v->items[i].key), in.line);
        return OK;
    }
    if (indirect && out->set && found->n == 1 && !shell_has_mark(found->text[0])) {
        name = found->text[0];
        lookup(sh, name, NULL, in.line, out);
    }
    if (length) {
        bool known = out->set;
        for (int i = 0; i < found->n; i++) known &= !shell_has_mark(found->text[i]);
        size_t n = out->several ? (size_t)found->n : found->n ? strlen(found->text[0]) : 0;
        *out = (parameter){0};
        one(sh, out, known ? arena_text(sh->a, "%zu", n) : shell_mark(sh->a, name), in.line);
        return OK;
    }
    slice op = {inner.s + used, inner.n - used, in.line};
    if (is_alternative(op)) return alternative(sh, name, op, out);
    if (!out->set) one(sh, out, shell_mark(sh->a, name), in.line); /* I1 */
    for (int i = 0; i < out->fields.n && op.n && out->set && !s; i++)
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

/* The parameter at p ($X, ${X:-d}, $((1+2)), $(command), `command`), and how many bytes it took. */
static status take_parameter(shell *sh, const char *p, const char *end, int line, parameter *out,
                             size_t *used)
{
    *out = (parameter){0};
    *used = 0;
    if (++sh->depth > SHELL_DEPTH_MAX) return shell_fail(sh, line, "nested too deeply");
    status s = OK;
    size_t n = shell_skip_quoted(p, end, 0);
    if (n && *p == '`') {
        command(sh, (slice){p + 1, n - 2, line}, out);
    } else if (n && p[1] == '{') {
        s = braces(sh, (slice){p + 2, n - 3, line}, out);
    } else if (n > 4 && p[2] == '(' && p[n - 2] == ')') {
        char *text;
        s = shell_arithmetic(sh, (slice){p + 3, n - 5, line}, &text);
        if (!s) one(sh, out, text, line);
    } else if (n) {
        command(sh, (slice){p + 2, n - 3, line}, out);
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
    *used = n;
    sh->depth--;
    return s;
}

/* ---- words */

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
    for (size_t i = 0; i < n; i++) {
        if (m->pattern && s[i] && strchr("*?[]\\", s[i])) text_put(&m->now, "\\", 1);
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

/* Words of an unquoted value; a mark is never split. */
static status put_split(making *m, const char *s)
{
    status st = OK;
    while (*s && !st) {
        size_t n = 0;
        bool in_mark = false;
        for (; s[n] && (in_mark || !strchr(" \t\n", s[n])); n++)
            in_mark = s[n] == SHELL_MARK || (in_mark && s[n] != SHELL_MARK_END);
        if (n) put(m, s, n);
        s += n;
        if (!*s) break;
        s += strspn(s, " \t\n");
        st = end_field(m);
    }
    return st;
}

static status put_parameter(making *m, const char **p, const char *end, bool quoted)
{
    parameter got;
    size_t used;
    status s = take_parameter(m->sh, *p, end, m->line, &got, &used);
    if (s) return s;
    *p += used;
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
            TRY(put_parameter(m, &p, end, true));
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
    TRY(put_word(&m, word.s, word.s + word.n));
    return end_field(&m);
}

status shell_expand_one(shell *sh, slice word, bool pattern, char **out)
{
    shell_words fields = {0};
    making m = {sh, &fields, text_init(sh->a), .pattern = pattern, .line = word.line};
    TRY(put_word(&m, word.s, word.s + word.n));
    *out = m.now.s;
    return shell_charge(sh, m.now.n);
}

status shell_expand_text(shell *sh, slice text, char **out)
{
    shell_words fields = {0};
    making m = {sh, &fields, text_init(sh->a), .line = text.line};
    TRY(put_double(&m, text.s, text.s + text.n));
    *out = m.now.s;
    return shell_charge(sh, m.now.n);
}

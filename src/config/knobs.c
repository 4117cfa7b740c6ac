/* knobs.c - the knob table and what it alone decides: keys, types, spellings, ranges, defaults. */
#include "config/knobs.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

const knob knobs[K_COUNT] = {
#define K(id_, key_, kind_, dflt_, ...)                                                            \
    [K_##id_] = {.id = #id_, .key = (key_), .kind = (kind_), .dflt = (dflt_), __VA_ARGS__},
#include "config/knobs.def"
#undef K
};

int knob_find(const char *key, bool *is_alias)
{
    for (int k = 0; k < K_COUNT; k++) {
        const char *brief = knobs[k].short_name;
        bool own = strcmp(knobs[k].key, key) == 0 || (brief && strcasecmp(brief, key) == 0);
        if (!own && !(knobs[k].alias && text_in(knobs[k].alias, ' ', key))) continue;
        if (is_alias) *is_alias = !own;
        return k;
    }
    return -1;
}

bool knob_is_of(knob_id k, unsigned of)
{
    static const struct {
        const char *section;
        unsigned of;
    } sections[] = {{"dataset.", OF_JOB | OF_EVAL},
                    {"optimizer.", OF_JOB},
                    {"scheduler.", OF_JOB},
                    {"rng.", OF_JOB},
                    {"tokenizer.", OF_EVAL},
                    {"checkpoint.", OF_RUN},
                    {"logger.", OF_RUN}};
    unsigned its = knobs[k].of;
    for (size_t i = 0; i < sizeof sections / sizeof *sections && !its; i++)
        if (text_starts(knobs[k].key, sections[i].section)) its = sections[i].of;
    return (its & of) == of;
}

/* Is every word of `wanted` one of `name`? Words end at underscores. */
static bool holds_words(const char *name, const char *wanted)
{
    for (const char *w = wanted; *w;) {
        size_t n = strcspn(w, "_");
        const char *p = name;
        while (*p && !(strcspn(p, "_") == n && strncmp(p, w, n) == 0)) {
            p += strcspn(p, "_");
            p += *p == '_';
        }
        if (!*p) return false;
        w += n + (w[n] == '_');
    }
    return true;
}

/* The shortest key that has all words of this name: mixed_precision for precision. */
static const char *holding(const char *wanted)
{
    const char *best = NULL;
    size_t fewest = SIZE_MAX;
    for (int k = 0; k < K_COUNT && strlen(wanted) > 2; k++) {
        const char *dot = strrchr(knobs[k].key, '.'), *name = dot ? dot + 1 : knobs[k].key;
        if (!holds_words(name, wanted) || strlen(name) >= fewest) continue;
        fewest = strlen(name);
        best = knobs[k].key;
    }
    return best;
}

/* People forget or mistake the section more often than the name: compare both the whole key and its
 * last part, and prefer the nearer. */
const char *knob_nearest(const char *key)
{
    const char *dot = strrchr(key, '.');
    const char *tail = dot ? dot + 1 : key;
    const char *best = NULL;
    int best_distance = text_near(tail) + 1;
    for (int k = 0; k < K_COUNT; k++) {
        const char *own = strrchr(knobs[k].key, '.');
        own = own ? own + 1 : knobs[k].key;
        int d = text_distance(tail, own);
        if (d > text_near(tail)) continue;
        if (dot && strncmp(key, knobs[k].key, (size_t)(dot - key) + 1) != 0) d++;
        if (!best || d < best_distance) {
            best_distance = d;
            best = knobs[k].key;
        }
    }
    return best ? best : holding(tail);
}

const char *knob_short_word(arena *a, const char *word)
{
    size_t n = strcspn(word, "0123456789");
    int64_t ignored;
    if (!n || n > 8 || !value_size(word + n, &ignored)) return NULL;
    const char *name = arena_copy(a, word, n);
    for (int k = 0; k < K_COUNT; k++)
        if (knobs[k].short_name && strcasecmp(knobs[k].short_name, name) == 0)
            return arena_text(a, "%s=%s", knobs[k].short_name, word + n);
    return NULL;
}

bool knob_is_ours(knob_id k)
{
    return text_starts(knobs[k].key, "moefold.") || text_starts(knobs[k].key, "cluster.");
}

/* ---- spellings */

static bool alike(const char *a, size_t n, const char *b)
{
    if (strlen(b) != n) return false;
    for (size_t i = 0; i < n; i++) {
        char x = a[i] == '-' ? '_' : (char)tolower((unsigned char)a[i]);
        char y = b[i] == '-' ? '_' : (char)tolower((unsigned char)b[i]);
        if (x != y) return false;
    }
    return true;
}

/* The word as the table spells it; unknown words come back as they are. */
static const char *spelled(arena *a, const knob *k, const char *word)
{
    for (const char *p = k->spell; p && *p;) {
        size_t n = strcspn(p, " "), left = strcspn(p, "=");
        if (left < n && alike(p, left, word)) return arena_copy(a, p + left + 1, n - left - 1);
        p += n + strspn(p + n, " ");
    }
    for (const char *p = k->allowed; p && *p;) {
        size_t n = strcspn(p, "|");
        if (alike(p, n, word)) return arena_copy(a, p, n);
        p += n + (p[n] == '|');
    }
    return word;
}

/* ---- types */

static status wrong_type(const knob *k, arena *a, value given, error *err)
{
    static const char *const one[] = {"true or false", "a whole number", "a number", "text",
                                      "one of "};
    static const char *const many[] = {"true or false", "whole numbers", "numbers", "words",
                                       "words of "};
    bool list = k->form == LIST;
    return error_set(err, ERR_INPUT, "%s=%s is %s; %s%s%s is needed", k->key, value_text(a, given),
                     value_kind_name(given.kind), list ? "a list of " : "",
                     list ? many[k->kind] : one[k->kind], k->kind == ENUM ? k->allowed : "");
}

static bool accept_one(arena *a, const knob *k, value given, value *out)
{
    *out = given;
    switch (k->kind) {
    case BOOL:
        return given.kind == V_BOOL;
    case INT:
        out->kind = V_INT;
        return given.kind == V_INT || (given.kind == V_TEXT && value_size(given.text, &out->whole));
    case FLOAT:
        if (given.kind == V_INT) *out = value_of_float((double)given.whole);
        return given.kind == V_INT || given.kind == V_FLOAT;
    case TEXT:
        return given.kind == V_TEXT;
    case ENUM:
        if (given.kind == V_NULL && text_in(k->allowed, '|', "none")) given = value_of_text("none");
        if (given.kind == V_TEXT) *out = value_of_text(spelled(a, k, given.text));
        return given.kind == V_TEXT;
    }
    return false;
}

static value split_at_commas(arena *a, const char *words)
{
    int n = 1;
    for (const char *p = words; *p; p++) n += *p == ',';
    value *items = ARENA_ARRAY(a, value, n);
    for (int i = 0; i < n; i++) {
        size_t len = strcspn(words, ",");
        items[i] = value_of_text(arena_copy(a, words, len));
        words += len + 1;
    }
    return (value){.kind = V_LIST, .list = {items, n}};
}

static bool accept_list(arena *a, const knob *k, value given, value *out)
{
    value *items = ARENA_ARRAY(a, value, given.list.n);
    for (int i = 0; i < given.list.n; i++)
        if (!accept_one(a, k, given.list.items[i], &items[i])) return false;
    *out = (value){.kind = V_LIST, .list = {items, given.list.n}};
    return true;
}

/* Texts end up in scripts, in files of other programs and on terminals: as they are, so they hold
 * nothing that would end a line there or that is no text. */
static bool is_plain(value v)
{
    bool plain = v.kind != V_TEXT || text_is_plain(v.text);
    for (int i = 0; v.kind == V_LIST && i < v.list.n; i++) plain &= is_plain(v.list.items[i]);
    return plain;
}

status knob_accept(arena *a, knob_id id, value given, value *out, error *err)
{
    const knob *k = &knobs[id];
    if (!is_plain(given))
        return error_set(err, ERR_INPUT,
                         "%s=%.300s: holds a control character or bytes that are not UTF-8; leave "
                         "them out",
                         k->key, text_visible(a, value_text(a, given)));
    bool none_is_word = k->kind == ENUM && text_in(k->allowed, '|', "none");
    if (given.kind == V_NULL && !none_is_word) {
        *out = given;
        return OK;
    }
    if (k->form != ONE && k->kind == ENUM && given.kind == V_TEXT && strchr(given.text, ','))
        given = split_at_commas(a, given.text);
    if (given.kind == V_LIST) {
        if (k->form != ONE && accept_list(a, k, given, out)) return OK;
        return wrong_type(k, a, given, err);
    }
    value one;
    if (!accept_one(a, k, given, &one)) return wrong_type(k, a, given, err);
    if (k->form == LIST) {
        value *items = ARENA_NEW(a, value);
        *items = one;
        one = (value){.kind = V_LIST, .list = {items, 1}};
    }
    *out = one;
    return OK;
}

bool knob_is_text(knob_id k)
{
    return knobs[k].kind == TEXT || knobs[k].path;
}

status knob_read(arena *a, knob_id k, const char *s, value *out, error *err)
{
    return knob_is_text(k) ? value_parse_text(a, s, out, err) : value_parse(a, s, out, err);
}

status knob_parse(arena *a, knob_id k, const char *s, value *out, error *err)
{
    value v;
    TRY(knob_read(a, k, s, &v, err));
    return knob_accept(a, k, v, out, err);
}

/* ---- defaults */

value knob_default(arena *a, knob_id id, knob_system system)
{
    const knob *k = &knobs[id];
    const char *s = k->dflt;
    if (system == MEGATRON_LM && k->lm) s = k->lm;
    if (system == MEGATRON_BRIDGE && k->bridge) s = k->bridge;
    value v = {.kind = V_NULL};
    error err;
    if (knob_parse(a, id, s, &v, &err)) abort(); /* tested */
    return v;
}

/* ---- ranges */

bool knob_is_path(const char *word)
{
    return strpbrk(word, "/.") != NULL;
}

/* "1..65536" or "0..". The dots are sought first: a number may end in one. */
static bool number_in_range(const knob *k, double x, double *nearest)
{
    const char *dots = strstr(k->allowed, "..");
    double low = strtod(k->allowed, NULL);
    double high = dots && dots[2] ? strtod(dots + 2, NULL) : x;
    *nearest = x < low ? low : x > high ? high : x;
    return *nearest == x;
}

static bool word_in_range(arena *a, const knob *k, const char *word, value *nearest)
{
    if (text_in(k->allowed, '|', word) || (k->path && knob_is_path(word))) return true;
    const char *words[32];
    int n = 0;
    for (const char *p = k->allowed; *p && n < 32;) {
        size_t len = strcspn(p, "|");
        words[n++] = arena_copy(a, p, len);
        p += len + (p[len] == '|');
    }
    const char *near = text_nearest(word, words, n);
    *nearest = near ? value_of_text(near) : (value){.kind = V_NULL};
    return false;
}

static bool one_in_range(arena *a, const knob *k, value v, value *nearest)
{
    double x;
    *nearest = v;
    if (k->kind == ENUM) return v.kind != V_TEXT || word_in_range(a, k, v.text, nearest);
    if (v.kind == V_INT) {
        if (number_in_range(k, (double)v.whole, &x)) return true;
        *nearest = value_of_int((int64_t)x);
        return false;
    }
    if (v.kind != V_FLOAT || number_in_range(k, v.real, &x)) return true;
    *nearest = value_of_float(x);
    return false;
}

bool knob_in_range(arena *a, knob_id id, value v, value *nearest)
{
    const knob *k = &knobs[id];
    *nearest = v;
    if (!k->allowed || v.kind == V_NULL) return true;
    if (v.kind != V_LIST) return one_in_range(a, k, v, nearest);
    bool all = true;
    value *items = ARENA_ARRAY(a, value, v.list.n);
    int n = 0;
    for (int i = 0; i < v.list.n; i++) {
        all = one_in_range(a, k, v.list.items[i], &items[n]) && all;
        n += items[n].kind != V_NULL;
    }
    *nearest = (value){.kind = V_LIST, .list = {items, n}};
    return all;
}

/* ---- our own runtime; asked for every layout of a search, so nothing is parsed */

bool knob_is_run(knob_id k, value v)
{
    const char *only = knobs[k].only;
    if (!only || v.kind == V_NULL) return true;
    if (v.kind == V_BOOL) return v.flag == text_equal(only, "true");
    if (v.kind == V_LIST) return v.list.n == 0;
    if (v.kind == V_TEXT) return text_equal(only, v.text);
    return strtod(only, NULL) == (v.kind == V_INT ? (double)v.whole : v.real);
}

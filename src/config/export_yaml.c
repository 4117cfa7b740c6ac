/* export_yaml.c - a recipe as a recipe file. */
#include <string.h>

#include "config/export.h"
#include "config/export_parts.h"

/* ---- values */

static void put_escaped(textbuf *t, const char *s)
{
    text_add(t, "\"");
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            text_add(t, "\\%c", c);
        else if (c < ' ' || c == 127)
            text_add(t, "\\x%02x", c);
        else
            text_put(t, s, 1);
    }
    text_add(t, "\"");
}

/* Letters that mean nothing in YAML, at any place; and a word that does not read as something
 * else. */
static bool is_plain(arena *a, const char *s)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789/.+-";
    if (!*s || !strchr(letters, *s) || s[strspn(s, plain)]) return false;
    return export_is_word(a, s);
}

static void put_value(textbuf *t, value v)
{
    if (v.kind == V_TEXT) {
        if (is_plain(t->a, v.text))
            text_add(t, "%s", v.text);
        else
            put_escaped(t, v.text);
    } else if (v.kind == V_LIST) {
        text_add(t, "[");
        for (int i = 0; i < v.list.n; i++) {
            if (i) text_add(t, ", ");
            put_value(t, v.list.items[i]);
        }
        text_add(t, "]");
    } else {
        value_print(t, v);
    }
}

/* ---- lines */

static bool is_written(const recipe *r, knob_id k, bool all)
{
    origin from = r->knob[k].from;
    if (from == FROM_NOTHING) return false;
    if (k == K_VOCAB && from == FROM_DERIVED) return true; /* a list's tokenizer said it */
    if (k == K_GPU) return true;
    return all || from == FROM_MODEL || from == FROM_USER;
}

static void put_reason(textbuf *t, const setting *s)
{
    if (s->from == FROM_USER || !s->why) return;
    text_add(t, "  # ");
    for (const char *p = s->why; *p; p++) text_put(t, (unsigned char)*p < ' ' ? " " : p, 1);
}

static void put_line(textbuf *t, const char *indent, const char *name, const setting *s)
{
    text_add(t, "%s%s: ", indent, name);
    put_value(t, s->v);
    put_reason(t, s);
    text_add(t, "\n");
}

/* ---- sections */

static size_t section_length(knob_id k)
{
    size_t n = strcspn(knobs[k].key, ".");
    return knobs[k].key[n] ? n : 0; /* "mixed_precision" is in none */
}

/* `mixed_precision` holds a word and has knobs below it. YAML has no place for both; so those
 * below are written with their whole key. */
static bool is_knob_too(const char *key, size_t n, arena *a)
{
    return knob_find(arena_copy(a, key, n), NULL) >= 0;
}

/* All that is written of the section of knob k, or the one line if it is in none. */
static void put_section(textbuf *t, const recipe *r, knob_id k, const bool *written)
{
    size_t n = section_length(k);
    if (!n) {
        put_line(t, "", knobs[k].key, &r->knob[k]);
        return;
    }
    bool whole_keys = is_knob_too(knobs[k].key, n, t->a);
    if (!whole_keys) text_add(t, "%.*s:\n", (int)n, knobs[k].key);
    for (int i = (int)k; i < K_COUNT; i++) {
        if (!written[i] || strncmp(knobs[i].key, knobs[k].key, n + 1) != 0) continue;
        put_line(t, whole_keys ? "" : "  ", knobs[i].key + (whole_keys ? 0 : n + 1), &r->knob[i]);
    }
}

static bool section_is_new(knob_id k, const bool *written)
{
    size_t n = section_length(k);
    for (int i = 0; i < (int)k && n; i++)
        if (written[i] && strncmp(knobs[i].key, knobs[k].key, n + 1) == 0) return false;
    return true;
}

static void put_derived(textbuf *t, const recipe *r, const bool *written)
{
    bool begun = false;
    for (int k = 0; k < K_COUNT; k++) {
        if (written[k] || r->knob[k].from != FROM_DERIVED) continue;
        if (!begun) text_add(t, "\n# Derived when this file is read:\n");
        begun = true;
        put_line(t, "#   ", knobs[k].key, &r->knob[k]);
    }
}

void export_yaml(const recipe *given, bool all, textbuf *out)
{
    bool written[K_COUNT];
    recipe *r = ARENA_RAW(out->a, recipe, 1);
    *r = *given;
    recipe_follow_target(r); /* what is written is read as a person's */
    for (int k = 0; k < K_COUNT; k++) written[k] = is_written(r, (knob_id)k, all);
    for (int k = 0; k < K_COUNT; k++)
        if (written[k] && section_is_new((knob_id)k, written))
            put_section(out, r, (knob_id)k, written);
    put_derived(out, r, written);
}

/* recipe.c - settings and their layers.
 *
 * I1  What a person set (FROM_USER) is replaced only by a later layer of the same person.
 * I2  A knob is open (FROM_NOTHING) until somebody fills it; filling states a reason. */
#include "config/recipe.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/yaml.h"
#include "config/bridge_derive.h"
#include "config/blends.h"
#include "config/megatron_table.h"

void recipe_init(recipe *r, arena *a, const char *name)
{
    memset(r, 0, sizeof *r);
    r->a = a;
    r->name = name;
    r->folder = "";
}

void recipe_note(recipe *r, const char *format, ...)
{
    if (r->n_notes == NOTES_MAX) return;
    char buffer[512];
    va_list args;
    va_start(args, format);
    vsnprintf(buffer, sizeof buffer, format, args);
    va_end(args);
    const char *text = text_visible(r->a, buffer);
    r->notes[r->n_notes++] = arena_copy(r->a, text, strlen(text));
}

/* Null reopens a knob unless "none" is what its default says: then null is a choice. */
void recipe_set(recipe *r, knob_id k, value v, const char *why)
{
    bool reopen = v.kind == V_NULL && strcmp(knobs[k].dflt, "null") != 0;
    r->knob[k] = (setting){v, reopen ? FROM_NOTHING : FROM_USER, why};
}

void recipe_set_system(recipe *r, knob_system system, const char *why)
{
    const char *name = system == MEGATRON_LM ? "megatron-lm" : "megatron-bridge";
    recipe_set(r, K_SYSTEM, value_of_text(name), why);
}

static alias_use *alias_slot(recipe *r, knob_id k, const char *key)
{
    for (int i = 0; i < r->n_aliases; i++)
        if (r->aliases[i].knob == k && text_equal(r->aliases[i].key, key)) return &r->aliases[i];
    alias_use *use = &r->aliases[r->n_aliases++];
    *use = (alias_use){.knob = k, .key = key, .alone = r->knob[k].from != FROM_USER};
    return use;
}

/* Null takes an alias back: Bridge writes null into copies that it fills later. */
static void unset_alias(recipe *r, knob_id k, const char *key, const char *why)
{
    for (int i = 0; i < r->n_aliases; i++) {
        alias_use *use = &r->aliases[i];
        if (use->knob != k || !text_equal(use->key, key)) continue;
        if (use->alone) recipe_set(r, k, (value){.kind = V_NULL}, why);
        *use = r->aliases[--r->n_aliases];
        return;
    }
}

static void set_alias(recipe *r, knob_id k, const char *key, value v, const char *why)
{
    if (v.kind == V_NULL) {
        unset_alias(r, k, key, why);
        return;
    }
    if (r->n_aliases == ALIASES_MAX) return;
    alias_use *use = alias_slot(r, k, arena_copy(r->a, key, strlen(key)));
    use->v = v;
    use->why = why;
    if (use->alone) recipe_set(r, k, v, why);
}

static void set_own(recipe *r, knob_id k, value v, const char *why)
{
    for (int i = 0; i < r->n_aliases; i++)
        if (r->aliases[i].knob == k) r->aliases[i].alone = false;
    recipe_set(r, k, v, why);
}

/* Options that set no knob: keys of Megatron-Bridge and, as repairs write them, flags of
 * Megatron-LM. */
static const idle_option *idle_find(const char *name)
{
    return text_starts(name, "--") ? idle_flag_find(name) : idle_key_find(name);
}

const char *recipe_unknown_key(arena *a, const char *key)
{
    bool known = knob_find(key, NULL) >= 0 || idle_find(key) || text_equal(key, BLEND_PER_SPLIT);
    if (known) return NULL;
    const char *near = knob_nearest(key);
    return arena_text(a, "unknown knob '%.200s'%s%s%s", text_visible(a, key),
                      near ? "; the nearest known one is '" : "; `moefold knobs` lists them all",
                      near ? near : "", near ? "'" : "");
}

void recipe_ignore(recipe *r, const idle_option *o, const char *name, const char *text,
                   const char *where)
{
    int n = 0;
    recipe_note(r, "%s: %s: %s", where, name, flag_why_text(o->why));
    for (int i = 0; i < r->n_ignored; i++)
        if (!text_equal(r->ignored[i].name, name)) r->ignored[n++] = r->ignored[i];
    r->n_ignored = n;
    if (idle_is_harmless(o, text) || n == IGNORED_MAX) return;
    r->ignored[r->n_ignored++] =
        (ignored_option){o, arena_copy(r->a, name, strlen(name)),
                         text ? arena_copy(r->a, text, strlen(text)) : NULL, where};
}

status recipe_set_knob(recipe *r, knob_id k, value given, const char *where, error *err)
{
    value v;
    status s = knob_accept(r->a, k, given, &v, err);
    if (s) return error_prefix(err, s, "%s", where);
    set_own(r, k, v, where);
    return OK;
}

status recipe_set_key(recipe *r, const char *key, value given, const char *where, error *err)
{
    bool is_alias = false;
    int k = knob_find(key, &is_alias);
    if (text_equal(key, BLEND_PER_SPLIT)) return blends_set(r, given, where, err);
    if (k == K_DATA_PATH) given = blend_words(r->a, given);
    if (k < 0) {
        const char *unknown = recipe_unknown_key(r->a, key);
        if (unknown) return error_set(err, ERR_INPUT, "%s: %s", where, unknown);
        recipe_ignore(r, idle_find(key), key,
                      given.kind == V_TEXT ? given.text : value_text(r->a, given), where);
        return OK;
    }
    value v;
    if (k == K_PP_LAYOUT) given = bridge_layout(r->a, given);
    if (!is_alias) return recipe_set_knob(r, (knob_id)k, given, where, err);
    status s = knob_accept(r->a, (knob_id)k, given, &v, err);
    if (s) return error_prefix(err, s, "%s", where);
    set_alias(r, (knob_id)k, key, v, where);
    return OK;
}

enum { KEY_LETTERS_MAX = 200 };

/* A key of Megatron-Bridge without effect here, whatever stands below it. */
static bool is_idle(const char *key)
{
    return knob_find(key, NULL) < 0 && idle_find(key);
}

static bool is_section(const char *key)
{
    size_t n = strlen(key);
    for (int k = 0; k < K_COUNT; k++)
        if (strncmp(knobs[k].key, key, n) == 0 && knobs[k].key[n] == '.') return true;
    return bridge_is_section(key);
}

/* `{}` sets nothing. Of a section that is fine; of a knob, or of what nobody knows, it is not what
 * was meant. */
static status no_map(recipe *r, const char *key, const char *where, error *err)
{
    if (knob_find(key, NULL) >= 0)
        return error_set(err, ERR_INPUT, "%s: %.200s={}: is an empty map; a value is needed", where,
                         key);
    return is_section(key) ? OK : recipe_set_key(r, key, (value){.kind = V_NULL}, where, err);
}

/* Where the value of a field ends: before the next comma or brace that is not inside it. */
static const char *field_end(const char *p)
{
    int depth = 0;
    char quote = 0;
    for (; *p; p++) {
        if (quote && *p == '\\' && p[1])
            p++;
        else if (quote)
            quote = *p == quote ? 0 : quote;
        else if (*p == '"' || *p == '\'')
            quote = *p;
        else if (*p == '{' || *p == '[')
            depth++;
        else if (depth && (*p == '}' || *p == ']'))
            depth--;
        else if (!depth && (*p == ',' || *p == '}'))
            break;
    }
    return p;
}

/* Hydra's key={a:1,b:2}: the fields are keys below. A class (_target_) says nothing here. */
static status set_object(recipe *r, const char *key, const char *text, const char *where,
                         error *err)
{
    const char *p = text + 1;
    status s = OK;
    if (strlen(key) > KEY_LETTERS_MAX) /* objects in objects end here, too */
        return error_set(err, ERR_INPUT, "%s: a key of %zu letters", where, strlen(key));
    if (text_equal(text, "{}")) return no_map(r, key, where, err);
    while (*p && *p != '}' && !s) {
        size_t name = strcspn(p, ":,{}");
        if (p[name] != ':') break;
        const char *inner = p + name + 1, *end = field_end(inner);
        if (*p != '_')
            s = recipe_override(
                r, arena_text(r->a, "%s.%.*s=%.*s", key, (int)name, p, (int)(end - inner), inner),
                where, err);
        p = end + (*end == ',');
    }
    if (s || (p[0] == '}' && !p[1])) return s;
    return error_set(err, ERR_INPUT,
                     "%s: %.200s=%.200s is not an object; write key={name:value,...}", where, key,
                     text);
}

status recipe_override(recipe *r, const char *assignment, const char *where, error *err)
{
    const char *p = assignment;
    while (*p == '+') p++;
    const char *equals = strchr(p, '=');
    if (!equals || equals == p)
        return error_set(err, ERR_INPUT, "%s: '%.200s' is not an override; write key=value", where,
                         assignment);
    const char *key = arena_copy(r->a, p, (size_t)(equals - p));
    value v = {.kind = V_NULL};
    int k = knob_find(key, NULL);
    if (equals[1] == '{' && !is_idle(key)) return set_object(r, key, equals + 1, where, err);
    if (k < 0 && !text_equal(key, BLEND_PER_SPLIT))
        return recipe_set_key(r, key, value_of_text(equals + 1), where, err);
    if (k < 0) {
        status read = value_parse(r->a, equals + 1, &v, err);
        return read ? error_prefix(err, read, "%s", where) : blends_set(r, v, where, err);
    }
    if (!equals[1 + strspn(equals + 1, " ")] && knobs[k].kind != TEXT) /* tp=$TP, with no TP */
        return error_set(err, ERR_INPUT, "%s: %.200s= has no value; %.200s=null unsets it", where,
                         key, key);
    status s = knob_read(r->a, (knob_id)k, equals + 1, &v, err);
    if (s) return error_prefix(err, s, "%s: %.200s", where, key);
    v = recipe_located(r, (knob_id)k, v, "");
    return recipe_set_key(r, key, v, where, err);
}

/* ---- YAML */

typedef struct yaml_place {
    recipe *r;
    const char *name; /* of the file */
    error *err;
    textbuf unknown; /* a line for each key that nobody knows */
    int n_unknown;
} yaml_place;

/* Of a knob that holds text (`words`), or of another. */
static status yaml_value(yaml_place *at, const yaml_node *node, bool words, value *out)
{
    if (node->kind == YAML_MAP)
        return error_set(at->err, ERR_INPUT,
                         "%s:%d: a list holds a map; words or numbers are needed", at->name,
                         node->line);
    if (node->kind == YAML_SCALAR) {
        if (node->quoted || words) {
            *out = node->quoted ? value_of_text(node->text) : value_scalar_text(node->text);
            return OK;
        }
        status s = value_scalar(at->r->a, node->text, out, at->err);
        return s ? error_prefix(at->err, s, "%s:%d", at->name, node->line) : OK;
    }
    value *items = ARENA_ARRAY(at->r->a, value, node->n_items);
    for (int i = 0; i < node->n_items; i++) {
        status s = yaml_value(at, node->items[i], words, &items[i]);
        if (s) return s;
    }
    *out = (value){.kind = V_LIST, .list = {items, node->n_items}};
    return OK;
}

/* The value of an option that sets no knob, as far as anybody asks. */
static const char *idle_text(const yaml_node *node)
{
    if (node->kind == YAML_SCALAR) return node->text;
    if (node->kind == YAML_MAP) return node->n_items ? "{...}" : "{}";
    return node->n_items ? "[...]" : "[]";
}

static status yaml_section(yaml_place *at, const yaml_node *map, const char *prefix)
{
    for (int i = 0; i < map->n_items; i++) {
        const yaml_node *node = map->items[i];
        const char *key = arena_text(at->r->a, "%s%s%s", prefix, *prefix ? "." : "", node->key);
        status s;
        if (strlen(key) > KEY_LETTERS_MAX)
            return error_set(at->err, ERR_INPUT, "%s:%d: a key of %zu letters", at->name,
                             node->line, strlen(key));
        for (int j = 0; j < i; j++)
            if (text_equal(map->items[j]->key, node->key))
                return error_set(at->err, ERR_INPUT,
                                 "%s:%d: '%s' is given a second time (first: line %d)", at->name,
                                 node->line, key, map->items[j]->line);
        if (text_equal(node->key, "_target_")) {
            recipe_note(at->r, "%s:%d: %s: a Python class, no effect here", at->name, node->line,
                        key);
            continue;
        }
        if (is_idle(key)) {
            s = recipe_set_key(at->r, key, value_of_text(idle_text(node)),
                               arena_text(at->r->a, "%s:%d", at->name, node->line), at->err);
        } else if (node->kind == YAML_MAP && node->n_items == 0) {
            s = no_map(at->r, key, arena_text(at->r->a, "%s:%d", at->name, node->line), at->err);
        } else if (node->kind == YAML_MAP) {
            s = yaml_section(at, node, key);
        } else {
            value v;
            int k = knob_find(key, NULL);
            s = yaml_value(at, node, k >= 0 && knob_is_text((knob_id)k), &v);
            if (!s && k >= 0)
                v = recipe_located(at->r, (knob_id)k, v, file_folder(at->r->a, at->name));
            if (!s && v.kind == V_NULL && is_section(key) && k < 0) continue;
            const char *unknown = s ? NULL : recipe_unknown_key(at->r->a, key);
            if (unknown) {
                text_add(&at->unknown, "%s%s:%d: %s", at->n_unknown++ ? "\n  " : "", at->name,
                         node->line, unknown);
                continue;
            }
            if (!s)
                s = recipe_set_key(at->r, key, v,
                                   arena_text(at->r->a, "%s:%d", at->name, node->line), at->err);
        }
        if (s) return s;
    }
    return OK;
}

status recipe_parse_yaml(recipe *r, const char *name, const char *data, size_t n, error *err)
{
    yaml_node *root;
    TRY(yaml_parse(r->a, name, data, n, &root, err));
    if (root->kind != YAML_MAP)
        return error_set(err, ERR_INPUT,
                         "%s:%d: a recipe is a map of knobs, such as `model: {...}`", name,
                         root->line);
    yaml_place at = {r, name, err, text_init(r->a), 0};
    TRY(yaml_section(&at, root, ""));
    return at.n_unknown ? error_set(err, ERR_INPUT, "%s", at.unknown.s) : OK;
}

status recipe_read_yaml(recipe *r, const char *path, error *err)
{
    char *data;
    size_t n;
    TRY(file_read(r->a, path, YAML_BYTES_MAX, &data, &n, err));
    r->folder = file_folder(r->a, path);
    return recipe_parse_yaml(r, path, data, n, err);
}

/* ---- filling */

bool recipe_fill_list(recipe *r, knob_id k, value v, origin from, const char *format, va_list args)
{
    if (r->knob[k].from != FROM_NOTHING) return false; /* I1 */
    char buffer[512];
    vsnprintf(buffer, sizeof buffer, format, args);
    r->knob[k] = (setting){v, from, arena_copy(r->a, buffer, strlen(buffer))};
    return true;
}

bool recipe_fill(recipe *r, knob_id k, value v, origin from, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    bool filled = recipe_fill_list(r, k, v, from, format, args);
    va_end(args);
    return filled;
}

void recipe_open(recipe *r, knob_id k)
{
    r->knob[k] = (setting){.from = FROM_NOTHING};
}

void recipe_fill_default(recipe *r, knob_id k)
{
    if (r->knob[k].from != FROM_NOTHING) return;
    bool lm = recipe_is_lm(r);
    r->knob[k] = (setting){knob_default(r->a, k, lm ? MEGATRON_LM : MOEFOLD), FROM_DEFAULT,
                           lm && !knob_is_ours(k) ? "default of Megatron-LM" : "default"};
}

void recipe_fill_defaults(recipe *r)
{
    for (int k = 0; k < K_COUNT; k++) recipe_fill_default(r, (knob_id)k);
}

void recipe_reopen(recipe *out, const recipe *resolved)
{
    *out = *resolved;
    for (int k = 0; k < K_COUNT; k++)
        if (out->knob[k].from <= FROM_DERIVED) out->knob[k] = (setting){.from = FROM_NOTHING};
}

/* ---- reading */

bool recipe_is_lm(const recipe *r)
{
    return recipe_is(r, K_SYSTEM, "megatron-lm");
}

bool recipe_names_separate(const recipe *r)
{
    return recipe_given(r, K_TRAIN_DATA) || recipe_given(r, K_VALID_DATA) ||
           recipe_given(r, K_TEST_DATA) || recipe_given(r, K_SPLIT_ARGS);
}

bool recipe_names_data(const recipe *r)
{
    return recipe_given(r, K_DATA_PATH) || recipe_given(r, K_DATA_ARGS) || recipe_names_separate(r);
}

const char *recipe_shown(const recipe *r, knob_id k, arena *a)
{
    return value_text(a, r->knob[k].v);
}

const setting *recipe_out_of_range(const recipe *r, knob_id k, arena *a, value *near)
{
    return knob_in_range(a, k, r->knob[k].v, near) ? NULL : &r->knob[k];
}

bool recipe_changes(const recipe *r, knob_id k, value v)
{
    const setting *now = &r->knob[k];
    if (v.kind != V_NULL) return !value_equal(v, now->v);
    return now->from == FROM_USER ||
           (now->from == FROM_MODEL && now->v.kind != V_NULL && text_equal(knobs[k].dflt, "null"));
}

bool recipe_agrees(const recipe *r, const alias_use *use)
{
    return value_equal(use->v, r->knob[use->knob].v);
}

double recipe_real(const recipe *r, knob_id k)
{
    value v = r->knob[k].v;
    return v.kind == V_FLOAT ? v.real : v.kind == V_INT ? (double)v.whole : 0.0;
}

const char *recipe_word(const recipe *r, knob_id k)
{
    return r->knob[k].v.kind == V_TEXT ? r->knob[k].v.text : NULL;
}

bool recipe_is(const recipe *r, knob_id k, const char *word)
{
    return text_equal(recipe_word(r, k), word);
}

int recipe_count(const recipe *r, knob_id k)
{
    value v = r->knob[k].v;
    return v.kind == V_LIST ? v.list.n : v.kind != V_NULL;
}

value recipe_item(const recipe *r, knob_id k, int i)
{
    value v = r->knob[k].v;
    return v.kind == V_LIST ? v.list.items[i] : v;
}

bool recipe_has(const recipe *r, knob_id k, const char *word)
{
    for (int i = 0; i < recipe_count(r, k); i++) {
        value v = recipe_item(r, k, i);
        if (v.kind == V_TEXT && strcmp(v.text, word) == 0) return true;
    }
    return false;
}

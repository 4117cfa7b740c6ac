/* fields.c - JSON, its schema and its documentation, from tables of fields. */
#include "base/fields.h"

#include <string.h>

/* ---- JSON */

static void put(json_t *o, const field *rows, const void *it);

static int64_t count_of(const field *f, const char *it)
{
    return f->n_size == sizeof(int64_t) ? *(const int64_t *)(it + f->n_at)
                                        : *(const int *)(it + f->n_at);
}

static json_t *texts_of(const char *const *list)
{
    json_t *out = json_array();
    for (; list && *list; list++) json_array_append_new(out, json_string(*list));
    return out;
}

static bool is_list(const field *f)
{
    return f->n_size > 0;
}

/* NULL: it is empty. */
static json_t *value_of(const field *f, const char *it)
{
    const void *at = it + f->at;
    switch (f->kind) {
    case FIELD_BOOL:
        return json_boolean(*(const bool *)at);
    case FIELD_MAYBE:
        return *(const signed char *)at < 0 ? NULL : json_boolean(*(const signed char *)at);
    case FIELD_INT:
        return json_integer(*(const int *)at);
    case FIELD_INT64:
        return *(const int64_t *)at == FIELD_NONE ? NULL : json_integer(*(const int64_t *)at);
    case FIELD_REAL:
        return isfinite(*(const double *)at) ? json_real(*(const double *)at) : NULL;
    case FIELD_TEXT:
        return *(const char *const *)at ? json_string(*(const char *const *)at) : NULL;
    case FIELD_TEXTS: {
        const char *const *list = *(const char *const *const *)at;
        return list || f->need == ALWAYS ? texts_of(list) : NULL;
    }
    case FIELD_TEXT_LISTS: {
        const char *const *const *list = *(const char *const *const *const *)at;
        json_t *out = json_array();
        for (; list && *list; list++) json_array_append_new(out, texts_of(*list));
        return out;
    }
    case FIELD_PAIR:
        return json_pack("[f, f]", ((const double *)at)[0], ((const double *)at)[1]);
    case FIELD_REALS: {
        json_t *out = json_array();
        for (int64_t i = 0; i < count_of(f, it); i++) {
            double x = (*(const double *const *)at)[i];
            json_array_append_new(out, isfinite(x) ? json_real(x) : json_null());
        }
        return out;
    }
    case FIELD_INTS: {
        json_t *out = json_array();
        for (int64_t i = 0; i < count_of(f, it); i++)
            json_array_append_new(out, json_integer((*(const int64_t *const *)at)[i]));
        return out;
    }
    case FIELD_JSON:
        return *(json_t *const *)at;
    case FIELD_PART:
        return *(const void *const *)at ? fields_json(f->of(), *(const void *const *)at) : NULL;
    case FIELD_LIST: {
        const char *items = *(const char *const *)at;
        if (!items && f->need != ALWAYS) return NULL;
        return fields_list(f->of(), items, f->size, count_of(f, it));
    }
    case FIELD_POINTERS: {
        const void *const *items = *(const void *const *const *)at;
        json_t *out = json_array();
        for (int64_t i = 0; i < count_of(f, it); i++)
            json_array_append_new(out, items[i] ? fields_json(f->of(), items[i]) : json_null());
        return out;
    }
    case FIELD_MAP:
    case FIELD_JOINED: { /* a map: put() asks for no joined part */
        const char *items = *(const char *const *)at;
        if (!items && f->need != ALWAYS) return NULL;
        json_t *out = json_object();
        const field *key = f->of() + 1;
        for (int64_t i = 0; i < count_of(f, it); i++) {
            const char *x = items + (size_t)i * f->size;
            json_t *value = key[2].key ? json_object() : value_of(key + 1, x);
            if (key[2].key) put(value, key, x);
            json_object_set_new(out, *(const char *const *)(x + key->at),
                                value ? value : json_null());
        }
        return out;
    }
    case FIELD_KINDS:
        break;
    }
    return NULL;
}

/* All rows but the first, which is a head or a map's key. */
static void put(json_t *o, const field *rows, const void *it)
{
    for (const field *f = rows + 1; f->key; f++) {
        if (f->kind == FIELD_JOINED && !is_list(f)) {
            const void *part = *(const void *const *)((const char *)it + f->at);
            if (part) put(o, f->of(), part);
            continue;
        }
        json_t *value = value_of(f, it);
        if (f->kind == FIELD_JOINED) {
            json_object_update(o, value);
            json_decref(value);
        } else if (value || f->need != OPTIONAL) {
            json_object_set_new(o, f->key, value ? value : json_null());
        }
    }
}

json_t *fields_json(const field *table, const void *it)
{
    json_t *o = json_object();
    put(o, table, it);
    return o;
}

json_t *fields_list(const field *table, const void *items, size_t size, int64_t n)
{
    json_t *out = json_array();
    for (int64_t i = 0; i < n; i++)
        json_array_append_new(out, fields_json(table, (const char *)items + (size_t)i * size));
    return out;
}

/* ---- schema */

static json_t *any_of(json_t *x)
{
    return json_pack("{s:[o, {s:s}]}", "anyOf", x, "type", "null");
}

static json_t *schema_of(json_t *done, const field *f);

static void add_rows(json_t *done, json_t *o, const field *rows, bool joined);

static json_t *object_of(json_t *done, const field *rows)
{
    json_t *o = json_pack("{s:s, s:{}, s:[], s:b}", "type", "object", "properties", "required",
                          "additionalProperties", false);
    add_rows(done, o, rows, false);
    return o;
}

/* What a map holds. */
static json_t *held_by(json_t *done, const field *key)
{
    return key[2].key ? object_of(done, key) : schema_of(done, key + 1);
}

static void add_rows(json_t *done, json_t *o, const field *rows, bool joined)
{
    json_t *properties = json_object_get(o, "properties"),
           *required = json_object_get(o, "required");
    for (const field *f = rows + 1; f->key; f++) {
        if (f->kind == FIELD_JOINED && is_list(f))
            json_object_set_new(o, "additionalProperties", held_by(done, f->of() + 1));
        else if (f->kind == FIELD_JOINED)
            add_rows(done, o, f->of(), joined || f->need == OPTIONAL);
        else
            json_object_set_new(properties, f->key, schema_of(done, f));
        if (f->kind != FIELD_JOINED && f->need != OPTIONAL && !joined)
            json_array_append_new(required, json_string(f->key));
    }
}

static json_t *schema_of(json_t *done, const field *f)
{
    static const char *const types[FIELD_KINDS] = {
        [FIELD_BOOL] = "boolean",  [FIELD_MAYBE] = "boolean", [FIELD_INT] = "integer",
        [FIELD_INT64] = "integer", [FIELD_REAL] = "number",   [FIELD_TEXT] = "string"};
    json_t *x;
    if (types[f->kind])
        x = json_pack("{s:s}", "type", types[f->kind]);
    else if (f->kind == FIELD_TEXTS)
        x = json_pack("{s:s, s:{s:s}}", "type", "array", "items", "type", "string");
    else if (f->kind == FIELD_TEXT_LISTS)
        x = json_pack("{s:s, s:{s:s, s:{s:s}}}", "type", "array", "items", "type", "array", "items",
                      "type", "string");
    else if (f->kind == FIELD_PAIR)
        x = json_pack("{s:s, s:{s:s}}", "type", "array", "items", "type", "number");
    else if (f->kind == FIELD_INTS)
        x = json_pack("{s:s, s:{s:s}}", "type", "array", "items", "type", "integer");
    else if (f->kind == FIELD_REALS)
        x = json_pack("{s:s, s:o}", "type", "array", "items",
                      any_of(json_pack("{s:s}", "type", "number")));
    else if (f->kind == FIELD_PART)
        x = fields_reference(done, f->of());
    else if (f->kind == FIELD_LIST)
        x = json_pack("{s:s, s:o}", "type", "array", "items", fields_reference(done, f->of()));
    else if (f->kind == FIELD_POINTERS)
        x = json_pack("{s:s, s:o}", "type", "array", "items",
                      any_of(fields_reference(done, f->of())));
    else if (f->kind == FIELD_MAP)
        x = json_pack("{s:s, s:o}", "type", "object", "additionalProperties",
                      held_by(done, f->of() + 1));
    else
        x = *f->unit ? json_pack("{s:s}", "type", f->unit) : json_object();
    if (f->need == NULLABLE) x = any_of(x);
    if (*f->words) json_object_set_new(x, "description", json_string(f->words));
    if (*f->unit && f->kind != FIELD_JSON) json_object_set_new(x, "unit", json_string(f->unit));
    return x;
}

json_t *fields_reference(json_t *done, const field *table)
{
    arena *a = arena_create();
    if (!json_object_get(done, table->key)) {
        json_object_set_new(done, table->key, json_object()); /* its place; it may hold itself */
        json_object_set_new(done, table->key, object_of(done, table));
    }
    json_t *x = json_pack("{s:s}", "$ref", arena_text(a, "#/$defs/%s", table->key));
    arena_destroy(a);
    return x;
}

/* ---- documentation */

static const char *type_of(const field *f)
{
    static const char *const types[FIELD_KINDS] = {
        [FIELD_BOOL] = "bool",         [FIELD_MAYBE] = "bool",
        [FIELD_INT] = "number",        [FIELD_INT64] = "number",
        [FIELD_REAL] = "number",       [FIELD_TEXT] = "text",
        [FIELD_TEXTS] = "texts",       [FIELD_TEXT_LISTS] = "lists of texts",
        [FIELD_PART] = "object",       [FIELD_PAIR] = "two numbers",
        [FIELD_REALS] = "numbers",     [FIELD_INTS] = "numbers",
        [FIELD_LIST] = "objects",      [FIELD_POINTERS] = "objects or nulls",
        [FIELD_MAP] = "{name: value}", [FIELD_JOINED] = "by name"};
    return f->kind == FIELD_JSON ? f->unit : types[f->kind];
}

static void add_row(textbuf *out, const field *f, const char *prefix, bool joined)
{
    static const char *const needs[] = {"", " or null", " or missing"};
    const char *of = f->kind == FIELD_JSON ? "" : f->of ? f->of()->unit : f->unit;
    const char *missing = joined && f->need != OPTIONAL ? needs[OPTIONAL] : "";
    text_add(out, "| `%s%s` | %s%s%s%s%s | %s |\n", prefix, f->kind == FIELD_JOINED ? "*" : f->key,
             type_of(f), needs[f->need], missing, *of ? f->of ? ": " : ", " : "", of, f->words);
}

/* A table with a title has its own place; rows of others stand where they are used. `joined`: all
 * of it may be missing. */
static void add_table(textbuf *out, const field *table, const char *prefix, bool joined)
{
    for (const field *f = table + 1; f->key; f++) {
        bool among = f->kind == FIELD_JOINED && !is_list(f);
        bool map = f->kind == FIELD_MAP || (f->kind == FIELD_JOINED && is_list(f));
        if (!among) add_row(out, f, prefix, joined);
        const field *of = f->of ? f->of() : NULL;
        if (!of || *of->unit || (map && !of[3].key)) continue;
        const char *mark = f->kind == FIELD_PART ? "" : map ? "{}" : "[]";
        add_table(out, map ? of + 1 : of,
                  among ? prefix : arena_text(out->a, "%s%s%s.", prefix, f->key, mark),
                  among && (joined || f->need == OPTIONAL));
    }
}

void fields_rows(textbuf *out, const field *table)
{
    add_table(out, table, "", false);
}

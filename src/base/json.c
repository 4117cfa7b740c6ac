/* json.c - JSON through jansson. */
#include "base/json.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"

/* Escapes (\u001b) can stand for what no text holds. */
static bool is_plain(const char *s, size_t n)
{
    for (size_t i = 0, length; i < n; i += length)
        if ((length = text_character(s + i, n - i)) == 0) return false;
    return true;
}

static bool is_text(json_t *v)
{
    const char *key;
    json_t *part;
    size_t i;
    if (json_is_string(v)) return is_plain(json_string_value(v), json_string_length(v));
    json_array_foreach(v, i, part) if (!is_text(part)) return false;
    json_object_foreach(v, key,
                        part) if (!is_plain(key, strlen(key)) || !is_text(part)) return false;
    return true;
}

json_t *json_line(const char *data, size_t n, size_t flags)
{
    json_t *o = json_loadb(data, n, flags, NULL);
    if (!o || is_text(o)) return o;
    json_decref(o);
    return NULL;
}

static status load(const char *name, const char *data, size_t n, json_t **root, error *err)
{
    static const char mark[] = "\xef\xbb\xbf"; /* of UTF-8: what editors on Windows put first */
    json_error_t e;
    if (n >= sizeof mark - 1 && memcmp(data, mark, sizeof mark - 1) == 0) {
        data += sizeof mark - 1;
        n -= sizeof mark - 1;
    }
    if (n == 0) return error_set(err, ERR_INPUT, "%s:1:1: the file is empty; JSON is needed", name);
    *root = json_loadb(data, n, JSON_REJECT_DUPLICATES, &e);
    if (*root) return OK;
    return error_set(err, ERR_INPUT, "%s:%d:%d: %s", name, e.line, e.column, e.text);
}

status json_parse(const char *name, const char *data, size_t n, json_t **root, error *err)
{
    TRY(load(name, data, n, root, err));
    if (is_text(*root)) return OK;
    json_decref(*root);
    *root = NULL;
    return error_set(err, ERR_INPUT, "%s: a string in it holds a control character", name);
}

static status read_by(const char *path, json_t **root, error *err,
                      status (*parse)(const char *, const char *, size_t, json_t **, error *))
{
    arena *a = arena_create();
    char *data;
    size_t n;
    status s = file_read(a, path, JSON_BYTES_MAX, &data, &n, err);
    if (!s) s = parse(path, data, n, root, err);
    arena_destroy(a);
    return s;
}

status json_read(const char *path, json_t **root, error *err)
{
    return read_by(path, root, err, json_parse);
}

status json_read_tokens(const char *path, json_t **root, error *err)
{
    return read_by(path, root, err, load);
}

/* ---- writing */

static _Atomic(const char *) missing;

const char *json_missing(void)
{
    return atomic_load(&missing);
}

json_t *json_text(const char *s)
{
    json_t *o = json_stringn(s, s ? strlen(s) : 0);
    if (o || !s) return o;
    arena *a = arena_create();
    o = json_stringn_nocheck(text_visible(a, s), strlen(text_visible(a, s)));
    arena_destroy(a);
    return o;
}

json_t *json_packed(const char *format, ...)
{
    json_error_t e;
    va_list args;
    va_start(args, format);
    json_t *o = json_vpack_ex(&e, 0, format, args);
    va_end(args);
    if (!o) atomic_store(&missing, "a text in it is not UTF-8, or a number is not finite");
    return o;
}

status json_print(arena *a, const char *what, const json_t *root, size_t flags, const char **out,
                  error *err)
{
    char *text = root && !json_missing() ? json_dumps(root, flags) : NULL;
    *out = text ? arena_copy(a, text, strlen(text)) : "";
    free(text);
    if (*out && **out) return OK;
    return error_set(err, ERR_MACHINE, "%s: its JSON cannot be made: %s", what,
                     json_missing() ? json_missing() : "no memory");
}

/* ---- writing as Python does */

static void add_value(textbuf *t, const json_t *v, int depth);

static void add_scalar(textbuf *t, const json_t *v)
{
    char *text = json_dumps(v, JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
    if (json_is_real(v))
        text_real(t, json_real_value(v));
    else
        text_add(t, "%s", text ? text : "null");
    free(text);
}

static void add_line(textbuf *t, int i, int depth)
{
    text_add(t, "%s\n%*s", i ? "," : "", 2 * depth, "");
}

static void add_array(textbuf *t, const json_t *v, int depth)
{
    text_add(t, "[");
    for (size_t i = 0; i < json_array_size(v); i++) {
        add_line(t, i > 0, depth + 1);
        add_value(t, json_array_get(v, i), depth + 1);
    }
    if (json_array_size(v)) add_line(t, 0, depth);
    text_add(t, "]");
}

static void add_object(textbuf *t, const json_t *v, int depth)
{
    const char *key;
    json_t *item, *map = json_incref((json_t *)(uintptr_t)v);
    int i = 0;
    text_add(t, "{");
    json_object_foreach(map, key, item)
    {
        json_t *name = json_string(key);
        add_line(t, i++, depth + 1);
        add_scalar(t, name);
        text_add(t, ": ");
        add_value(t, item, depth + 1);
        json_decref(name);
    }
    if (i) add_line(t, 0, depth);
    text_add(t, "}");
    json_decref(map);
}

static void add_value(textbuf *t, const json_t *v, int depth)
{
    if (json_is_array(v))
        add_array(t, v, depth);
    else if (json_is_object(v))
        add_object(t, v, depth);
    else
        add_scalar(t, v);
}

const char *json_indented(arena *a, const json_t *v)
{
    textbuf t = text_init(a);
    add_value(&t, v, 0);
    return t.s;
}

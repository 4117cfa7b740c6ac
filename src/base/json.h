/* json.h - JSON through jansson, with the file, line and column in every message.
 *
 * jansson makes nothing (NULL) of text that is not UTF-8, and drops a member that is nothing
 * without a word. So its makers of texts go by other names here: one escapes what is not UTF-8, and
 * what the other cannot make is remembered and told in the end (json_missing). */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <jansson.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/status.h"

enum { JSON_BYTES_MAX = 64 << 20 };

/* The caller gives the result back with json_decref. Duplicate keys and strings with control
 * characters are refused. */
status json_parse(const char *name, const char *data, size_t n, json_t **root, error *err);
status json_read(const char *path, json_t **root, error *err);

/* A tokenizer's file: its tokens hold every character. */
status json_read_tokens(const char *path, json_t **root, error *err);

/* What jansson is to write. */
json_t *json_text(const char *s);
json_t *json_packed(const char *format, ...);
#define json_string json_text
#define json_pack   json_packed

/* Why something that was to be printed could not be made, or NULL: what was printed lacks it. */
const char *json_missing(void);

/* The text of a value, in the arena; or an error, also where a part of it could not be made. `what`
 * names the file in the message. */
status json_print(arena *a, const char *what, const json_t *root, size_t flags, const char **out,
                  error *err);

/* One line of a file of lines; NULL: not JSON, or with what no text has. */
json_t *json_line(const char *data, size_t n, size_t flags);

/* As Python's json.dumps with indent=2: numbers in their shortest form, ASCII alone. */
const char *json_indented(arena *a, const json_t *v);

#endif

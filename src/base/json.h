/* json.h - JSON through jansson, with the file, line and column in every message. */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <jansson.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/status.h"

enum { JSON_BYTES_MAX = 64 << 20 };

/* The caller gives the result back with json_decref. Duplicate keys are refused. */
status json_parse(const char *name, const char *data, size_t n, json_t **root, error *err);
status json_read(const char *path, json_t **root, error *err);

#endif

/* json.c - JSON through jansson. */
#include "base/json.h"

#include <string.h>

#include "base/file.h"

status json_parse(const char *name, const char *data, size_t n, json_t **root, error *err)
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

status json_read(const char *path, json_t **root, error *err)
{
    arena *a = arena_create();
    char *data;
    size_t n;
    status s = file_read(a, path, JSON_BYTES_MAX, &data, &n, err);
    if (!s) s = json_parse(path, data, n, root, err);
    arena_destroy(a);
    return s;
}

/* gzip.h - files in gzip's format, through zlib. */
#ifndef BASE_GZIP_H
#define BASE_GZIP_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/status.h"

/* Does it start like one? */
bool gzip_is(const char *data, size_t n);

/* Packs and unpacks in memory. `name` is for messages; the result ends with a 0 that is not
 * counted. Unpacked text of more than `limit` bytes is refused: a small file may hold any length.
 * ERR_INPUT: damaged or cut short. */
status gzip_pack(arena *a, const char *data, size_t n, char **out, size_t *out_n, error *err);
typedef struct gzip_text {
    const char *name, *data;
    size_t n, limit;
} gzip_text;
status gzip_unpack(arena *a, const gzip_text *in, char **out, size_t *out_n, error *err);

#endif

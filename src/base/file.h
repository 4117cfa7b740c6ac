/* file.h - reading whole files, with a limit, and saying why not. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/status.h"

/* Reads at most `limit` bytes; a larger file is refused. The text ends with a 0 that is not
 * counted. */
status file_read(arena *a, const char *path, size_t limit, char **data, size_t *n, error *err);

bool file_exists(const char *path);
bool file_is_folder(const char *path);

/* The folder of a path with its final slash, or "" */
const char *file_folder(arena *a, const char *path);

#endif

/* file.h - reading and writing whole files, and saying why not. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/status.h"

/* Reads at most `limit` bytes; a larger file is refused. The text ends with a 0 that is not
 * counted. */
status file_read(arena *a, const char *path, size_t limit, char **data, size_t *n, error *err);

/* Writes beside it and puts it in its place: who looks finds the old text or the new one, whole,
 * whenever this ends. What is there and no plain file (a device, a pipe) is written to. */
status file_write(const char *path, const char *data, size_t n, error *err);

/* Why a file could not be written, by errno: the system's words, and what to do where they do not
 * say it. */
const char *file_why(void);

bool file_exists(const char *path);
bool file_is_folder(const char *path);

/* Makes a folder and those above it; one that is there is fine. ERR_INPUT: the system's reason. */
status file_make_folder(const char *path, error *err);

/* The file or folder beside a missing path whose name is nearest, as a path; NULL: none is near. */
const char *file_nearest(arena *a, const char *path);

/* All of the standard input, as file_read. */
status file_read_input(arena *a, size_t limit, char **data, size_t *n, error *err);

/* The folder of a path with its final slash, or "" */
const char *file_folder(arena *a, const char *path);

#endif

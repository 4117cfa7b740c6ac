/* file.h - reading and writing whole files, and saying why not. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/status.h"

/* Opens a file to read it: nothing but a plain file, because a pipe without a writer or a device
 * would hold us up for ever. What a message says of another kind: "a folder", "a pipe". */
status file_open(const char *path, int *fd, error *err);

/* The same, for a file that is read from its beginning to its end; the pipe that a shell puts there
 * (/dev/stdin, /dev/fd/N of `<(command)`) is taken, too: its writer is running. */
status file_open_stream(const char *path, FILE **f, error *err);

/* Reads at most `limit` bytes of a file or of a shell's pipe; a larger file is refused. The text
 * ends with a 0 that is not counted. */
status file_read(arena *a, const char *path, size_t limit, char **data, size_t *n, error *err);

/* Writes beside it and puts it in its place: who looks finds the old text or the new one, whole,
 * whenever this ends. What is there and no plain file (a device, a pipe) is written to. */
status file_write(const char *path, const char *data, size_t n, error *err);

/* Why a file could not be written, by errno: the system's words, and what to do where they do not
 * say it. */
const char *file_why(void);

bool file_exists(const char *path);
bool file_is_folder(const char *path);

/* What stands at a path. FILE_NONE: certainly nothing. A path that cannot be looked at (a stale
 * handle of a network's file system, no rights) is ERR_MACHINE: it may hold anything. */
typedef enum file_kind { FILE_NONE, FILE_FOLDER, FILE_OTHER } file_kind;
status file_look(const char *path, file_kind *kind, error *err);

bool file_is_plain(const char *path); /* there, and neither a folder, a pipe nor a device */

/* Makes a folder and those above it; one that is there is fine. ERR_INPUT: the system's reason. */
status file_make_folder(const char *path, error *err);

/* The file or folder beside a missing path whose name is nearest, as a path; NULL: none is near. */
const char *file_nearest(arena *a, const char *path);

/* All of the standard input, as file_read. */
status file_read_input(arena *a, size_t limit, char **data, size_t *n, error *err);

/* The folder of a path with its final slash, or "" */
const char *file_folder(arena *a, const char *path);

#endif

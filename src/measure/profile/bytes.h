/* bytes.h - a file or a text, packed by gzip or not, one byte after another. Internal to
 * src/measure/profile: profiles have gigabytes when they are unpacked, and are never held whole. */
#ifndef MEASURE_PROFILE_BYTES_H
#define MEASURE_PROFILE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct bytes bytes;

/* ERR_INPUT: there is no such file, or it cannot be read. */
status bytes_open(bytes **out, const char *path, error *err);
status bytes_open_text(bytes **out, const char *name, const char *data, size_t n, error *err);
void bytes_close(bytes *b);

/* The next byte, taken or not; -1 at the end, or where reading failed (bytes_failed). */
int bytes_next(bytes *b);
int bytes_peek(bytes *b);

/* The byte behind the next one, where it has been read already; else -1. */
int bytes_peek_behind(const bytes *b);

/* How many were taken. */
int64_t bytes_at(const bytes *b);

/* ERR_INPUT: why reading ended too early (damaged gzip, an error of the disk). */
status bytes_failed(const bytes *b, error *err);

#endif

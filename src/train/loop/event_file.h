/* event_file.h - numbers of a run for TensorBoard (logger.tensorboard_dir).
 *
 * A file is a row of records; a record is its length, a checksum of the length, an Event of
 * TensorFlow's event.proto, and a checksum of that. Every file begins with its version. Events here
 * are scalars: a tag, a step, a time and a number. TensorBoard shows all files of a folder as one
 * run, so a run that resumes begins a file of its own. */
#ifndef TRAIN_LOOP_EVENT_FILE_H
#define TRAIN_LOOP_EVENT_FILE_H

#include <stdint.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/status.h"

typedef struct event_file {
    FILE *file;       /* NULL: closed */
    const char *path; /* of the caller's arena */
} event_file;

/* Makes the folder, its parents and a file in it that nobody has. ERR_INPUT: it cannot be. */
status event_file_open(event_file *f, const char *folder, arena *a, error *err);

typedef struct event_scalar {
    const char *tag;
    double value; /* written as float, as TensorBoard has it */
} event_scalar;

/* One event. It is with the system when this returns. `when`: seconds of the calendar's clock. */
status event_file_add(event_file *f, int64_t step, double when, const event_scalar *list, int n,
                      error *err);
status event_file_close(event_file *f, error *err);

/* The checksum of the format: CRC-32C, turned and moved so that one of a text that holds checksums
 * is as good. */
uint32_t event_checksum(const void *data, size_t n);

#endif

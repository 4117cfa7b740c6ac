/* log.h - what the streams of a device are at: for the watchdog and for the text of a fault.
 *
 * L1  The host writes the name of an operation into its stream's ring before the operation is put,
 *     then its number. The device writes the number of the operation that a stream finished last: a
 *     GPU to pinned memory. Whoever reads both knows what a stream is at, from any thread and after
 *     a fault, without a call of the device.
 * L2  A ring is longer than what a device lets the host put ahead, so the name of what comes next
 *     is still there; a reader that is overtaken reads a later one.
 *
 * The program and the CUDA object have copies of this code and share the memory. */
#ifndef BACKEND_DEVICE_LOG_H
#define BACKEND_DEVICE_LOG_H

#include <stdatomic.h>

#include "backend/device/device.h"

enum { LOG_NAMES = 4096, LOG_TEXT = 2048 };

typedef struct log_name {
    const op *_Atomic o;
    const device_place *_Atomic at;
} log_name;

/* What a test build plants in operations (tests/emulated/faults.c): called when one is put into a
 * stream, and when a device that runs ahead begins it. `stream` is a GPU's, or NULL. */
typedef struct log_faults {
    void (*put)(const device *d, op_stream s, uint32_t number);
    void (*begin)(const device *d, op_stream s, uint32_t number, void *stream);
} log_faults;

typedef struct device_log {
    atomic_uint put[STREAM_COUNT];
    atomic_uint own[STREAM_COUNT];
    atomic_uint *finished; /* [STREAM_COUNT]: `own`, or pinned memory that a GPU writes */
    log_name names[STREAM_COUNT][LOG_NAMES];
    log_faults *faults; /* given back with the log; NULL in a release */
} device_log;

status log_open(device *d, error *err);
void log_close(device *d);

/* An operation is put into a stream, at d->place: returns its number. */
uint32_t log_put(device *d, op_stream s, const op *o);

/* Of a device of the host: the oldest operation that is not finished, is. */
void log_finish(device *d, op_stream s);

/* A device that runs ahead begins operation `number`. */
static inline void log_begin(const device *d, op_stream s, uint32_t number, void *stream)
{
    if (d->log->faults) d->log->faults->begin(d, s, number, stream);
}

/* Operations that are finished, of all streams; *busy: there are others. From any thread. */
uint64_t log_progress(const device *d, bool *busy);

/* "stream compute: experts.fc1 (GROUPED) of layer 3, microbatch 2, backward, is not finished
 * (operation 1234)", for every stream that is not at its end; cut to fit. From any thread. */
void log_text(const device *d, char *out, size_t room);

#endif

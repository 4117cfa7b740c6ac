/* readers.h - one reader a format. Internal to src/measure/profile. */
#ifndef MEASURE_PROFILE_READERS_H
#define MEASURE_PROFILE_READERS_H

#include "measure/profile/bytes.h"
#include "measure/profile/profile.h"

typedef struct profile_file {
    const char *name;
    bytes *b;     /* not of SQLite */
    int64_t size; /* taken so far */
} profile_file;

enum { EVENTS_MAX = 100 << 20 }; /* that are kept; more is refused */

status torch_read(profile *out, profile_events *e, const profile_file *f, error *err);
status nsight_read(profile *out, profile_events *e, const char *path, error *err);
status log_read(profile *out, const profile_file *f, arena *a, error *err);

/* Of a log: parts of the step by its timers. */
void log_explain(profile *out);

/* Appends, with times in seconds. */
void events_kernel(profile_events *e, profile_kernel k);
void events_call(profile_events *e, profile_call c);
void events_range(profile_events *e, profile_range r);

#endif

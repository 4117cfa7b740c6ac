/* scan.h - JSON as a stream: the reader says what it wants next and skips the rest. Internal to
 * src/measure/profile.
 *
 * A document of gigabytes is read in one pass and no tree is built. The first offence sets the
 * scan's error, after which every call does nothing and returns false: callers look once, at the
 * end. */
#ifndef MEASURE_PROFILE_SCAN_H
#define MEASURE_PROFILE_SCAN_H

#include "measure/profile/bytes.h"

enum { SCAN_TEXT = 1024 }; /* longer strings are cut */

typedef struct scan {
    bytes *b;
    const char *name; /* of the file */
    status s;
    error *err;
    char text[SCAN_TEXT]; /* the last string or key */
} scan;

typedef enum scan_kind {
    SCAN_OBJECT,
    SCAN_ARRAY,
    SCAN_STRING,
    SCAN_NUMBER,
    SCAN_WORD, /* true, false, null; and NaN or inf, which profilers write */
    SCAN_NOTHING
} scan_kind;

/* What comes next. */
scan_kind scan_peek(scan *c);

/* Into an object or array. */
bool scan_enter(scan *c, char bracket);

/* The next key of the object (in `text`), or the next element of the array: false at its end,
 * which is taken. *n counts from 0. */
bool scan_key(scan *c, int64_t *n);
bool scan_element(scan *c, int64_t *n);

bool scan_string(scan *c);
bool scan_number(scan *c, double *out);
void scan_skip(scan *c); /* any value */

#endif

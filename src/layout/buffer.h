/* buffer.h - how weights lie in a gradient buffer: alignment, buckets, padding. Internal to
 * state.c and its test. */
#ifndef LAYOUT_BUFFER_H
#define LAYOUT_BUFFER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/maths.h"

typedef struct buffer {
    int64_t align;       /* a weight starts at a multiple of this many elements */
    int64_t unit;        /* a bucket's length is a multiple of this */
    int64_t bucket_size; /* a bucket is closed once it holds as much; 0: never */
    int64_t bucket_start, end;
    int64_t last; /* where the (first) weight of the last call starts */
} buffer;

/* Appends `n` weights of `size` elements each. Alone: each in a bucket of its own. */
void buffer_add(buffer *b, int64_t n, int64_t size, bool alone);

/* Closes the last bucket; the length with all padding. */
int64_t buffer_close(buffer *b);

#endif

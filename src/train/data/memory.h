/* memory.h - memory for the long lists of an index.
 *
 * They are larger than anything else that a run keeps on the host and grow with what the user asks
 * for, so they are asked for with care: a size beyond this machine's memory is refused with its
 * reason, before the system starts to kill. */
#ifndef TRAIN_DATA_MEMORY_H
#define TRAIN_DATA_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* n items, not zeroed; given back with free. `what` says what for: "the order of 5 documents". */
status data_take(void **out, int64_t n, size_t item_bytes, const char *what, error *err);

#endif

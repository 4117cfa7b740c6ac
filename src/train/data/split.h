/* split.h - which sequences are for training, validation and test.
 *
 * A split is a text with up to three numbers ("969, 30, 1"); whatever is not a digit or a dot
 * only separates them. Each part is its number over the sum of all, in this order, and owns a
 * contiguous range of a file's sequences. The arithmetic is Megatron's, in double, rounding
 * halves to even: the ranges are Megatron's to the sequence. */
#ifndef TRAIN_DATA_SPLIT_H
#define TRAIN_DATA_SPLIT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef enum data_split { DATA_TRAIN, DATA_VALID, DATA_TEST, DATA_SPLITS } data_split;

extern const char *const data_split_names[DATA_SPLITS]; /* "train", "valid", "test" */

typedef struct split_ends {
    bool present[DATA_SPLITS]; /* false: a part of no width */
    double begin[DATA_SPLITS], end[DATA_SPLITS];
} split_ends;

status split_parse(split_ends *ends, const char *text, error *err);

typedef struct split_range {
    int64_t begin, end; /* sequences; may be empty although the part is present */
} split_range;
split_range split_of(const split_ends *ends, data_split which, int64_t n_sequences);

#endif

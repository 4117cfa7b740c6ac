/* tensor_file_sum.h - checksums of what is written and read: xxHash64, seed 0.
 *
 * It finds damage, not malice. The library comes as a header (Debian: libxxhash-dev) and is
 * compiled in, so nothing more is linked. */
#ifndef TRAIN_CHECKPOINT_TENSOR_FILE_SUM_H
#define TRAIN_CHECKPOINT_TENSOR_FILE_SUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SUM_TEXT_MAX = 17 }; /* 16 hexadecimal digits and a 0 */

typedef struct sum64 {
    uint64_t state[12]; /* the library's */
} sum64;

void sum_init(sum64 *s);
void sum_add(sum64 *s, const void *bytes, size_t n);
uint64_t sum_value(const sum64 *s);

uint64_t sum_of(const void *bytes, size_t n);

void sum_text(char out[SUM_TEXT_MAX], uint64_t sum);
bool sum_parse(const char *text, uint64_t *sum); /* exactly 16 lower-case digits */

#endif

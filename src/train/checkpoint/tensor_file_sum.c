/* tensor_file_sum.c - xxHash64. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "train/checkpoint/tensor_file_sum.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

_Static_assert(sizeof(XXH64_state_t) <= sizeof(sum64), "room for the library's state");

/* Copies in and out keep to the rules of aliasing; a state is 88 bytes. */
void sum_init(sum64 *s)
{
    XXH64_state_t state;
    memset(s, 0, sizeof *s);
    (void)XXH64_reset(&state, 0);
    memcpy(s, &state, sizeof state);
}

void sum_add(sum64 *s, const void *bytes, size_t n)
{
    XXH64_state_t state;
    memcpy(&state, s, sizeof state);
    (void)XXH64_update(&state, bytes, n);
    memcpy(s, &state, sizeof state);
}

uint64_t sum_value(const sum64 *s)
{
    XXH64_state_t state;
    memcpy(&state, s, sizeof state);
    return XXH64_digest(&state);
}

uint64_t sum_of(const void *bytes, size_t n)
{
    return XXH64(bytes, n, 0);
}

void sum_text(char out[SUM_TEXT_MAX], uint64_t sum)
{
    snprintf(out, SUM_TEXT_MAX, "%016" PRIx64, sum);
}

bool sum_parse(const char *text, uint64_t *sum)
{
    static const char digits[] = "0123456789abcdef";
    uint64_t v = 0;
    for (int i = 0; i < SUM_TEXT_MAX - 1; i++) {
        const char *d = text[i] ? strchr(digits, text[i]) : NULL;
        if (!d) return false;
        v = v << 4 | (uint64_t)(d - digits);
    }
    *sum = v;
    return text[SUM_TEXT_MAX - 1] == 0;
}

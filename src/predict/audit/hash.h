/* hash.h - one 64-bit number for many: to find what may be equal. Whatever must be equal is then
 * compared. */
#ifndef PREDICT_AUDIT_HASH_H
#define PREDICT_AUDIT_HASH_H

#include <stdint.h>

enum { HASH_START = 17 };

static inline uint64_t hash_add(uint64_t h, uint64_t x)
{
    h = (h ^ x) * 0xff51afd7ed558ccdull;
    h ^= h >> 32;
    h *= 0xc4ceb9fe1a85ec53ull;
    return h ^ h >> 29;
}

static inline uint64_t hash_text(uint64_t h, const char *s)
{
    for (; s && *s; s++) h = hash_add(h, (unsigned char)*s);
    return hash_add(h, 0);
}

#endif

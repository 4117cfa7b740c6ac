/* adder.h - sums over the members of a group, a block at a time; inside src/backend/comm only.
 *
 * I1  Members are added in the order of their ranks in the group.
 * I2  FP32, FP64 and INT32 are added as they are (INT32 wraps around). BF16 and FP16 are added in
 *     FP32, and the sum is rounded once: to nearest, ties to even.
 *
 * All backends that add by themselves do it here, so that they agree to the bit. */
#ifndef BACKEND_COMM_ADDER_H
#define BACKEND_COMM_ADDER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/dtype.h"

enum { ADDER_BLOCK = 1024 }; /* elements that are added at once */

typedef union adder {
    float f[ADDER_BLOCK];
    double d[ADDER_BLOCK];
    uint32_t u[ADDER_BLOCK];
} adder;

/* Is there a sum of this format? */
bool adder_has(dtype t);

/* Is it added in a wider format than it has? */
static inline bool adder_is_wider(dtype t)
{
    return t == DTYPE_BF16 || t == DTYPE_F16;
}

/* Adds `from`[n], n <= ADDER_BLOCK; the first member's are taken as they are. */
void adder_add(adder *s, dtype t, const void *from, int64_t n, bool first);

/* to[n] = the sum; it may be one of the members' lists. */
void adder_take(const adder *s, dtype t, void *to, int64_t n);

#endif

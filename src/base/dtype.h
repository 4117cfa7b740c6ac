/* dtype.h - the number formats of buffers, weights and messages.
 *
 * One table says what each is called and how many bits it takes: whoever needs bytes asks
 * dtype_bytes. Conversions to and from FP32 are here for the formats that a CPU computes with;
 * rounding is to nearest, ties to even, and a NaN stays one. */
#ifndef BASE_DTYPE_H
#define BASE_DTYPE_H

#include <stdint.h>
#include <string.h>

typedef enum dtype {
    DTYPE_F32, /* zero, so that it is what nobody named */
    DTYPE_F64,
    DTYPE_BF16,
    DTYPE_F16,
    DTYPE_E4M3, /* FP8: four bits of exponent */
    DTYPE_E5M2, /* FP8: five */
    DTYPE_E8M0, /* scales that are powers of two */
    DTYPE_FP4,  /* E2M1, two in a byte, the first in its low half */
    DTYPE_I32,
    DTYPE_I16,
    DTYPE_U8,
    DTYPE_COUNT
} dtype;

/* "BF16"; as people write it. */
const char *dtype_name(dtype t);

int dtype_bits(dtype t);

/* Bytes of n elements in a row, whole bytes; as large as an int64_t holds where it would be more. */
int64_t dtype_bytes(dtype t, int64_t n);

/* How many elements so many bytes hold. */
int64_t dtype_elements(dtype t, int64_t bytes);

static inline float bf16_to_float(uint16_t v)
{
    uint32_t bits = (uint32_t)v << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline uint16_t bf16_of_float(float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    if (v != v) return (uint16_t)(bits >> 16 | 64); /* rounding could turn a NaN into infinity */
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float f16_to_float(uint16_t v);
uint16_t f16_of_float(float v);

/* An array and its format. */
typedef struct typed {
    dtype type;
    void *at;
} typed;

/* Elements first .. first + n - 1 of an FP32 or BF16 array to FP32, and from it (rounded). */
void typed_read(float *out, typed from, int64_t first, int64_t n);
void typed_write(typed to, int64_t first, const float *in, int64_t n);

/* n elements, which do not overlap; exact one way, rounded the other. */
void bf16_to_floats(float *out, const uint16_t *in, int64_t n);
void bf16_of_floats(uint16_t *out, const float *in, int64_t n);

#endif

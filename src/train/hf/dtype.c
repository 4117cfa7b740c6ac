/* dtype.c - number formats of weight files. */
#include "train/hf/dtype.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/dtype.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "safetensors are little-endian");

static float float_of(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static uint16_t u16_at(const void *raw, int64_t i)
{
    uint16_t v;
    memcpy(&v, (const char *)raw + 2 * i, sizeof v);
    return v;
}

static void decode_f32(const void *raw, float *out, int64_t n)
{
    memcpy(out, raw, (size_t)n * sizeof *out);
}

static void decode_bf16(const void *raw, float *out, int64_t n)
{
    for (int64_t i = 0; i < n; i++) out[i] = bf16_to_float(u16_at(raw, i));
}

static void decode_f16(const void *raw, float *out, int64_t n)
{
    for (int64_t i = 0; i < n; i++) out[i] = f16_to_float(u16_at(raw, i));
}

/* Four bits of exponent, bias 7, no infinity; all ones is NaN. */
static float from_e4m3(uint8_t b)
{
    uint32_t sign = (uint32_t)(b >> 7) << 31, e = b >> 3 & 15, m = b & 7;
    if (e == 15 && m == 7) return float_of(sign | 0x7fc00000u);
    if (e) return float_of(sign | (e + 120) << 23 | m << 20);
    float tiny = ldexpf((float)m, -9);
    return sign ? -tiny : tiny;
}

static void decode_e4m3(const void *raw, float *out, int64_t n)
{
    const uint8_t *b = raw;
    for (int64_t i = 0; i < n; i++) out[i] = from_e4m3(b[i]);
}

static const hf_dtype dtypes[] = {
    {"F32", 4, false, decode_f32},
    {"BF16", 2, false, decode_bf16},
    {"F16", 2, false, decode_f16},
    {"F8_E4M3", 1, true, decode_e4m3},
};

const hf_dtype *hf_dtype_find(const char *name)
{
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++)
        if (strcmp(dtypes[i].name, name) == 0) return &dtypes[i];
    return NULL;
}

/* The low four bits of a byte come first; a scale is a power of two, bias 127. */
void hf_decode_mxfp4(const uint8_t *blocks, const uint8_t *scales, float *out, int64_t n)
{
    static const float table[16] = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                    -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};
    for (int64_t i = 0; i < n; i += 2) {
        int exponent = scales[i / 32] - 127;
        uint8_t pair = blocks[i / 2];
        out[i] = ldexpf(table[pair & 15], exponent);
        out[i + 1] = ldexpf(table[pair >> 4], exponent);
    }
}

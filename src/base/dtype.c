/* dtype.c - names and sizes of number formats, and conversions in rows. */
#include "base/dtype.h"

#include "base/maths.h"
#include "base/wide.h"

static const struct {
    const char *name;
    int bits;
} formats[DTYPE_COUNT] = {
    [DTYPE_F32] = {"FP32", 32},  [DTYPE_F64] = {"FP64", 64},     [DTYPE_BF16] = {"BF16", 16},
    [DTYPE_F16] = {"FP16", 16},  [DTYPE_E4M3] = {"FP8 E4M3", 8}, [DTYPE_E5M2] = {"FP8 E5M2", 8},
    [DTYPE_E8M0] = {"E8M0", 8},  [DTYPE_FP4] = {"FP4", 4},       [DTYPE_I32] = {"INT32", 32},
    [DTYPE_I16] = {"INT16", 16}, [DTYPE_U8] = {"UINT8", 8},
};

const char *dtype_name(dtype t)
{
    return formats[t].name;
}

int dtype_bits(dtype t)
{
    return formats[t].bits;
}

int64_t dtype_bytes(dtype t, int64_t n)
{
    int bits = formats[t].bits;
    return bits < 8 ? n / 2 + n % 2 : mul_sat(n, bits / 8);
}

int64_t dtype_elements(dtype t, int64_t bytes)
{
    int bits = formats[t].bits;
    return bits < 8 ? mul_sat(bytes, 2) : bytes / (bits / 8);
}

/* Versions by width are static: clang 14 gives one that others call another name. */
WIDE static void widen(float *restrict out, const uint16_t *restrict in, int64_t n)
{
    for (int64_t i = 0; i < n; i++) out[i] = bf16_to_float(in[i]);
}

WIDE static void narrow(uint16_t *restrict out, const float *restrict in, int64_t n)
{
    for (int64_t i = 0; i < n; i++) out[i] = bf16_of_float(in[i]);
}

void bf16_to_floats(float *out, const uint16_t *in, int64_t n)
{
    widen(out, in, n);
}

void bf16_of_floats(uint16_t *out, const float *in, int64_t n)
{
    narrow(out, in, n);
}

void typed_read(float *out, typed from, int64_t first, int64_t n)
{
    if (from.type == DTYPE_BF16)
        bf16_to_floats(out, (const uint16_t *)from.at + first, n);
    else
        memcpy(out, (const float *)from.at + first, (size_t)n * sizeof *out);
}

void typed_write(typed to, int64_t first, const float *in, int64_t n)
{
    if (to.type == DTYPE_BF16)
        bf16_of_floats((uint16_t *)to.at + first, in, n);
    else
        memcpy((float *)to.at + first, in, (size_t)n * sizeof *in);
}

/* Five bits of exponent, bias 15; 31 is infinity and NaN. 2^-24 is the smallest above 0. */
float f16_to_float(uint16_t v)
{
    uint32_t sign = (uint32_t)(v >> 15) << 31, e = v >> 10 & 31, m = v & 1023;
    if (!e) return (sign ? -0x1p-24f : 0x1p-24f) * (float)m;
    uint32_t bits = sign | (e == 31 ? 0x7f800000u : (e + 112) << 23) | m << 13;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

uint16_t f16_of_float(float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    bits &= 0x7fffffff;
    if (bits > 0x7f800000) return (uint16_t)(sign | 0x7e00 | (bits >> 13 & 1023));
    if (bits >= 0x477ff000) return (uint16_t)(sign | 0x7c00); /* 65520 and more: infinity */
    if (bits >= 0x38800000) /* 2^-14: a carry of the fraction goes on into the exponent */
        return (uint16_t)(sign | ((bits + 0xfff + (bits >> 13 & 1)) - (112u << 23)) >> 13);
    /* Adding 1/2 leaves the last bit of the sum worth 2^-24, as that of the result is. */
    float magnitude, shifted;
    memcpy(&magnitude, &bits, sizeof magnitude);
    shifted = magnitude + 0.5f;
    memcpy(&bits, &shifted, sizeof bits);
    return (uint16_t)(sign | (bits - 0x3f000000u));
}

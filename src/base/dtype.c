/* dtype.c - names and sizes of number formats, and conversions in rows. */
#include "base/dtype.h"

#include "base/maths.h"

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

void bf16_to_floats(float *out, const uint16_t *in, int64_t n)
{
    for (int64_t i = 0; i < n; i++) out[i] = bf16_to_float(in[i]);
}

void bf16_of_floats(uint16_t *out, const float *in, int64_t n)
{
    for (int64_t i = 0; i < n; i++) out[i] = bf16_of_float(in[i]);
}

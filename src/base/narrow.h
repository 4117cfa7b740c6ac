/* narrow.h - numbers of eight bits and fewer: E4M3, E5M2, E2M1, and scales in E8M0.
 *
 * Encoding rounds to nearest, ties to even, and what lies beyond the largest number becomes the
 * largest number, infinity too. NaN stays NaN, but E2M1 has none: there it becomes the largest
 * number, as the GPU's conversion does.
 *
 * Scales are powers of two that are found by the bits of a maximum alone: CPU and GPU agree. */
#ifndef BASE_NARROW_H
#define BASE_NARROW_H

#include <stdint.h>
#include <string.h>

#include "base/dtype.h"

#ifdef __CUDACC__
#define ON_BOTH static __host__ __device__ inline /* a GPU's kernels use the very same */
#else
#define ON_BOTH static inline
#endif

/* A format of a sign, an exponent and `fraction` bits behind it. */
typedef struct narrow_format {
    int fraction, bias;
    uint8_t most, nan; /* codes of the largest number and of NaN, without sign */
    float largest;
} narrow_format;

ON_BOTH narrow_format narrow_format_of(dtype t)
{
    const narrow_format e4m3 = {3, 7, 0x7e, 0x7f, 448}, e5m2 = {2, 15, 0x7b, 0x7f, 57344},
                        e2m1 = {1, 1, 7, 7, 6};
    return t == DTYPE_E4M3 ? e4m3 : t == DTYPE_E5M2 ? e5m2 : e2m1;
}

ON_BOTH uint32_t float_bits(float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

ON_BOTH float float_of_bits(uint32_t bits)
{
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

/* 2^e, -126 <= e <= 127. */
ON_BOTH float power_of_two(int e)
{
    return float_of_bits((uint32_t)(e + 127) << 23);
}

ON_BOTH uint8_t narrow_of_float(narrow_format f, float v)
{
    uint32_t bits = float_bits(v), size = bits & 0x7fffffff, code;
    uint8_t sign = (uint8_t)(bits >> 31 << (f.most < 8 ? 3 : 7));
    if (size > 0x7f800000) return f.most < 8 ? f.most : (uint8_t)(sign | f.nan);
    if (size >= (uint32_t)(128 - f.bias) << 23) { /* normal: a carry goes on into the exponent */
        int drop = 23 - f.fraction;
        uint32_t half = (1u << (drop - 1)) - 1;
        code = (size + half + (size >> drop & 1)) >> drop;
        code -= (uint32_t)(127 - f.bias) << f.fraction;
    } else { /* the last bit of this sum is worth what the format's smallest number is */
        float one = power_of_two(24 - f.bias - f.fraction);
        code = float_bits(float_of_bits(size) + one) - float_bits(one);
    }
    return (uint8_t)(sign | (code < f.most ? code : f.most));
}

ON_BOTH float narrow_to_float(narrow_format f, uint8_t code)
{
    int top = f.most < 8 ? 3 : 7;
    uint32_t size = code & ((1u << top) - 1), sign = (uint32_t)(code >> top & 1) << 31;
    if (f.most >= 8 && size > f.most) /* E5M2 has infinity, too */
        return float_of_bits(sign | (f.fraction == 2 && size == 0x7c ? 0x7f800000u : 0x7fc00000u));
    uint32_t e = size >> f.fraction, m = size & ((1u << f.fraction) - 1);
    float one = power_of_two((e ? (int)e : 1) - f.bias - f.fraction);
    float v = one * (float)(e ? m + (1u << f.fraction) : m);
    return sign ? -v : v;
}

/* ---- scales */

ON_BOTH float e8m0_to_float(uint8_t code)
{
    return code == 255 ? float_of_bits(0x7fc00000u)
           : code      ? float_of_bits((uint32_t)code << 23)
                       : float_of_bits(0x00400000u);
}

/* The code of a power of two. */
ON_BOTH uint8_t e8m0_of_power(float v)
{
    return (uint8_t)(float_bits(v) >> 23);
}

/* The smallest power of two s, not below 2^-126, with amax / s <= largest; 1 where amax is 0. What
 * is infinite takes the scale of the largest finite number. */
ON_BOTH float scale_of_amax(float amax, float largest)
{
    uint32_t a = float_bits(amax), l = float_bits(largest);
    if (a == 0) return 1;
    if (a > 0x7f7fffff) a = 0x7f7fffff;
    int e = (int)(a >> 23) - (int)(l >> 23) + ((a & 0x7fffff) > (l & 0x7fffff) ? 1 : 0);
    return power_of_two(e < -126 ? -126 : e);
}

/* The factor of a whole tensor: `reach` over the largest number; 1 where that is 0 or infinite. */
ON_BOTH float factor_of_amax(float amax, float reach)
{
    if (amax == 0 || float_bits(amax) >= 0x7f800000) return 1;
    float factor = reach / amax;
    return float_bits(factor) < 0x7f800000 ? factor : float_of_bits(0x7f7fffffu);
}

#endif

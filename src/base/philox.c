/* philox.c - the generator, and uniform and normal values from it.
 *
 * I1  Number i is lane i mod 4 of block i / 4, so blocks are the only state.
 * I2  Normal values come in pairs (Box and Muller): lanes 0, 1 from the first two words of a block,
 *     lanes 2, 3 from the others. Each word is used once.
 * I3  No function of the C library rounds here but sqrt, which is exact to the last bit everywhere,
 *     and no product is contracted with its sum: the values are the same on every machine. */
#include "base/philox.h"

#include <math.h>
#include <stdbool.h>

#ifdef __clang__
#pragma STDC FP_CONTRACT OFF /* I3; gcc contracts nothing in ISO C */
#endif

static void round_of_philox(uint32_t c[4], const uint32_t key[2])
{
    uint64_t a = (uint64_t)0xD2511F53u * c[0], b = (uint64_t)0xCD9E8D57u * c[2];
    uint32_t c1 = c[1], c3 = c[3];
    c[0] = (uint32_t)(b >> 32) ^ c1 ^ key[0];
    c[1] = (uint32_t)b;
    c[2] = (uint32_t)(a >> 32) ^ c3 ^ key[1];
    c[3] = (uint32_t)a;
}

void philox_block(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t k[2] = {key[0], key[1]};
    for (int i = 0; i < 4; i++) out[i] = counter[i];
    for (int i = 0; i < 10; i++) {
        round_of_philox(out, k);
        k[0] += 0x9E3779B9u;
        k[1] += 0xBB67AE85u;
    }
}

philox philox_stream(uint64_t seed, uint64_t id)
{
    return (philox){{(uint32_t)seed, (uint32_t)(seed >> 32)}, {(uint32_t)id, (uint32_t)(id >> 32)}};
}

uint64_t philox_id(const char *name)
{
    uint64_t h = 0xCBF29CE484222325u;
    for (; *name; name++) h = (h ^ (unsigned char)*name) * 0x100000001B3u;
    return h;
}

/* ---- logarithm and circle */

/* ln m = 2 atanh((m - 1) / (m + 1)); with m between sqrt(1/2) and sqrt(2) eleven terms of the
 * series are exact to a double's last bits. */
static double natural_log(double x)
{
    static const double term[] = {1.0 / 21, 1.0 / 19, 1.0 / 17, 1.0 / 15, 1.0 / 13, 1.0 / 11,
                                  1.0 / 9,  1.0 / 7,  1.0 / 5,  1.0 / 3,  1.0};
    int exponent;
    double m = frexp(x, &exponent);
    if (m < 0.70710678118654752) {
        m *= 2;
        exponent -= 1;
    }
    double s = (m - 1) / (m + 1), z = s * s, sum = 0;
    for (int i = 0; i < 11; i++) sum = sum * z + term[i];
    return exponent * 0.69314718055994531 + 2 * s * sum;
}

/* A point of the unit circle: the two upper bits of the word choose a quarter, the rest an angle a
 * of at most 45 degrees to either side of its middle, where short series of sine and cosine do. */
static void circle_point(uint32_t word, double *x, double *y)
{
    static const double sine[] = {
        -1.0 / 1307674368000, 1.0 / 6227020800, -1.0 / 39916800, 1.0 / 362880,
        -1.0 / 5040,          1.0 / 120,        -1.0 / 6,        1.0};
    static const double cosine[] = {1.0 / 20922789888000,
                                    -1.0 / 87178291200,
                                    1.0 / 479001600,
                                    -1.0 / 3628800,
                                    1.0 / 40320,
                                    -1.0 / 720,
                                    1.0 / 24,
                                    -1.0 / 2,
                                    1.0};
    double step = 1.5707963267948966 / 1073741824; /* a quarter turn over 2^30 */
    double a = ((double)(word & 0x3FFFFFFFu) - 536870911.5) * step, z = a * a, s = 0, c = 0;
    for (int i = 0; i < 8; i++) s = s * z + sine[i];
    for (int i = 0; i < 9; i++) c = c * z + cosine[i];
    s *= a;
    bool odd = word & 0x40000000u, half = word & 0x80000000u;
    *x = odd ? -s : c;
    *y = odd ? c : s;
    if (half) {
        *x = -*x;
        *y = -*y;
    }
}

/* ---- values */

typedef struct shape {
    bool normal;
    double scale, shift;
} shape;

static void values_of_block(const uint32_t word[4], const shape *as, double v[4])
{
    const double unit = 1.0 / 4294967296.0;
    if (!as->normal) {
        for (int i = 0; i < 4; i++) v[i] = ((double)word[i] + 0.5) * unit;
        return;
    }
    for (int i = 0; i < 4; i += 2) { /* I2 */
        double radius = sqrt(-2 * natural_log(((double)word[i] + 1) * unit));
        circle_point(word[i + 1], &v[i], &v[i + 1]);
        v[i] *= radius;
        v[i + 1] *= radius;
    }
}

static void fill(const philox *g, uint64_t first, int64_t n, const shape *as, float *out)
{
    for (uint64_t at = first, end = first + (uint64_t)n; at < end;) {
        uint64_t block = at / 4; /* I1 */
        uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), g->id[0], g->id[1]};
        uint32_t word[4];
        double v[4];
        philox_block(counter, g->key, word);
        values_of_block(word, as, v);
        do {
            *out++ = (float)(as->shift + as->scale * v[at++ % 4]);
        } while (at < end && at % 4 != 0);
    }
}

void philox_uniform(const philox *g, uint64_t first, int64_t n, double low, double high, float *out)
{
    shape as = {false, high - low, low};
    fill(g, first, n, &as, out);
}

void philox_normal(const philox *g, uint64_t first, int64_t n, double deviation, float *out)
{
    shape as = {true, deviation, 0};
    fill(g, first, n, &as, out);
}

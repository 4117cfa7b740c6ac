/* philox.c - the generator, and uniform and normal values from it.
 *
 * I1  Number i is lane i mod 4 of block i / 4, so blocks are the only state.
 * I2  Normal values come in pairs (Box and Muller): lanes 0, 1 from the first two words of a block,
 *     lanes 2, 3 from the others. Each word is used once.
 * I3  Many blocks are made at a time, word by word of all of them, so that loops become vectors.
 * I4  No function of the C library rounds here but sqrt, which is exact to the last bit everywhere,
 *     and no GEMM is contracted with its sum: the values are the same on every machine. */
#include "base/philox.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/wide.h"

#ifdef __clang__
#pragma STDC FP_CONTRACT OFF /* I4; gcc contracts nothing in ISO C */
#endif

/* What a function that is compiled for each width calls is compiled with it. */
#define EACH_WIDTH inline __attribute__((always_inline))

enum { ROUNDS = 10 };

static EACH_WIDTH void round_of_philox(uint32_t c[4], const uint32_t key[2])
{
    uint64_t a = (uint64_t)0xD2511F53u * c[0], b = (uint64_t)0xCD9E8D57u * c[2];
    uint32_t c1 = c[1], c3 = c[3];
    c[0] = (uint32_t)(b >> 32) ^ c1 ^ key[0];
    c[1] = (uint32_t)b;
    c[2] = (uint32_t)(a >> 32) ^ c3 ^ key[1];
    c[3] = (uint32_t)a;
}

static EACH_WIDTH void next_key(uint32_t key[2])
{
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
}

void philox_block(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t k[2] = {key[0], key[1]};
    memcpy(out, counter, 4 * sizeof *out);
    for (int i = 0; i < ROUNDS; i++) {
        round_of_philox(out, k);
        next_key(k);
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

/* ---- words of many blocks */

/* Blocks at a time. */
enum { LANES = 32 };

typedef struct words {
    uint32_t of[4][LANES]; /* I3 */
} words;

/* What `philox_block` makes of blocks first .. first + LANES - 1 of a stream. */
static EACH_WIDTH void words_of(words *w, const philox *g, uint64_t first)
{
    uint32_t key[2] = {g->key[0], g->key[1]};
    for (int l = 0; l < LANES; l++) {
        uint64_t block = first + (uint64_t)l;
        w->of[0][l] = (uint32_t)block;
        w->of[1][l] = (uint32_t)(block >> 32);
        w->of[2][l] = g->id[0];
        w->of[3][l] = g->id[1];
    }
    for (int i = 0; i < ROUNDS; i++) {
        for (int l = 0; l < LANES; l++) {
            uint32_t c[4] = {w->of[0][l], w->of[1][l], w->of[2][l], w->of[3][l]};
            round_of_philox(c, key);
            for (int k = 0; k < 4; k++) w->of[k][l] = c[k];
        }
        next_key(key);
    }
}

/* ---- logarithm and circle */

/* ln m = 2 atanh((m - 1) / (m + 1)); with m between sqrt(1/2) and sqrt(2) eleven terms of the
 * series are exact to a double's last bits. x is at least 2^-32. */
static EACH_WIDTH double natural_log(double x)
{
    static const double term[] = {1.0 / 21, 1.0 / 19, 1.0 / 17, 1.0 / 15, 1.0 / 13, 1.0 / 11,
                                  1.0 / 9,  1.0 / 7,  1.0 / 5,  1.0 / 3,  1.0};
    uint64_t bits, half = (uint64_t)1022 << 52;
    memcpy(&bits, &x, sizeof bits);
    int32_t exponent = (int32_t)(bits >> 52) - 1022; /* as frexp: m is 1/2 or more, below 1 */
    bits = (bits & (((uint64_t)1 << 52) - 1)) | half;
    double m;
    memcpy(&m, &bits, sizeof m);
    bool low = m < 0.70710678118654752;
    m = low ? m * 2 : m;
    exponent -= low;
    double s = (m - 1) / (m + 1), z = s * s, sum = 0;
    for (int i = 0; i < 11; i++) sum = sum * z + term[i];
    return exponent * 0.69314718055994531 + 2 * s * sum;
}

/* A point of the unit circle: the two upper bits of the word choose a quarter, the rest an angle a
 * of at most 45 degrees to either side of its middle, where short series of sine and cosine do. */
static EACH_WIDTH void circle_point(uint32_t word, double *x, double *y)
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
    double a = ((double)(int32_t)(word & 0x3FFFFFFFu) - 536870911.5) * step, z = a * a;
    double s = 0, c = 0;
    for (int i = 0; i < 8; i++) s = s * z + sine[i];
    for (int i = 0; i < 9; i++) c = c * z + cosine[i];
    s *= a;
    double sign = 1.0 - 2.0 * (double)(int32_t)(word >> 31);
    bool odd = word & 0x40000000u;
    *x = sign * (odd ? -s : c);
    *y = sign * (odd ? c : s);
}

/* ---- values */

typedef struct shape {
    bool normal;
    double scale, shift;
} shape;

/* A word as a number; the way by signed numbers is the one that every width of vectors has. */
static EACH_WIDTH double number_of(uint32_t word)
{
    return (double)(int32_t)(word ^ 0x80000000u) + 2147483648.0;
}

static EACH_WIDTH void uniform_values(const words *w, double v[4][LANES])
{
    for (int i = 0; i < 4; i++)
        for (int l = 0; l < LANES; l++)
            v[i][l] = (number_of(w->of[i][l]) + 0.5) * (1.0 / 4294967296.0);
}

static EACH_WIDTH void normal_values(const words *w, double v[4][LANES])
{
    for (int i = 0; i < 4; i += 2) /* I2 */
        for (int l = 0; l < LANES; l++) {
            double u = (number_of(w->of[i][l]) + 1) * (1.0 / 4294967296.0);
            double radius = sqrt(-2 * natural_log(u)), x, y;
            circle_point(w->of[i + 1][l], &x, &y);
            v[i][l] = x * radius;
            v[i + 1][l] = y * radius;
        }
}

/* The numbers of LANES blocks. */
WIDE static void numbers_of_blocks(const philox *g, uint64_t first, const shape *as,
                                   float out[4 * LANES])
{
    words w;
    double v[4][LANES];
    words_of(&w, g, first);
    if (as->normal)
        normal_values(&w, v);
    else
        uniform_values(&w, v);
    for (int l = 0; l < LANES; l++)
        for (int i = 0; i < 4; i++) out[4 * l + i] = (float)(as->shift + as->scale * v[i][l]);
}

static void fill(const philox *g, uint64_t first, int64_t n, const shape *as, float *out)
{
    float some[4 * LANES];
    for (uint64_t at = first, end = first + (uint64_t)n; at < end;) {
        uint64_t block = at / 4, skip = at % 4, count = 4 * LANES - skip; /* I1 */
        if (count > end - at) count = end - at;
        bool whole = count == 4 * LANES;
        numbers_of_blocks(g, block, as, whole ? out : some);
        if (!whole) memcpy(out, some + skip, count * sizeof *out);
        out += count;
        at += count;
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

/* numpy.c - MT19937 and PCG64 as numpy drives them, and its sums.
 *
 * I1  A draw in [0, max] takes raw words AND the smallest mask that covers max, until one is
 *     <= max. Every rejected word is spent: the number of draws is part of the order.
 * I2  PCG64 hands out a 64-bit output as two 32-bit ones, the lower half first. */
#include "train/data/numpy.h"

enum { MT_SHIFT = 397 };

void numpy_seed(numpy_state *r, uint32_t seed)
{
    for (uint32_t i = 0; i < MT_WORDS; i++) {
        r->key[i] = seed;
        seed = 1812433253u * (seed ^ seed >> 30) + i + 1;
    }
    r->at = MT_WORDS;
}

static uint32_t twist(uint32_t upper, uint32_t lower, uint32_t far)
{
    uint32_t y = (upper & 0x80000000u) | (lower & 0x7fffffffu);
    return far ^ y >> 1 ^ ((lower & 1) ? 0x9908b0dfu : 0);
}

static void refill(numpy_state *r)
{
    uint32_t *k = r->key;
    int i = 0;
    for (; i < MT_WORDS - MT_SHIFT; i++) k[i] = twist(k[i], k[i + 1], k[i + MT_SHIFT]);
    for (; i < MT_WORDS - 1; i++) k[i] = twist(k[i], k[i + 1], k[i + MT_SHIFT - MT_WORDS]);
    k[i] = twist(k[i], k[0], k[MT_SHIFT - 1]);
    r->at = 0;
}

uint32_t numpy_next(numpy_state *r)
{
    if (r->at == MT_WORDS) refill(r);
    uint32_t y = r->key[r->at++];
    y ^= y >> 11;
    y ^= y << 7 & 0x9d2c5680u;
    y ^= y << 15 & 0xefc60000u;
    return y ^ y >> 18;
}

static uint64_t next64(numpy_state *r)
{
    uint64_t upper = numpy_next(r);
    return upper << 32 | numpy_next(r);
}

uint64_t numpy_interval(numpy_state *r, uint64_t max)
{
    if (max == 0) return 0;
    uint64_t mask = UINT64_MAX >> __builtin_clzll(max), v;
    do v = (max <= UINT32_MAX ? numpy_next(r) : next64(r)) & mask;
    while (v > max); /* I1 */
    return v;
}

/* Partners do not depend on the items, so they are drawn some way ahead and their cache lines
 * asked for: the items of a large set lie outside every cache, and the misses then overlap (2.2 s
 * became 0.7 for 20 million). The order of draws and of swaps is the plain one. */
enum { AHEAD = 64 };

#define SHUFFLE(name, type)                                                                        \
    void name(numpy_state *r, type *items, int64_t n)                                              \
    {                                                                                              \
        uint64_t partner[AHEAD];                                                                   \
        for (int64_t last = n - 1, end; last > 0; last = end) {                                    \
            end = last > AHEAD ? last - AHEAD : 0;                                                 \
            for (int64_t i = last; i > end; i--) {                                                 \
                partner[last - i] = numpy_interval(r, (uint64_t)i);                                \
                __builtin_prefetch(&items[partner[last - i]], 1);                                  \
            }                                                                                      \
            for (int64_t i = last; i > end; i--) {                                                 \
                uint64_t j = partner[last - i];                                                    \
                type kept = items[j];                                                              \
                items[j] = items[i];                                                               \
                items[i] = kept;                                                                   \
            }                                                                                      \
        }                                                                                          \
    }
SHUFFLE(numpy_shuffle32, uint32_t)
SHUFFLE(numpy_shuffle64, uint64_t)

/* ---- SeedSequence: a small seed is stirred into a pool, the pool into the generator's state */

enum { POOL = 4 };

typedef struct stirrer {
    uint32_t constant, factor;
} stirrer;

static uint32_t stir(stirrer *s, uint32_t v)
{
    v ^= s->constant;
    s->constant *= s->factor;
    v *= s->constant;
    return v ^ v >> 16;
}

static uint32_t blend(uint32_t x, uint32_t y)
{
    uint32_t v = 0xca01f9ddu * x - 0x4973f715u * y;
    return v ^ v >> 16;
}

static void pool_fill(uint32_t *pool, uint32_t seed)
{
    stirrer s = {0x43b0d7e5u, 0x931e8875u};
    for (int i = 0; i < POOL; i++) pool[i] = stir(&s, i == 0 ? seed : 0);
    for (int from = 0; from < POOL; from++)
        for (int to = 0; to < POOL; to++)
            if (to != from) pool[to] = blend(pool[to], stir(&s, pool[from]));
}

/* ---- PCG64 (XSL RR) */

__extension__ typedef unsigned __int128 wide;

static wide wide_of(const uint64_t *halves)
{
    return (wide)halves[1] << 64 | halves[0];
}

static void wide_put(uint64_t *halves, wide v)
{
    halves[0] = (uint64_t)v;
    halves[1] = (uint64_t)(v >> 64);
}

static void pcg_step(numpy_pcg *g)
{
    const wide factor = (wide)2549297995355413924u << 64 | 4865540595714422341u;
    wide_put(g->state, wide_of(g->state) * factor + wide_of(g->step));
}

void numpy_pcg_seed(numpy_pcg *g, uint32_t seed)
{
    uint32_t pool[POOL];
    uint64_t word[4];
    pool_fill(pool, seed);
    stirrer s = {0x8b51f9ddu, 0x58f38dedu};
    for (int i = 0; i < 4; i++) {
        uint64_t low = stir(&s, pool[2 * i % POOL]);
        word[i] = low | (uint64_t)stir(&s, pool[(2 * i + 1) % POOL]) << 32;
    }
    wide start = (wide)word[0] << 64 | word[1], sequence = (wide)word[2] << 64 | word[3];
    wide_put(g->step, sequence << 1 | 1);
    wide_put(g->state, 0);
    pcg_step(g);
    wide_put(g->state, wide_of(g->state) + start);
    pcg_step(g);
    g->has_kept = false;
}

static uint32_t pcg_next(numpy_pcg *g)
{
    if (g->has_kept) {
        g->has_kept = false;
        return g->kept;
    }
    pcg_step(g);
    uint64_t v = g->state[1] ^ g->state[0];
    unsigned turn = (unsigned)(g->state[1] >> 58);
    v = v >> turn | v << (-turn & 63);
    g->kept = (uint32_t)(v >> 32); /* I2 */
    g->has_kept = true;
    return (uint32_t)v;
}

/* Lemire's method: the upper half of a product is the draw, a small lower half may be a bias. */
uint32_t numpy_pcg_below(numpy_pcg *g, uint32_t n)
{
    uint64_t product = (uint64_t)pcg_next(g) * n;
    if ((uint32_t)product < n) {
        uint32_t reject = (0u - n) % n;
        while ((uint32_t)product < reject) product = (uint64_t)pcg_next(g) * n;
    }
    return (uint32_t)(product >> 32);
}

/* ---- pairwise summation */

enum { LANES = 8, BLOCK = 128 };

static double sum_lanes(const double *v, int64_t n)
{
    double lane[LANES];
    int64_t i = LANES;
    for (int j = 0; j < LANES; j++) lane[j] = v[j];
    for (; i < n - n % LANES; i += LANES)
        for (int j = 0; j < LANES; j++) lane[j] += v[i + j];
    double sum =
        ((lane[0] + lane[1]) + (lane[2] + lane[3])) + ((lane[4] + lane[5]) + (lane[6] + lane[7]));
    for (; i < n; i++) sum += v[i];
    return sum;
}

double numpy_sum(const double *v, int64_t n)
{
    if (n > BLOCK) {
        int64_t half = n / 2 - n / 2 % LANES;
        return numpy_sum(v, half) + numpy_sum(v + half, n - half);
    }
    if (n >= LANES) return sum_lanes(v, n);
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += v[i];
    return sum;
}

void numpy_normalize(double *v, int64_t n)
{
    double sum = numpy_sum(v, n);
    for (int64_t i = 0; i < n; i++) v[i] /= sum;
}

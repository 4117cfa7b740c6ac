/* philox.h - random numbers by counter (Philox 4x32-10, Salmon and others 2011).
 *
 * Number i of a stream depends on (seed, id, i) and on nothing else: not on what was drawn before,
 * not on who draws it. So a weight starts with the same values however it is cut and whichever
 * rank or thread fills it. The seed is the key and the id the upper half of the counter: two
 * streams of one seed never meet.
 *
 * Values are made with additions, GEMMs, divisions and square roots only, which IEEE 754 rounds
 * in one way; the logarithm and the circle of a C library differ from machine to machine. */
#ifndef BASE_PHILOX_H
#define BASE_PHILOX_H

#include <stdint.h>

typedef struct philox {
    uint32_t key[2]; /* seed, low half first */
    uint32_t id[2];
} philox;

/* The bare generator: 128 bits of counter to 128 random bits. */
void philox_block(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

philox philox_stream(uint64_t seed, uint64_t id);

/* An id for a name (64-bit FNV-1a); the same on every machine. */
uint64_t philox_id(const char *name);

/* Numbers first .. first + n - 1 of the stream into out[n]. Any cut of a range into calls gives the
 * same values. Uniform is in [low, high] (without rounding it would not reach either), normal has
 * mean 0 and ends at 6.7 standard deviations. */
void philox_uniform(const philox *g, uint64_t first, int64_t n, double low, double high,
                    float *out);
void philox_normal(const philox *g, uint64_t first, int64_t n, double deviation, float *out);

#endif

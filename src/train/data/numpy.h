/* numpy.h - numpy's random numbers, number for number, and its sums.
 *
 * Megatron's order of data is a few calls of numpy's shuffle, and the lengths of its mock sequences
 * are numpy's integers; whoever wants the same order needs the same generators.
 *
 * RandomState is MT19937 with the seeding and the rejection of numpy's legacy interface, which
 * numpy has frozen. default_rng is PCG64 seeded by SeedSequence, of which only a seed of 32 bits
 * and bounded 32-bit integers are here. */
#ifndef TRAIN_DATA_NUMPY_H
#define TRAIN_DATA_NUMPY_H

#include <stdbool.h>
#include <stdint.h>

enum { MT_WORDS = 624 };

/* numpy.random.RandomState(seed) */
typedef struct numpy_state {
    uint32_t key[MT_WORDS];
    int at; /* next word of key; MT_WORDS: all are used up */
} numpy_state;

void numpy_seed(numpy_state *r, uint32_t seed);

/* 32 raw bits. */
uint32_t numpy_next(numpy_state *r);

/* Uniform in [0, max], both included; one draw of 64 bits where 32 are too few. */
uint64_t numpy_interval(numpy_state *r, uint64_t max);

/* RandomState.shuffle. The order does not depend on the width of the items. */
void numpy_shuffle32(numpy_state *r, uint32_t *items, int64_t n);
void numpy_shuffle64(numpy_state *r, uint64_t *items, int64_t n);

/* numpy.random.default_rng(seed) */
typedef struct numpy_pcg {
    uint64_t state[2], step[2]; /* 128 bits each, low half first */
    uint32_t kept;              /* the upper half of the last 64-bit output */
    bool has_kept;
} numpy_pcg;

void numpy_pcg_seed(numpy_pcg *g, uint32_t seed);

/* Generator.integers(0, n) for types of 32 bits; n > 0. */
uint32_t numpy_pcg_below(numpy_pcg *g, uint32_t n);

/* ---- sums as numpy rounds them.
 *
 * A blend's weights are divided by their sum, and one bit there can move a sample. numpy adds eight
 * neighbours side by side and halves what is longer than 128. */

double numpy_sum(const double *v, int64_t n);

/* Divides all by their sum. */
void numpy_normalize(double *v, int64_t n);

#endif

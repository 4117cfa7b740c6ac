/* init_weights.h - the values that weights start with: Megatron's distributions, our numbers.
 *
 * Megatron draws each rank's shard from that rank's own stream, so its first weights depend on the
 * layout. Ours come from a counter-based generator keyed by the seed, the weight's name and the
 * element's place in the whole weight (base/philox.h): every layout starts alike, and a larger
 * padded vocabulary only adds rows.
 *
 * N is a plain normal distribution, sigma is model.init_method_std:
 *
 *     INIT_NORMAL     N(0, sigma)
 *     INIT_OUTPUT     N(0, sigma / sqrt(2 layers)), prediction modules not counted
 *     INIT_EMBEDDING  N(0, model.embedding_init_method_std), sigma where that is not given
 *     INIT_CONV       U(-1/sqrt(taps), 1/sqrt(taps))
 *     INIT_A_LOG      log of U(1, 16)
 *     INIT_ONE, INIT_ZERO */
#ifndef TRAIN_EXECUTOR_INIT_WEIGHTS_H
#define TRAIN_EXECUTOR_INIT_WEIGHTS_H

#include "ir/weights.h"

/* Fills a rank's weights[w->elements], buffers and padding (zero) included. `at` NULL: one rank
 * with the whole model. With model.perform_initialization off all of it is zero: the values come
 * from a checkpoint. */
void init_weights(const setup *s, const rank_at *at, const weight_list *w, uint64_t seed,
                  float *weights);

/* One of them, part[w->n]. */
void init_weight(const setup *s, const rank_at *at, const weight *w, uint64_t seed, float *part);

/* Elements first .. first + n - 1 of that part, out[n]. */
typedef struct init_span {
    int64_t first, n;
} init_span;
void init_range(const setup *s, const rank_at *at, const weight *w, uint64_t seed, init_span of,
                float *out);

/* Where the elements of one weight come from; `name` is the global one (weight_name). */
typedef struct init_source {
    const setup *s;
    const param *row;
    const char *name;
    uint64_t seed;
} init_source;

/* Elements first .. first + n - 1 of the whole weight, row-major, into out[n]: what a rank fills
 * that holds a part of it. */
void init_elements(const init_source *from, int64_t first, int64_t n, float *out);

#endif

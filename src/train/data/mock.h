/* mock.h - Megatron's mock data: sequences without a file.
 *
 * 100,000 sequences of 1 to 4,095 tokens (numpy's default_rng(0), whatever the run's seed is);
 * one of length n holds 1, 2, ..., n-1, each modulo the vocabulary, and the id that ends it. */
#ifndef TRAIN_DATA_MOCK_H
#define TRAIN_DATA_MOCK_H

#include "base/arena.h"
#include "train/data/store.h"

typedef struct mock_store {
    data_store store; /* first: the store's `read` finds the rest behind it */
    int32_t eod;
} mock_store;

/* The lengths come from `a`; nothing is to be closed. */
status mock_init(mock_store *m, arena *a, int32_t vocab_size, int32_t eod, error *err);

#endif
